// TrainingRun: the course of a run, without the types of model and batches: epochs, rates, figures,
// saves, ends. A Trainer gives it the few things that know these types. Private to the trainer's
// template, which is why it is public.
// Owned by a call of Trainer::fit(). Threads: one at a time.
// Invariants: (1) whatever decides how a run goes on is in its state, so a run that is resumed goes
// on as if it had not stopped; (2) a file is replaced whole or not at all.
#pragma once

#include <hearth/modules/best_value.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/learning_rate_schedule.hpp>
#include <hearth/modules/training_console.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/parallel/data_parallel_report.hpp>
#include <hearth/parallel/trainer_options.hpp>
#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/interrupt.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hearth {

/// What a run asks of a Trainer.
struct TrainingPorts {
  std::int64_t batch_count = 0;  ///< In an epoch.
  Metadata notes = {};           ///< Of what the run is made, beside the options' notes.
  std::string model = {};        ///< For the report.
  std::function<int()> world;    ///< How many ranks there are now.
  std::function<LoaderCursor()> cursor;
  std::function<void(LoaderCursor)> seek;
  /// A step over the next batches; nothing at the end of an epoch, once.
  std::function<std::optional<DataParallelReport>()> step;
  std::function<void(double)> set_learning_rate;
  std::function<EvaluationFigures()> validate = {};  ///< Empty: there is nothing to validate.
  std::function<void(const std::filesystem::path&, const TrainingProgress&)> save;
  std::function<TrainingProgress(const std::filesystem::path&)> load;
  std::function<void(const std::filesystem::path&, const Metadata&)> save_weights;
};

class TrainingRun final {
 public:
  /// Looks at the options, makes the folder, and, if the run is resumed, loads its state.
  /// Errors: ArgumentError for options that make no sense, or when the saved run had other notes;
  /// FileError when the folder cannot be written, or the state not be read.
  TrainingRun(const TrainerOptions& options, TrainingPorts ports, SourceLoc where);

  /// Errors: what a step, a save or a callback throws.
  [[nodiscard]] TrainingResult run();

 private:
  /// How far an epoch has come.
  struct EpochSums {
    double loss = 0;    ///< The sum over all samples so far …
    double weight = 0;  ///< … or over what DataParallelReport::weight counts.
    std::int64_t sample_count = 0;
    double seconds = 0;
  };

  void prepare_folder() const;
  void resume();
  void require_same_run() const;
  [[nodiscard]] Metadata run_notes() const;
  [[nodiscard]] std::string state_text() const;
  void take_state(const std::string& text);

  [[nodiscard]] std::int64_t steps_per_epoch() const;
  [[nodiscard]] std::int64_t steps_before(const LoaderCursor& cursor) const;
  void set_rate();
  [[nodiscard]] RunPlace place() const;
  /// Whether the run goes on.
  [[nodiscard]] bool train_epoch(const InterruptScope& interrupt);
  [[nodiscard]] std::optional<TrainingStep> take_step();
  [[nodiscard]] EpochRecord record_of_epoch() const;
  void draw_dashboard(const RunPlace& place, const EpochRecord& so_far);
  /// Of all epochs.
  [[nodiscard]] double share_done() const;
  void end_epoch();
  void end_early(EndReason reason);
  [[nodiscard]] double watched(const EpochRecord& epoch) const;
  [[nodiscard]] bool is_stopping_early() const;

  void save_state() const;
  void save_best(double value);
  void keep_epoch() const;
  void write_figures(bool is_last);
  [[nodiscard]] std::filesystem::path file(const char* name) const;

  const TrainerOptions& options_;
  const TrainingPorts ports_;
  const SourceLoc where_;
  const double base_rate_;
  std::optional<std::size_t> watched_metric_;  ///< None: the loss.
  TrainingConsole console_;

  // The state of the run.
  TrainingHistory history_;
  EpochSums sums_;
  std::int64_t epoch_ = 1;
  BestValue best_;
  std::optional<std::int64_t> best_epoch_;
  BestValue patience_;
  std::optional<Plateau> plateau_;

  // Of this call.
  RunControl control_;
  TrainingResult result_;
  double rate_ = -1;  ///< That the optimizer has; below 0: not known.
  std::vector<double> step_seconds_;
  std::int64_t sample_count_ = 0;
  std::optional<EvaluationFigures> figures_;  ///< Of the last validation.
  std::optional<detail::TimePoint> written_at_;
  detail::TimePoint begun_at_;
  double share_at_begin_ = 0;
};

}  // namespace hearth
