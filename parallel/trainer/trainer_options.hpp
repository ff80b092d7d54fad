// Options of a Trainer, arguments of its callbacks, and the result of a run.
// Plain data. Threads: values.
#pragma once

#include <hearth/modules/evaluation_metric.hpp>
#include <hearth/modules/example_order.hpp>
#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/learning_rate_schedule.hpp>
#include <hearth/modules/safetensors.hpp>
#include <hearth/modules/training_console.hpp>
#include <hearth/modules/training_history.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/data_parallel_report.hpp>
#include <hearth/runtime/device.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hearth {

/// Ends a run when its watched figure has not improved for `patience` epochs.
struct EarlyStopping {
  std::int64_t patience = 10;  ///< Number of epochs without an improvement before the run ends.
  double min_change = 0;       ///< Smallest difference that counts as an improvement.
};

/// Argument of callbacks after a step.
struct TrainingStep {
  std::int64_t step = 0;  ///< Number of the step, from 1, over all epochs.
  RunPlace place;         ///< Position in batches; a step may take several.
  double loss = 0;        ///< Loss of the step's batches, before its update.
  std::int64_t sample_count = 0;
  double learning_rate = 0;
  std::chrono::nanoseconds duration{0};
  StepScale scale = {};  ///< With a loss scale: the scale, and whether the step was skipped.
};

/// Requests of a callback to the run.
struct RunControl {
  bool stop = false;  ///< Set to true: the run saves its state and ends.
};

/// Callbacks on the thread of fit(), between two steps. An exception from one ends fit().
struct TrainerCallback {
  /// Called after each step.
  std::function<void(const TrainingStep& step, RunControl& control)> on_step = {};
  /// Called after each epoch, before its results are saved. A run that ends in it resumes with the
  /// same epoch's validation.
  std::function<void(const EpochRecord& epoch, RunControl& control)> on_epoch = {};
};

/// How a Trainer divides its batches among devices.
enum class ShardSizes : std::uint8_t {
  /// By the measured speed of devices of different kinds, measured in the first steps and then at
  /// intervals. Devices of one kind get equal shares. A step's gradient is that of the whole batch
  /// in either mode, up to rounding. Use `equal` for a run that must give the same bits each time.
  by_speed,
  equal,
};

struct TrainerOptions {
  // ---- model and optimizer ----
  /// Devices that share each batch; empty: all of Runtime::devices().
  std::vector<Device> devices = {};
  std::int64_t epochs = 10;                        ///< Number of passes through the training data.
  OptimizerConfig optimizer = Adam::Config{};      ///< Class and settings of the optimizer.
  LearningRateSchedule schedule = ConstantRate{};  ///< Schedule of the optimizer's learning rate.
  GradientClip clip = {};                          ///< Limit of the gradients of a step.
  /// Types of the forward pass, and the loss scale of f16. With a 16-bit type, float inputs are
  /// cast to it, and the outputs to f32 before a loss of outputs and targets. Evaluations use the
  /// same types.
  Precision precision = {};
  std::int64_t accumulate = 1;  ///< Number of batches in one step.
  /// Decay of a WeightAverage; 0: none. The averaged weights are validated, kept as the best ones,
  /// and saved at the end.
  double average_decay = 0;
  std::uint64_t seed = 0;  ///< Seed of the order of the data and of random layers.
  /// Number of examples in a batch, over all devices; for fit() with data sets.
  std::int64_t batch_size = 32;
  /// Order of the training data in place of the shuffle, for fit() with data sets: draws by
  /// weights, batches of similar lengths. See LoaderOptions::order.
  ExampleOrder order = {};
  /// Longest time for Runtime::tune() on the run's devices, all together, after the second step of
  /// a call of fit(). No bit of the run depends on it. 0: none.
  double tune_seconds = 0;
  /// Drops an incomplete last training batch; see LoaderOptions::drop_last.
  bool drop_last = false;
  /// Division of batches among devices. A `deterministic` runtime always divides evenly. The
  /// program's own batch sources divide by their own rules.
  ShardSizes shards = ShardSizes::by_speed;
  /// Loader workers for each device; see LoaderOptions::worker_count.
  int loader_worker_count = 1;
  /// Limit of a wait for a batch; see LoaderOptions::deadline.
  std::chrono::nanoseconds loader_deadline = kDefaultWait;

  // ---- evaluation ----
  /// Metrics of the validation data. A figure that several metrics share (EvaluationMetric::figure)
  /// is shown once.
  std::vector<EvaluationMetric> metrics = {};
  /// Name of the metric that early stopping, the best weights and PlateauRate use. Empty: the loss,
  /// of the validation data if there are any. A run resumed with another one chooses its best epoch
  /// again.
  std::string watch = {};
  /// Ends the run early; nullopt: never.
  std::optional<EarlyStopping> early_stopping = std::nullopt;

  // ---- files ----
  /// Folder of the run, created if missing; empty: nothing is written. It receives
  /// model.safetensors (final weights), best.safetensors (weights with the best figure),
  /// training.safetensors (state for a resume), metrics.csv and report.html. A folder belongs to
  /// one run: a new run replaces the old run's files at its first save.
  std::filesystem::path folder = {};
  /// Number of steps between two saves of the state; 0: after each epoch.
  std::int64_t save_every = 0;
  /// Number of epochs whose state is kept beside the newest one, as epoch-12.safetensors for
  /// example.
  std::int64_t keep_epochs = 0;
  /// Resumes the run in the folder, also within an epoch, or begins a new run if there is none. A
  /// resumed run has the bits of a run that never stopped. Changed epochs, learning rate, schedule,
  /// other optimizer settings and clipping apply from there on, and a line reports them. Another
  /// optimizer, seed, batch_size, accumulate or number of devices is rejected.
  bool resume = false;
  /// Identity of a run: saved with its state, shown in the report, and compared at a resume. Keys
  /// must not begin with "hearth." or "trainer.", and must not be seed, devices, accumulate,
  /// batch_size, epoch, watched or value, which the Trainer writes itself.
  Metadata notes = {};
  std::string title = "Training";               ///< Title of the report.
  ConsoleOptions console = {};                  ///< Style and file of the console output.
  std::vector<TrainerCallback> callbacks = {};  ///< Callbacks, called in this order.

  /// Deadlines, spare devices and similar. Fields that TrainerOptions also has are overridden by
  /// it.
  DataParallelOptions parallel = {};
};

enum class EndReason : std::uint8_t {
  finished,     ///< All epochs are trained.
  no_progress,  ///< EarlyStopping ended the run.
  interrupted,  ///< Ctrl-C or SIGTERM.
  stopped,      ///< A callback requested it.
};
[[nodiscard]] std::string_view name(EndReason reason) noexcept;

/// Loss and metrics of a data set.
struct EvaluationFigures {
  double loss = 0;
  std::int64_t sample_count = 0;
  std::vector<double> metrics = {};  ///< In the order of TrainerOptions::metrics.
  /// Statistics from which the metrics were computed.
  std::vector<EvaluationMetric::Statistics> statistics = {};
};

struct TrainingResult {
  EndReason reason = EndReason::finished;
  TrainingHistory history;  ///< Includes the epochs before a resume.
  /// Position within the epoch in which the run ended, and the figures of that epoch so far.
  std::optional<RunPlace> ended_at = std::nullopt;
  std::optional<EpochRecord> partial = std::nullopt;
  /// Position of the first batch after a resume.
  std::optional<RunPlace> resumed_at = std::nullopt;
  std::optional<std::int64_t> best_epoch = std::nullopt;
  std::optional<double> best_value = std::nullopt;  ///< Best value of the watched figure.
  double samples_per_s = 0;                         ///< Over the steps of this call.
  std::int64_t skipped_steps = 0;  ///< Steps of this call that the loss scale skipped.
  std::chrono::nanoseconds median_step{0};
};

}  // namespace hearth
