// TrainingRun: the course of a run without the types of model and batches: epochs, rates, figures,
// saves and ends. A Trainer supplies the few functions that know these types. Public only because
// the Trainer's template needs it.
// Owned by a call of Trainer::fit(). Threads: one at a time.
// Invariants: (1) everything that decides the course of a run is in its state, so a resumed run
// continues as if it had not stopped; (2) a file is replaced whole or not at all; (3) no other run
// uses its folder meanwhile.
#pragma once

#include <hearth/modules/best_value.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/learning_rate_schedule.hpp>
#include <hearth/modules/training_console.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/parallel/data_parallel_report.hpp>
#include <hearth/parallel/process_group.hpp>
#include <hearth/parallel/trainer_options.hpp>
#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/file_lock.hpp>
#include <hearth/runtime/base/interrupt.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

class Runtime;

/// Facts about a run's data.
struct TrainingData {
  Metadata notes = {};  ///< Notes on the run's data, beside the options' notes.
  std::optional<std::int64_t> train_count = std::nullopt;  ///< Number of examples, for the report.
  std::optional<std::int64_t> validation_count = std::nullopt;
};

/// Receives the number of evaluated validation batches, from 0 on. Returns whether to continue.
using ValidationProgress = std::function<bool(std::int64_t batch, std::int64_t batch_count)>;

/// Functions of a Trainer that a run calls.
struct TrainingPorts {
  ProcessGroup processes = {};   ///< The processes of the run.
  std::int64_t batch_count = 0;  ///< Number of batches in an epoch.
  TrainingData data = {};
  std::string model = {};      ///< Summary of the model, for the report.
  std::function<int()> world;  ///< Current number of ranks, over all processes.
  std::function<LoaderCursor()> cursor;
  std::function<void(LoaderCursor)> seek;
  /// Runs a step over the next batches; returns nullopt once at the end of an epoch.
  std::function<std::optional<DataParallelReport>()> step;
  std::function<void(double)> set_learning_rate;
  /// Tunes the kernels of the run's devices, and returns a report.
  std::function<std::string(std::chrono::nanoseconds limit)> tune = {};
  /// Validates; empty: there are no validation data. Returns nullopt when the progress function
  /// stopped it.
  std::function<std::optional<EvaluationFigures>(const ValidationProgress&)> validate = {};
  /// Validates one batch for its errors alone.
  std::function<void()> try_validation = {};
  std::function<void(const std::filesystem::path&, const TrainingProgress&)> save;
  std::function<TrainingProgress(const std::filesystem::path&)> load;
  std::function<void(const std::filesystem::path&, const Metadata&)> save_weights;
};

namespace training {
/// Errors: ArgumentError when the Runtime of this device has ended.
void require_runtime(const Device& device, SourceLoc where);
/// Errors: ArgumentError for invalid batch options.
void require_sound_batches(const TrainerOptions& options, SourceLoc where);
/// Errors: ArgumentError, naming the metric, when it lacks a name or a function.
void require_sound_metrics(const std::vector<EvaluationMetric>& metrics, SourceLoc where);
/// Tunes the kernels of these devices in turn, within the limit for all. Returns a report.
///
/// Errors: those of Runtime::tune().
[[nodiscard]] std::string tune_devices(const Runtime& runtime,
                                       const std::vector<Device>& devices,
                                       std::chrono::nanoseconds limit,
                                       SourceLoc where);
/// Errors: ArgumentError, naming the data set, when it has no example.
void require_examples(std::int64_t count, const char* which, SourceLoc where);
}  // namespace training

class TrainingRun final {
 public:
  /// Checks the options, creates and locks the folder, and loads the state of a resumed run.
  ///
  /// Errors: ArgumentError for invalid options, or when the saved run had other notes; FileError
  /// when another run holds the folder, when it cannot be written, or the state cannot be read;
  /// those of the trial validation.
  TrainingRun(const TrainerOptions& options, TrainingPorts ports, SourceLoc where);

  /// Errors: those of steps, saves and callbacks.
  [[nodiscard]] TrainingResult run();

 private:
  /// Settings that determine the length of an epoch.
  static constexpr std::string_view kBatches = "batches an epoch";
  static constexpr std::string_view kExamples = "training examples";
  static constexpr std::string_view kScaling = "loss scale";

  /// Sums over the current epoch so far.
  struct EpochSums {
    double loss = 0;    ///< Sum over all samples.
    double weight = 0;  ///< The divisor of that sum; see DataParallelReport::weight.
    std::int64_t sample_count = 0;
    std::chrono::nanoseconds duration{0};
    double first_learning_rate = 0;
    double last_learning_rate = 0;
  };
  /// Statistics of a metric that has classes, for the report.
  struct Confusion {
    std::string metric;
    std::int64_t class_count = 0;
    EvaluationMetric::Statistics statistics;
  };

  [[nodiscard]] static ConsoleOptions console_of(const TrainerOptions& options,
                                                 const TrainingPorts& ports);
  /// Errors: ArgumentError when the processes of the run differ in data or settings.
  void require_common_run(bool has_state) const;
  /// Runs fn on process 0; all processes throw its exception.
  void on_first(const std::function<void()>& fn, std::string_view what) const;
  /// Returns whether any process was interrupted, and sets control_.stop if any requested it.
  [[nodiscard]] bool join_ends(bool is_interrupted);

  void require_sound_options() const;
  void take_folder();
  void prepare_folder() const;
  /// Whether there is a run to resume.
  [[nodiscard]] bool has_state() const;
  void resume();
  void require_same_run();
  /// Errors: ArgumentError when one of the two runs scales its loss, and the other does not.
  void require_same_scaling() const;
  /// Notes that this class and the Trainer write.
  [[nodiscard]] Metadata own_notes() const;
  /// The Trainer's notes on the best weights.
  [[nodiscard]] Metadata best_notes(double value) const;
  [[nodiscard]] Metadata run_notes() const;
  using Words = std::vector<std::pair<std::string, std::string>>;
  /// Settings that a resumed run may change, by name.
  [[nodiscard]] Words settings() const;
  /// Text such as "; learning rate 0.001 instead of the saved run's 0.01".
  [[nodiscard]] std::string changes_since(const Words& saved) const;
  /// First lines of the report.
  [[nodiscard]] Words facts() const;
  [[nodiscard]] std::string state_text() const;
  void take_state(const std::string& text);
  /// Errors: ArgumentError when the data have changed in the middle of an epoch.
  void require_same_epoch(const LoaderCursor& cursor) const;
  /// A setting of the resumed run; nullopt if its state does not contain it.
  [[nodiscard]] std::optional<std::string> saved_setting(std::string_view name) const;
  /// Whether the saved cursor is behind the last batch of the epoch under way.
  [[nodiscard]] bool ends_epoch(const LoaderCursor& cursor) const;
  /// Name of the watched figure, unique among the figures.
  [[nodiscard]] std::string watched_name() const;
  /// Updates the best epoch, early stopping and the rate with an epoch's figure. Returns whether it
  /// is the best.
  bool observe(const EpochRecord& epoch);
  void record_confusion(const EvaluationFigures& figures);

  [[nodiscard]] std::int64_t steps_per_epoch() const;
  [[nodiscard]] std::int64_t steps_before(const LoaderCursor& cursor) const;
  void set_rate();
  /// Spends TrainerOptions::tune_seconds once the run's kernels are known.
  void tune_once();
  [[nodiscard]] RunPlace place() const;
  /// Returns whether the run continues.
  [[nodiscard]] bool train_epoch(const InterruptScope& interrupt);
  [[nodiscard]] std::optional<TrainingStep> take_step();
  [[nodiscard]] std::optional<DataParallelReport> step() const;
  /// Counts skipped steps. Errors: DeviceError non_finite after too many in a row.
  void note_scale(const DataParallelReport& report);
  [[nodiscard]] EpochRecord record_of_epoch() const;
  void draw_dashboard(const RunPlace& place,
                      const EpochRecord& so_far,
                      const std::optional<RunPlace>& validated = std::nullopt);
  /// Share of all epochs that is done.
  [[nodiscard]] double share_done() const;
  /// Returns whether the run continues.
  [[nodiscard]] bool end_epoch(const InterruptScope& interrupt);
  /// Validates the trained epoch; returns nullopt when Ctrl-C ended the validation.
  [[nodiscard]] std::optional<EvaluationFigures> validate(const InterruptScope& interrupt);
  void end_early(EndReason reason);
  /// Ends the run within a validation, which a resumed run repeats.
  void end_in_validation(const RunPlace& validated);
  /// Beginning of the line of an epoch that ends the run. `part`: the kind of batches, if they are
  /// not those of the training.
  [[nodiscard]] std::string ending_at(const RunPlace& place, std::string_view part = {}) const;
  /// Text such as "validation loss 0.1234", of the best epoch.
  [[nodiscard]] std::string best_text() const;
  /// Prints the last lines.
  void print_end();
  [[nodiscard]] double watched(const EpochRecord& epoch) const;
  /// Column of the watched metric among the shown ones.
  [[nodiscard]] std::size_t watched_column() const;
  [[nodiscard]] bool is_stopping_early() const;

  void save_state();
  void save_state_to(const std::filesystem::path& file);
  void save_best(double value);
  void keep_epoch();
  /// Removes the files of an earlier run, once the new run has saved its own.
  void replace_old_run();
  void remove_kept_epochs(const std::function<bool(std::int64_t epoch)>& is_wanted) const;
  void write_figures(bool is_last);
  [[nodiscard]] std::filesystem::path file(const char* name) const;

  const TrainerOptions& options_;
  const TrainingPorts ports_;
  const SourceLoc where_;
  const double base_rate_;
  /// Index of the watched metric; nullopt: the loss.
  const std::optional<std::size_t> watched_metric_;
  /// The metrics that are shown: the first of those with the same name and figure.
  const std::vector<std::size_t> columns_;
  TrainingConsole console_;
  std::optional<FileLock> lock_;  ///< Lock of the folder, if there is one.

  // State of the run.
  TrainingHistory history_;
  EpochSums sums_;
  std::int64_t epoch_ = 1;
  BestValue best_;
  std::optional<std::int64_t> best_epoch_;
  BestValue patience_;
  std::optional<Plateau> plateau_;
  std::optional<Confusion> confusion_;  ///< From the last validation.
  std::optional<double> rate_;          ///< The last rate from the schedule, if it set one.

  // State of this call.
  RunControl control_;
  TrainingResult result_;
  bool is_tuned_ = false;
  Words saved_settings_;           ///< Settings of the resumed run.
  bool is_epoch_trained_ = false;  ///< The first epoch needs only its validation.
  bool is_finished_ = false;
  bool has_replaced_old_run_ = false;  ///< True also for a resumed run.
  std::int64_t skipped_in_a_row_ = 0;
  std::vector<std::chrono::nanoseconds> step_times_;
  std::int64_t sample_count_ = 0;
  std::optional<detail::TimePoint> written_at_;
  detail::TimePoint begun_at_;
  double share_at_begin_ = 0;
};

}  // namespace hearth
