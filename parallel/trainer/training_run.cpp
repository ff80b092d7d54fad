#include <hearth/parallel/training_run.hpp>

#include "training_run_parts.hpp"

#include <hearth/runtime/trace_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>
#include <variant>

namespace hearth {
namespace {

using training::now;
using training::refuse;

void require_at_least(std::int64_t least, const char* name, std::int64_t value, SourceLoc where) {
  if (value < least) {
    refuse(fmt::format("{} is {}, but must be {} or more", name, value, least), where);
  }
}

double base_rate_of(const OptimizerConfig& config) {
  return std::visit([](const auto& each) { return each.learning_rate; }, config);
}

// Index of the metric that a run watches; nullopt: the loss.
std::optional<std::size_t> watched_of(const TrainerOptions& options,
                                      bool has_validation,
                                      SourceLoc where) {
  if (options.watch.empty()) {
    return std::nullopt;
  }
  const auto found = std::ranges::find(options.metrics, options.watch, &EvaluationMetric::name);
  if (found == options.metrics.end()) {
    std::string known = "TrainerOptions::metrics is empty";
    for (const EvaluationMetric& metric : options.metrics) {
      const bool is_first = &metric == &options.metrics.front();
      known = (is_first ? "there are: " : known + ", ") + metric.name;
    }
    refuse(fmt::format("there is no metric '{}' to watch; {}; an empty watch is the loss",
                       options.watch,
                       known),
           where);
  }
  if (!has_validation) {
    refuse(fmt::format("'{}' cannot be watched without validation data", options.watch), where);
  }
  return static_cast<std::size_t>(found - options.metrics.begin());
}

// accuracy_metric() and confusion_metric() both yield accuracy: one column of it is enough.
std::vector<std::size_t> columns_of(const std::vector<EvaluationMetric>& metrics, SourceLoc where) {
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const auto same = std::ranges::find_if(
        columns, [&](std::size_t column) { return metrics[column].name == metrics[i].name; });
    if (same == columns.end()) {
      columns.push_back(i);
    } else if (metrics[*same].figure.empty() || metrics[*same].figure != metrics[i].figure) {
      refuse(fmt::format("metrics {} and {} are both called '{}', but are not the same figure: "
                         "give one another name (EvaluationMetric::name)",
                         *same + 1,
                         i + 1,
                         metrics[i].name),
             where);
    }
  }
  return columns;
}

Goal goal_of(const TrainerOptions& options, const std::optional<std::size_t>& metric) {
  return metric ? options.metrics[*metric].goal : Goal::lowest;
}

std::chrono::nanoseconds median(std::vector<std::chrono::nanoseconds> values) {
  if (values.empty()) {
    return {};
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void training::require_runtime(const Device& device, SourceLoc where) {
  if (device.is_closed()) {
    refuse("its Runtime has ended, and must outlive it", where);
  }
}

void training::require_sound_batches(const TrainerOptions& options, SourceLoc where) {
  require_at_least(1, "batch_size", options.batch_size, where);
  require_at_least(0, "loader_worker_count", options.loader_worker_count, where);
  if (options.loader_deadline <= std::chrono::nanoseconds::zero()) {
    refuse("loader_deadline must be above 0", where);
  }
}

void training::require_sound_metrics(const std::vector<EvaluationMetric>& metrics,
                                     SourceLoc where) {
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const EvaluationMetric& metric = metrics[i];
    if (metric.name.empty()) {
      refuse(fmt::format("metric {} has no name", i + 1), where);
    }
    if (!metric.measure || !metric.value) {
      refuse(fmt::format("the metric '{}' has no function {}: one of your own needs measure and "
                         "value",
                         metric.name,
                         metric.measure ? "value" : "measure"),
             where);
    }
  }
}

void training::require_examples(std::int64_t count, const char* which, SourceLoc where) {
  if (count < 1) {
    refuse(fmt::format("{} is empty", which), where);
  }
}

std::string_view name(EndReason reason) noexcept {
  switch (reason) {
    case EndReason::finished:
      return "finished";
    case EndReason::no_progress:
      return "no progress";
    case EndReason::interrupted:
      return "interrupted";
    case EndReason::stopped:
      return "stopped";
  }
  return "unknown";
}

TrainingRun::TrainingRun(const TrainerOptions& options, TrainingPorts ports, SourceLoc where)
    : options_(options),
      ports_(std::move(ports)),
      where_(where),
      base_rate_(base_rate_of(options.optimizer)),
      watched_metric_(watched_of(options, ports_.validate != nullptr, where)),
      columns_(columns_of(options.metrics, where)),
      console_(console_of(options, ports_), options.epochs),
      best_(goal_of(options, watched_metric_)),
      patience_(goal_of(options, watched_metric_),
                options.early_stopping ? options.early_stopping->min_change : 0) {
  require_sound_options();
  if (const auto* plateau = std::get_if<PlateauRate>(&options.schedule)) {
    plateau_.emplace(*plateau, best_.goal());
  }
  if (ports_.validate) {
    for (const std::size_t column : columns_) {
      const EvaluationMetric& metric = options.metrics[column];
      history_.metrics.push_back(
          {.name = metric.name, .goal = metric.goal, .in_percent = metric.in_percent});
    }
  }
  if (!ports_.validate && !options.metrics.empty()) {
    console_.print_line("there are no validation data: no metrics are computed");
  }
  on_first([this] { take_folder(); }, "the lock of the folder");
  const bool resumes = options.resume && has_state();
  require_common_run(resumes);
  if (resumes) {
    require_same_run();
  }
  on_first([this] { prepare_folder(); }, "the check of the folder");
  if (ports_.try_validation) {
    ports_.try_validation();
  }
  if (resumes) {
    resume();
  } else if (options.resume) {
    console_.print_line(
        fmt::format("nothing to resume in {}: a new run begins", options.folder.string()));
  }
}

void TrainingRun::require_sound_options() const {
  const TrainerOptions& options = options_;
  require_at_least(1, "epochs", options.epochs, where_);
  require_at_least(1, "accumulate", options.accumulate, where_);
  require_at_least(0, "save_every", options.save_every, where_);
  require_at_least(0, "keep_epochs", options.keep_epochs, where_);
  if (!(options.tune_seconds >= 0)) {
    refuse("tune_seconds must be 0 or more", where_);
  }
  if (options.early_stopping) {
    require_at_least(1, "early_stopping.patience", options.early_stopping->patience, where_);
  }
  require_sound(options.schedule, "Trainer", where_);
  detail::require_own_names(options.notes, "Trainer", where_);
  Metadata own = own_notes();
  own.merge(best_notes(0));
  for (const auto& [note, value] : options.notes) {
    if (note.starts_with("trainer.")) {
      refuse(fmt::format("the note '{}' begins with a word of the library", note), where_);
    }
    if (own.contains(note)) {
      refuse(fmt::format("the note '{}' is one that the Trainer writes itself", note), where_);
    }
  }
  if (options.folder.empty() && (options.resume || options.save_every > 0)) {
    refuse("resume and save_every need a folder", where_);
  }
  if (ports_.batch_count < 1) {
    refuse("there is no batch to train on", where_);
  }
}

RunPlace TrainingRun::place() const {
  const LoaderCursor cursor = ports_.cursor();
  // After the last batch of an epoch the cursor may be in the next one.
  const bool is_over = cursor.epoch >= epoch_;
  return {.epoch = epoch_,
          .batch = is_over ? ports_.batch_count : cursor.batch,
          .batch_count = ports_.batch_count};
}

std::int64_t TrainingRun::steps_per_epoch() const {
  return (ports_.batch_count + options_.accumulate - 1) / options_.accumulate;
}

std::int64_t TrainingRun::steps_before(const LoaderCursor& cursor) const {
  return cursor.epoch * steps_per_epoch() +
         (cursor.batch + options_.accumulate - 1) / options_.accumulate;
}

// A rate that the program has set itself stays until the schedule's rate changes.
void TrainingRun::set_rate() {
  const double factor = rate_factor(options_.schedule,
                                    steps_before(ports_.cursor()),
                                    options_.epochs * steps_per_epoch(),
                                    where_);
  const double rate = base_rate_ * factor * (plateau_ ? plateau_->factor() : 1);
  if (rate != rate_) {
    ports_.set_learning_rate(rate);
    rate_ = rate;
  }
}

// Runs a step. Adds the batches to the error for a loss that is not finite.
std::optional<DataParallelReport> TrainingRun::step() const {
  const RunPlace before = place();
  try {
    return ports_.step();
  } catch (const Exception& exception) {
    if (exception.error().code != ErrorCode::non_finite) {
      throw;
    }
    const std::int64_t first = before.batch + 1;
    const std::int64_t last = std::min(before.batch + options_.accumulate, before.batch_count);
    Error error = exception.error();
    error.text += fmt::format(
        ", from {} of {} in epoch {}: look at inputs and targets there, or lower the learning rate",
        first == last ? fmt::format("batch {}", first)
                      : fmt::format("batches {} to {}", first, last),
        before.batch_count,
        before.epoch);
    throw_error(std::move(error));
  }
}

std::optional<TrainingStep> TrainingRun::take_step() {
  if (place().batch < ports_.batch_count) {
    set_rate();
  }
  const TracePart part(options_.devices.front(), "step", where_);
  const detail::TimePoint begin = now();
  const std::optional<DataParallelReport> report = step();
  if (!report) {
    return std::nullopt;
  }
  const std::chrono::nanoseconds duration = now() - begin;
  step_times_.push_back(duration);
  sample_count_ += report->sample_count;
  note_scale(*report);
  if (std::isfinite(report->loss)) {  // a step that was skipped may have another loss
    sums_.loss += report->loss * report->weight;
    sums_.weight += report->weight;
    history_.steps.add(report->loss);
    history_.rates.add(report->learning_rate);
  }
  sums_.duration += duration;
  sums_.last_learning_rate = report->learning_rate;
  if (sums_.sample_count == 0) {
    sums_.first_learning_rate = sums_.last_learning_rate;
  }
  sums_.sample_count += report->sample_count;
  return TrainingStep{.step = steps_before(ports_.cursor()),
                      .place = place(),
                      .loss = report->loss,
                      .sample_count = report->sample_count,
                      .learning_rate = sums_.last_learning_rate,
                      .duration = duration,
                      .scale = report->scale};
}

EpochRecord TrainingRun::record_of_epoch() const {
  return {.epoch = epoch_,
          .train_loss = sums_.loss / sums_.weight,
          .first_learning_rate = sums_.first_learning_rate,
          .last_learning_rate = sums_.last_learning_rate,
          .duration = sums_.duration,
          .sample_count = sums_.sample_count};
}

bool TrainingRun::train_epoch(const InterruptScope& interrupt) {
  while (!is_epoch_trained_) {
    const std::optional<TrainingStep> step = take_step();
    if (!step) {
      break;
    }
    tune_once();
    const EpochRecord so_far = record_of_epoch();
    console_.show(step->place, so_far.train_loss, so_far.samples_per_s());
    if (console_.wants_dashboard()) {
      draw_dashboard(step->place, so_far);
    }
    for (const TrainerCallback& callback : options_.callbacks) {
      if (callback.on_step) {
        callback.on_step(*step, control_);
      }
    }
    const bool is_interrupted = join_ends(interrupt.is_requested());
    if (is_interrupted || control_.stop) {
      end_early(is_interrupted ? EndReason::interrupted : EndReason::stopped);
      return false;
    }
    if (options_.save_every > 0 && step->step % options_.save_every == 0) {
      save_state();
    }
  }
  is_epoch_trained_ = false;
  return end_epoch(interrupt);
}

// A lost device is not queried: it would not answer.
void TrainingRun::draw_dashboard(const RunPlace& place,
                                 const EpochRecord& so_far,
                                 const std::optional<RunPlace>& validated) {
  DashboardFigures figures{.title = options_.title,
                           .place = place,
                           .validated = validated,
                           .epochs = options_.epochs,
                           .loss = so_far.train_loss,
                           .samples_per_s = so_far.samples_per_s(),
                           .learning_rate = so_far.last_learning_rate,
                           .elapsed = now() - begun_at_,
                           .share_at_begin = share_at_begin_,
                           .history = &history_,
                           .best_epoch = best_epoch_,
                           .best_value = best_.best().value_or(0),
                           .best_text = best_epoch_ ? best_text() : std::string()};
  for (const Device& device : options_.devices) {
    DashboardDevice shown{.name = device.name(), .is_lost = device.is_lost()};
    if (!shown.is_lost) {
      const MemoryStatistics memory = device.memory(where_);
      shown.live_bytes = memory.live_bytes;
      shown.peak_bytes = memory.peak_live_bytes;
      shown.budget_bytes = memory.budget_bytes;
    }
    figures.devices.push_back(std::move(shown));
  }
  console_.draw(std::move(figures));
}

double TrainingRun::share_done() const {
  const RunPlace at = place();
  return (static_cast<double>(at.epoch - 1) +
          static_cast<double>(at.batch) /
              static_cast<double>(std::max<std::int64_t>(at.batch_count, 1))) /
         static_cast<double>(options_.epochs);
}

std::string TrainingRun::watched_name() const {
  if (watched_metric_) {
    return "the metric " + options_.watch;
  }
  return ports_.validate ? "the validation loss" : "the training loss";
}

void TrainingRun::record_confusion(const EvaluationFigures& figures) {
  for (std::size_t i = 0; i < options_.metrics.size(); ++i) {
    const EvaluationMetric& metric = options_.metrics[i];
    if (metric.class_count > 0 && i < figures.statistics.size()) {
      confusion_ = Confusion{.metric = metric.name,
                             .class_count = metric.class_count,
                             .statistics = figures.statistics[i]};
      return;
    }
  }
}

double TrainingRun::watched(const EpochRecord& epoch) const {
  if (!watched_metric_) {
    return epoch.validation_loss.value_or(epoch.train_loss);
  }
  return epoch.metrics[watched_column()];
}

std::size_t TrainingRun::watched_column() const {
  return static_cast<std::size_t>(std::ranges::find(columns_, *watched_metric_) - columns_.begin());
}

bool TrainingRun::is_stopping_early() const {
  return options_.early_stopping && patience_.misses() >= options_.early_stopping->patience;
}

bool TrainingRun::observe(const EpochRecord& epoch) {
  const double value = watched(epoch);
  static_cast<void>(patience_.observe(value));
  if (plateau_) {
    static_cast<void>(plateau_->observe(value));
  }
  if (!best_.observe(value)) {
    return false;
  }
  best_epoch_ = epoch.epoch;
  return true;
}

std::optional<EvaluationFigures> TrainingRun::validate(const InterruptScope& interrupt) {
  const TracePart part(options_.devices.front(), "validation", where_);
  const EpochRecord epoch = record_of_epoch();
  RunPlace validated{.epoch = epoch_};
  const auto on_batch = [&](std::int64_t batch, std::int64_t batch_count) {
    validated.batch = batch;
    validated.batch_count = batch_count;
    console_.show_validation(validated);
    if (console_.wants_dashboard()) {
      draw_dashboard(place(), epoch, validated);
    }
    return !join_ends(interrupt.is_requested());
  };
  std::optional<EvaluationFigures> figures = ports_.validate(on_batch);
  if (!figures) {
    end_in_validation(validated);
  }
  return figures;
}

// The state was saved before the validation, and is not saved again: a resumed run would draw the
// validation's random numbers a second time. The resumed run repeats the whole validation.
void TrainingRun::end_in_validation(const RunPlace& validated) {
  result_.reason = EndReason::interrupted;
  result_.ended_at = place();
  result_.partial = record_of_epoch();
  console_.end_epoch(history_, *result_.partial, ending_at(validated, "validation"));
}

// Saves the epoch before it runs the program's own code: a metric or a callback may throw.
bool TrainingRun::end_epoch(const InterruptScope& interrupt) {
  if (sums_.sample_count == 0) {
    refuse(fmt::format("there was no batch in epoch {}", epoch_), where_);
  }
  const auto has_own_code = [](const TrainerCallback& each) { return each.on_epoch != nullptr; };
  if (ports_.validate || std::ranges::any_of(options_.callbacks, has_own_code)) {
    save_state();
  }
  EpochRecord epoch = record_of_epoch();
  if (ports_.validate) {
    const std::optional<EvaluationFigures> figures = validate(interrupt);
    if (!figures) {
      return false;
    }
    epoch.validation_loss = figures->loss;
    for (const std::size_t column : columns_) {
      epoch.metrics.push_back(figures->metrics[column]);
    }
    record_confusion(*figures);
  }
  for (const TrainerCallback& callback : options_.callbacks) {
    if (callback.on_epoch) {
      callback.on_epoch(epoch, control_);
    }
  }
  history_.epochs.push_back(epoch);
  sums_ = {};
  ++epoch_;
  if (observe(epoch)) {
    save_best(*best_.best());
  }
  save_state();
  keep_epoch();
  on_first([this] { write_figures(false); }, "the writing of figures");
  const RunPlace end{
      .epoch = epoch.epoch, .batch = ports_.batch_count, .batch_count = ports_.batch_count};
  bool goes_on = epoch_ <= options_.epochs;
  const bool is_interrupted = join_ends(interrupt.is_requested());
  std::string ending;
  if (control_.stop) {
    result_.reason = EndReason::stopped;
    goes_on = false;
    ending = ending_at(end);
  } else if (is_stopping_early()) {
    result_.reason = EndReason::no_progress;
    goes_on = false;
  } else if (goes_on && is_interrupted) {
    result_.reason = EndReason::interrupted;
    result_.ended_at = end;
    goes_on = false;
    ending = ending_at(end);
  }
  console_.end_epoch(history_, epoch, ending);
  if (console_.wants_dashboard()) {
    draw_dashboard(end, epoch);
  }
  return goes_on;
}

// Saves the state first: the user waits for it.
void TrainingRun::end_early(EndReason reason) {
  save_state();
  result_.reason = reason;
  result_.ended_at = place();
  result_.partial = record_of_epoch();
  console_.end_epoch(history_, *result_.partial, ending_at(*result_.ended_at));
}

std::string TrainingRun::ending_at(const RunPlace& place, std::string_view part) const {
  return fmt::format("{} after {} of {} {}batches{}:",
                     name(result_.reason),
                     place.batch,
                     place.batch_count,
                     part.empty() ? "" : std::string(part) + " ",
                     options_.folder.empty() ? "" : ", saved");
}

std::string TrainingRun::best_text() const {
  if (watched_metric_) {
    const MetricColumn& column = history_.metrics[watched_column()];
    return column.name + " " + figure_text(column, *best_.best());
  }
  return fmt::format(
      "{} loss {}", ports_.validate ? "validation" : "training", figure_text({}, *best_.best()));
}

// A stopped run has already printed its reason in the line of its epoch.
void TrainingRun::print_end() {
  std::string line;
  if (result_.reason == EndReason::no_progress) {
    line = fmt::format("stopped early: {} has not improved for {} epochs",
                       watched_name(),
                       options_.early_stopping->patience);
  } else if (result_.reason == EndReason::finished && sample_count_ > 0) {
    constexpr std::chrono::duration<double> kShort{10};
    const std::chrono::duration<double> time = now() - begun_at_;
    line = time < kShort ? fmt::format("finished in {:.1f} s", time.count())
                         : "finished in " + detail::readable_time(time);
  } else {
    return;
  }
  if (best_epoch_) {
    line += fmt::format("; best: {} in epoch {}", best_text(), *best_epoch_);
  }
  console_.print_line(line);
  if (!options_.folder.empty()) {
    console_.print_line("weights and report: " + options_.folder.string());
  }
}

TrainingResult TrainingRun::run() {
  const InterruptScope interrupt;
  begun_at_ = now();
  share_at_begin_ = share_done();
  if (is_stopping_early()) {
    result_.reason = EndReason::no_progress;
  } else {
    for (bool goes_on = epoch_ <= options_.epochs; goes_on;) {
      goes_on = train_epoch(interrupt);
    }
  }
  if (!options_.folder.empty()) {
    ports_.save_weights(file("model.safetensors"), options_.notes);
  }
  result_.samples_per_s =
      rate_of(sample_count_,
              std::accumulate(step_times_.begin(), step_times_.end(), std::chrono::nanoseconds(0)));
  result_.median_step = median(std::move(step_times_));
  result_.best_epoch = best_epoch_;
  result_.best_value = best_.best();
  on_first([this] { write_figures(true); }, "the writing of figures");
  print_end();
  console_.close();  // while an interrupt signal is still only a request
  result_.history = std::move(history_);
  return std::move(result_);
}

}  // namespace hearth
