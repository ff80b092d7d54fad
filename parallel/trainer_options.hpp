// What a Trainer can be told, what its callbacks hear, and what a run comes to.
// Plain data. Threads: values.
#pragma once

#include <hearth/modules/evaluation_metric.hpp>
#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/learning_rate_schedule.hpp>
#include <hearth/modules/safetensors.hpp>
#include <hearth/modules/training_console.hpp>
#include <hearth/modules/training_history.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/runtime/device.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hearth {

/// A run ends when the figure that it watches has not improved for `patience` epochs.
struct EarlyStopping {
  std::int64_t patience = 10;  ///< Epochs without a better figure.
  double min_change = 0;       ///< By how much a figure must be better to count.
};

/// What callbacks hear after a step.
struct TrainingStep {
  std::int64_t step = 0;  ///< From 1, over all epochs.
  RunPlace place;         ///< Batches are counted: a step may take several.
  double loss = 0;        ///< Of the step's batches, before it.
  std::int64_t sample_count = 0;
  double learning_rate = 0;
  std::chrono::nanoseconds duration{0};
};

/// What a callback can ask of the run.
struct RunControl {
  bool stop = false;  ///< Set it: the run saves its state, and ends.
};

/// Called on the thread of fit(), between two steps. What they throw ends fit().
struct TrainerCallback {
  /// After each step.
  std::function<void(const TrainingStep& step, RunControl& control)> on_step = {};
  /// After each whole epoch, before what came of it is saved. A run that ends in it goes on with
  /// the same epoch's validation.
  std::function<void(const EpochRecord& epoch, RunControl& control)> on_epoch = {};
};

/// How a Trainer divides its batches among devices.
enum class ShardSizes : std::uint8_t {
  /// By the speed that devices of different kinds show in the first steps, and now and then again.
  /// Devices of one kind get the same. The gradient of a step is that of its whole batch either
  /// way, up to rounding; a run that is to give the same bits each time divides evenly.
  by_speed,
  equal,
};

struct TrainerOptions {
  // ---- what is trained, and how ----
  std::vector<Device> devices = {};  ///< They share each batch; empty: all of Runtime::devices().
  std::int64_t epochs = 10;          ///< How often to go through the data.
  OptimizerConfig optimizer = Adam::Config{};      ///< Its class and settings.
  LearningRateSchedule schedule = ConstantRate{};  ///< Of the optimizer's learning rate.
  GradientClip clip = {};                          ///< Limit of the gradients of a step.
  std::int64_t accumulate = 1;                     ///< Batches that make one step.
  /// The decay of a WeightAverage over the steps; 0: none. With one, the averaged weights are
  /// validated, kept as the best ones and saved at the end.
  double average_decay = 0;
  std::uint64_t seed = 0;  ///< Of the order of the data, and of random layers.
  /// For fit() with data sets: examples in a batch, over all devices.
  std::int64_t batch_size = 32;
  bool drop_last = false;  ///< As LoaderOptions::drop_last, of the training data.
  /// How batches are divided. A runtime that is `deterministic` divides evenly in any case; batch
  /// sources of the program's own divide as they do.
  ShardSizes shards = ShardSizes::by_speed;
  int loader_worker_count = 1;  ///< For each device, as LoaderOptions::worker_count.
  std::chrono::nanoseconds loader_deadline = kDefaultWait;  ///< As LoaderOptions::deadline.

  // ---- how it is judged ----
  /// Of the validation data. A figure that several have (EvaluationMetric::figure) is shown once.
  std::vector<EvaluationMetric> metrics = {};
  /// The figure that early stopping, the best weights and PlateauRate go by: the name of a metric,
  /// or empty: the loss, of the validation data if there are any. Where a run is resumed with
  /// another one, the best is chosen anew.
  std::string watch = {};
  std::optional<EarlyStopping> early_stopping = std::nullopt;  ///< Ends the run early.

  // ---- what it writes ----
  /// A folder, made if need be, that gets model.safetensors (the weights at the end),
  /// best.safetensors (those with the best figure), training.safetensors (all that is needed to go
  /// on), metrics.csv and report.html. It is one run's: a new one replaces the files of an old one
  /// when it first saves. Empty: nothing is written.
  std::filesystem::path folder = {};
  std::int64_t save_every = 0;  ///< Steps between two saves of the state; 0: after each epoch.
  /// Of so many epochs the state is kept, as epoch-12.safetensors, beside the newest one.
  std::int64_t keep_epochs = 0;
  /// Go on with the run in the folder, in mid-epoch too, to the bits of a run that never stopped.
  /// Where there is none, begin one. Where epochs, learning rate, schedule, the optimizer's other
  /// settings or clipping are not those that the run had, they hold from there on, and a line says
  /// so; another optimizer, seed, batch_size, accumulate or number of devices is refused.
  bool resume = false;
  /// What a run is: saved with its state, and to be the same where it is resumed; shown in the
  /// report. Without "hearth." and "trainer." in front, and none of those that the Trainer writes
  /// itself: seed, devices, accumulate, batch_size; epoch, watched, value.
  Metadata notes = {};
  std::string title = "Training";               ///< Of the report.
  ConsoleOptions console = {};                  ///< Style and file of the output.
  std::vector<TrainerCallback> callbacks = {};  ///< Called in their order.

  /// Deadlines, spare devices and so on. What is named above is taken from there.
  DataParallelOptions parallel = {};
};

enum class EndReason : std::uint8_t {
  finished,     ///< All epochs are trained.
  no_progress,  ///< EarlyStopping.
  interrupted,  ///< Ctrl-C or SIGTERM.
  stopped,      ///< A callback wanted it.
};
[[nodiscard]] std::string_view name(EndReason reason) noexcept;

/// The figures of a data set.
struct EvaluationFigures {
  double loss = 0;
  std::int64_t sample_count = 0;
  std::vector<double> metrics = {};  ///< In the order of TrainerOptions::metrics.
  /// What they were made of.
  std::vector<EvaluationMetric::Statistics> statistics = {};
};

struct TrainingResult {
  EndReason reason = EndReason::finished;
  TrainingHistory history;  ///< With the epochs before a resume.
  /// Where a run was ended in mid-epoch, and the figures of that epoch so far.
  std::optional<RunPlace> ended_at = std::nullopt;
  std::optional<EpochRecord> partial = std::nullopt;
  /// Where it went on, when it was resumed: the place of the next batch.
  std::optional<RunPlace> resumed_at = std::nullopt;
  std::optional<std::int64_t> best_epoch = std::nullopt;
  std::optional<double> best_value = std::nullopt;  ///< Of the figure that is watched.
  double samples_per_s = 0;                         ///< In the steps of this call.
  std::chrono::nanoseconds median_step{0};
};

}  // namespace hearth
