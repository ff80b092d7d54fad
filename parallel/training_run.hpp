// TrainingRun: the course of a run, without the types of model and batches: epochs, rates, figures,
// saves, ends. A Trainer gives it the few things that know these types. Private to the trainer's
// template, which is why it is public.
// Owned by a call of Trainer::fit(). Threads: one at a time.
// Invariants: (1) whatever decides how a run goes on is in its state, so a run that is resumed goes
// on as if it had not stopped; (2) a file is replaced whole or not at all; (3) no other run has its
// folder meanwhile.
#pragma once

#include <hearth/modules/best_value.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/learning_rate_schedule.hpp>
#include <hearth/modules/training_console.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/parallel/data_parallel_report.hpp>
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

/// What is known of the data of a run.
struct TrainingData {
  Metadata notes = {};  ///< Of what the run is made, beside the options' notes.
  std::optional<std::int64_t> train_count = std::nullopt;  ///< Examples, for the report.
  std::optional<std::int64_t> validation_count = std::nullopt;
};

/// Hears how many of a validation's batches are judged, from 0 on; whether it goes on.
using ValidationProgress = std::function<bool(std::int64_t batch, std::int64_t batch_count)>;

/// What a run asks of a Trainer.
struct TrainingPorts {
  std::int64_t batch_count = 0;  ///< In an epoch.
  TrainingData data = {};
  std::string model = {};      ///< For the report.
  std::function<int()> world;  ///< How many ranks there are now.
  std::function<LoaderCursor()> cursor;
  std::function<void(LoaderCursor)> seek;
  /// A step over the next batches; nothing at the end of an epoch, once.
  std::function<std::optional<DataParallelReport>()> step;
  std::function<void(double)> set_learning_rate;
  /// Empty: there is nothing to validate. Nothing comes of a validation that does not go on.
  std::function<std::optional<EvaluationFigures>(const ValidationProgress&)> validate = {};
  /// The same on a batch alone, with nothing coming of it but errors.
  std::function<void()> try_validation = {};
  std::function<void(const std::filesystem::path&, const TrainingProgress&)> save;
  std::function<TrainingProgress(const std::filesystem::path&)> load;
  std::function<void(const std::filesystem::path&, const Metadata&)> save_weights;
};

namespace training {
/// Errors: ArgumentError when the Runtime of this device has ended.
void require_runtime(const Device& device, SourceLoc where);
/// Errors: ArgumentError for options of batches that make no sense.
void require_sound_batches(const TrainerOptions& options, SourceLoc where);
/// Errors: ArgumentError, naming the metric, when it lacks a name or a function.
void require_sound_metrics(const std::vector<EvaluationMetric>& metrics, SourceLoc where);
/// Errors: ArgumentError, naming the data set, when it has no example.
void require_examples(std::int64_t count, const char* which, SourceLoc where);
}  // namespace training

class TrainingRun final {
 public:
  /// Looks at the options, makes and locks the folder, and, if the run is resumed, loads its state.
  /// Errors: ArgumentError for options that make no sense, or when the saved run had other notes;
  /// FileError when another run has the folder, when it cannot be written, or the state not be
  /// read; those of a validation.
  TrainingRun(const TrainerOptions& options, TrainingPorts ports, SourceLoc where);

  /// Errors: what a step, a save or a callback throws.
  [[nodiscard]] TrainingResult run();

 private:
  /// Settings that say how long an epoch is.
  static constexpr std::string_view kBatches = "batches an epoch";
  static constexpr std::string_view kExamples = "training examples";

  /// How far an epoch has come.
  struct EpochSums {
    double loss = 0;    ///< The sum over all samples so far …
    double weight = 0;  ///< … or over what DataParallelReport::weight counts.
    std::int64_t sample_count = 0;
    std::chrono::nanoseconds duration{0};
    double first_learning_rate = 0;
    double last_learning_rate = 0;
  };
  /// Of a metric that has classes, for the report.
  struct Confusion {
    std::string metric;
    std::int64_t class_count = 0;
    EvaluationMetric::Statistics statistics;
  };

  void require_sound_options() const;
  void take_folder();
  void prepare_folder() const;
  /// Whether there is a run to go on with.
  [[nodiscard]] bool has_state() const;
  void resume();
  void require_same_run();
  /// What this class and the Trainer say of a run.
  [[nodiscard]] Metadata own_notes() const;
  /// The Trainer's notes on the best weights.
  [[nodiscard]] Metadata best_notes(double value) const;
  [[nodiscard]] Metadata run_notes() const;
  using Words = std::vector<std::pair<std::string, std::string>>;
  /// What may be another one in a run that is resumed, by name.
  [[nodiscard]] Words settings() const;
  /// "; learning rate 0.001 instead of the saved run's 0.01"
  [[nodiscard]] std::string changes_since(const Words& saved) const;
  /// What the report begins with.
  [[nodiscard]] Words facts() const;
  [[nodiscard]] std::string state_text() const;
  void take_state(const std::string& text);
  /// Errors: ArgumentError when the data are others in the middle of an epoch.
  void require_same_epoch(const LoaderCursor& cursor) const;
  /// Of the run that is resumed; none where it says no such setting.
  [[nodiscard]] std::optional<std::string> saved_setting(std::string_view name) const;
  /// Whether the saved cursor is behind the last batch of the epoch that was under way.
  [[nodiscard]] bool ends_epoch(const LoaderCursor& cursor) const;
  /// What the run goes by, in words that tell one figure from another.
  [[nodiscard]] std::string watched_name() const;
  /// Lets the figure of an epoch decide on the best one, early stopping and the rate. Whether it is
  /// the best.
  bool observe(const EpochRecord& epoch);
  void note_confusion(const EvaluationFigures& figures);

  [[nodiscard]] std::int64_t steps_per_epoch() const;
  [[nodiscard]] std::int64_t steps_before(const LoaderCursor& cursor) const;
  void set_rate();
  [[nodiscard]] RunPlace place() const;
  /// Whether the run goes on.
  [[nodiscard]] bool train_epoch(const InterruptScope& interrupt);
  [[nodiscard]] std::optional<TrainingStep> take_step();
  [[nodiscard]] std::optional<DataParallelReport> step() const;
  [[nodiscard]] EpochRecord record_of_epoch() const;
  void draw_dashboard(const RunPlace& place,
                      const EpochRecord& so_far,
                      const std::optional<RunPlace>& validated = std::nullopt);
  /// Of all epochs.
  [[nodiscard]] double share_done() const;
  /// Whether the run goes on.
  [[nodiscard]] bool end_epoch(const InterruptScope& interrupt);
  /// Of the epoch that is trained; nothing when Ctrl-C ended it.
  [[nodiscard]] std::optional<EvaluationFigures> validate(const InterruptScope& interrupt);
  void end_early(EndReason reason);
  /// Behind so many batches of a validation, which is made anew where the run goes on.
  void end_in_validation(const RunPlace& validated);
  /// Of the line of an epoch that is not followed by another, because of that. `part`: of what the
  /// batches are, when they are not those of the training.
  [[nodiscard]] std::string ending_at(const RunPlace& place, std::string_view part = {}) const;
  /// "validation loss 0.1234", of the best epoch.
  [[nodiscard]] std::string best_text() const;
  /// The last lines.
  void say_end();
  [[nodiscard]] double watched(const EpochRecord& epoch) const;
  /// Where it is among those that are shown.
  [[nodiscard]] std::size_t watched_column() const;
  [[nodiscard]] bool is_stopping_early() const;

  void save_state();
  void save_state_to(const std::filesystem::path& file);
  void save_best(double value);
  void keep_epoch();
  /// Removes the files of a run that was here before, once there is something in their place.
  void replace_old_run();
  void remove_kept_epochs(const std::function<bool(std::int64_t epoch)>& is_wanted) const;
  void write_figures(bool is_last);
  [[nodiscard]] std::filesystem::path file(const char* name) const;

  const TrainerOptions& options_;
  const TrainingPorts ports_;
  const SourceLoc where_;
  const double base_rate_;
  const std::optional<std::size_t> watched_metric_;  ///< None: the loss.
  /// The metrics that are shown: of those with one name and figure, the first.
  const std::vector<std::size_t> columns_;
  TrainingConsole console_;
  std::optional<FileLock> lock_;  ///< Lock of the folder, if there is one.

  // The state of the run.
  TrainingHistory history_;
  EpochSums sums_;
  std::int64_t epoch_ = 1;
  BestValue best_;
  std::optional<std::int64_t> best_epoch_;
  BestValue patience_;
  std::optional<Plateau> plateau_;
  std::optional<Confusion> confusion_;  ///< Of the last validation.
  std::optional<double> rate_;          ///< That the schedule gave the optimizer last, if it did.

  // Of this call.
  RunControl control_;
  TrainingResult result_;
  Words saved_settings_;           ///< Of the run that is resumed.
  bool is_epoch_trained_ = false;  ///< All that the first epoch needs is its validation.
  bool is_over_ = false;
  bool has_replaced_old_run_ = false;  ///< Or is that run itself, which goes on.
  std::vector<std::chrono::nanoseconds> step_times_;
  std::int64_t sample_count_ = 0;
  std::optional<detail::TimePoint> written_at_;
  detail::TimePoint begun_at_;
  double share_at_begin_ = 0;
};

}  // namespace hearth
