#include <hearth/parallel/training_run.hpp>

#include <hearth/modules/safetensors.hpp>
#include <hearth/modules/training_report.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/trace_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <variant>

namespace hearth {
namespace {

constexpr const char* kStateNote = "trainer.state";
constexpr const char* kStateFile = "training.safetensors";

[[noreturn]] void refuse(std::string text, SourceLoc where) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "Trainer: " + std::move(text),
                    .op = "Trainer",
                    .location = where});
}

void require_at_least(std::int64_t least, const char* name, std::int64_t value, SourceLoc where) {
  if (value < least) {
    refuse(fmt::format("{} is {}, but must be {} or more", name, value, least), where);
  }
}

void require_written(const Status& status, SourceLoc where) {
  if (!status.has_value()) {
    detail::throw_file_error(status.error(), where);
  }
}

detail::TimePoint now() {
  return current_context().clock().now();
}

double seconds_between(detail::TimePoint begin, detail::TimePoint end) {
  return std::chrono::duration<double>(end - begin).count();
}

double base_rate_of(const OptimizerConfig& config) {
  return std::visit([](const auto& each) { return each.learning_rate; }, config);
}

// Which of the metrics a run watches; none: the loss.
std::optional<std::size_t> watched_of(const TrainerOptions& options,
                                      bool has_validation,
                                      SourceLoc where) {
  if (options.watch.empty()) {
    return std::nullopt;
  }
  std::string known;
  for (std::size_t i = 0; i < options.metrics.size(); ++i) {
    if (options.metrics[i].name == options.watch && has_validation) {
      return i;
    }
    known += (known.empty() ? "" : ", ") + options.metrics[i].name;
  }
  refuse(has_validation
             ? fmt::format("there is no metric '{}' to watch; there are: {}", options.watch, known)
             : fmt::format("'{}' cannot be watched without validation data", options.watch),
         where);
}

Goal goal_of(const TrainerOptions& options, const std::optional<std::size_t>& metric) {
  return metric ? options.metrics[*metric].goal : Goal::lowest;
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

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
      console_(options.console, options.epochs),
      best_(goal_of(options, watched_metric_)),
      patience_(goal_of(options, watched_metric_),
                options.early_stopping ? options.early_stopping->min_change : 0) {
  require_at_least(1, "epochs", options.epochs, where);
  require_at_least(1, "accumulate", options.accumulate, where);
  require_at_least(0, "save_every", options.save_every, where);
  require_at_least(0, "keep_epochs", options.keep_epochs, where);
  if (options.early_stopping) {
    require_at_least(1, "early_stopping.patience", options.early_stopping->patience, where);
  }
  require_sound(options.schedule, "Trainer", where);
  if (const auto* plateau = std::get_if<PlateauRate>(&options.schedule)) {
    plateau_.emplace(*plateau, best_.goal());
  }
  for (const auto& [note, value] : options.notes) {
    if (note.starts_with("hearth.") || note.starts_with("trainer.")) {
      refuse(fmt::format("the note '{}' begins with a word of the library", note), where);
    }
  }
  if (options.folder.empty() && (options.resume || options.save_every > 0)) {
    refuse("resume and save_every need a folder", where);
  }
  if (ports_.validate) {
    for (const EvaluationMetric& metric : options.metrics) {
      history_.metrics.push_back(
          {.name = metric.name, .goal = metric.goal, .in_percent = metric.in_percent});
    }
  }
  if (options.resume) {
    require_same_run();
  }
  prepare_folder();
  if (options.resume) {
    resume();
  }
}

std::filesystem::path TrainingRun::file(const char* name) const {
  return options_.folder / name;
}

// What cannot be written is found out before the training.
void TrainingRun::prepare_folder() const {
  if (options_.folder.empty()) {
    return;
  }
  require_written(make_folder(options_.folder), where_);
  for (const char* name : {"model.safetensors", kStateFile, "metrics.csv", "report.html"}) {
    require_written(check_writable(file(name)), where_);
  }
}

// ---------------------------------------------------------------------------------- the state

Metadata TrainingRun::run_notes() const {
  Metadata notes = ports_.notes;
  notes["devices"] = std::to_string(ports_.world());
  notes["seed"] = std::to_string(options_.seed);
  notes["accumulate"] = std::to_string(options_.accumulate);
  for (const auto& [note, value] : options_.notes) {
    notes[note] = value;
  }
  return notes;
}

void TrainingRun::require_same_run() const {
  const SafetensorsFile saved = SafetensorsFile::read(file(kStateFile), where_);
  for (const auto& [note, wanted] : run_notes()) {
    const auto found = saved.metadata().find(note);
    const std::string was = found == saved.metadata().end() ? "unknown" : found->second;
    if (was != wanted) {
      refuse(fmt::format("the run in {} had {} {}, this one has {}",
                         file(kStateFile).string(),
                         note,
                         was,
                         wanted),
             where_);
    }
  }
}

void TrainingRun::resume() {
  const TrainingProgress progress = ports_.load(file(kStateFile));
  const auto text = progress.notes.find(kStateNote);
  try {
    if (text == progress.notes.end()) {
      throw std::invalid_argument(fmt::format("'{}' is missing", kStateNote));
    }
    take_state(text->second);
  } catch (const std::exception& error) {  // of the JSON library, too
    throw FileError(Error{.code = ErrorCode::bad_format,
                          .text = fmt::format("file {}: not the state of a Trainer's run: {}",
                                              file(kStateFile).string(),
                                              error.what()),
                          .op = "Trainer",
                          .location = where_});
  }
  ports_.seek(progress.cursor);
  epoch_ = progress.cursor.epoch + 1;
  result_.resumed_at =
      RunPlace{.epoch = epoch_, .batch = progress.cursor.batch, .batch_count = ports_.batch_count};
  console_.say(
      epoch_ > options_.epochs
          ? fmt::format("nothing left to train: the run in {} has had {} epochs",
                        options_.folder.string(),
                        epoch_ - 1)
          : fmt::format("resumed at epoch {}, batch {}", epoch_, progress.cursor.batch + 1));
}

// ---------------------------------------------------------------------------------- the course

RunPlace TrainingRun::place() const {
  const LoaderCursor cursor = ports_.cursor();
  // Behind the last batch of an epoch the cursor may be in the next one.
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

void TrainingRun::set_rate() {
  const double factor = rate_factor(
      options_.schedule, steps_before(ports_.cursor()), options_.epochs * steps_per_epoch());
  const double rate = base_rate_ * factor * (plateau_ ? plateau_->factor() : 1);
  if (rate != rate_) {
    ports_.set_learning_rate(rate);
    rate_ = rate;
  }
}

std::optional<TrainingStep> TrainingRun::take_step() {
  if (ports_.cursor().batch < ports_.batch_count) {
    set_rate();
  }
  const TracePart part(options_.devices.front(), "step", where_);
  const detail::TimePoint begin = now();
  const std::optional<DataParallelReport> report = ports_.step();
  if (!report) {
    return std::nullopt;
  }
  const double seconds = seconds_between(begin, now());
  step_seconds_.push_back(seconds);
  sample_count_ += report->sample_count;
  sums_.loss += report->loss * report->weight;
  sums_.weight += report->weight;
  sums_.sample_count += report->sample_count;
  sums_.seconds += seconds;
  history_.steps.add(report->loss);
  return TrainingStep{.step = steps_before(ports_.cursor()),
                      .place = place(),
                      .loss = report->loss,
                      .sample_count = report->sample_count,
                      .learning_rate = rate_,
                      .seconds = seconds};
}

EpochRecord TrainingRun::record_of_epoch() const {
  return {.epoch = epoch_,
          .train_loss = sums_.loss / sums_.weight,
          .learning_rate = rate_,
          .seconds = sums_.seconds,
          .sample_count = sums_.sample_count};
}

bool TrainingRun::train_epoch(const InterruptScope& interrupt) {
  while (const std::optional<TrainingStep> step = take_step()) {
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
    if (interrupt.is_requested() || control_.stop) {
      end_early(interrupt.is_requested() ? EndReason::interrupted : EndReason::stopped);
      return false;
    }
    if (options_.save_every > 0 && step->step % options_.save_every == 0) {
      save_state();
    }
  }
  end_epoch();
  if (control_.stop || is_stopping_early()) {
    result_.reason = control_.stop ? EndReason::stopped : EndReason::no_progress;
    return false;
  }
  if (interrupt.is_requested() && epoch_ <= options_.epochs) {
    result_.reason = EndReason::interrupted;
    result_.ended_at = RunPlace{
        .epoch = epoch_ - 1, .batch = ports_.batch_count, .batch_count = ports_.batch_count};
    console_.end_epoch(history_, history_.epochs.back(), result_.ended_at);
    return false;
  }
  return epoch_ <= options_.epochs;
}

// What a lost device has is not asked for: it would not answer.
void TrainingRun::draw_dashboard(const RunPlace& place, const EpochRecord& so_far) {
  DashboardFigures figures{.title = options_.title,
                           .place = place,
                           .epochs = options_.epochs,
                           .loss = so_far.train_loss,
                           .samples_per_s = so_far.samples_per_s(),
                           .learning_rate = rate_,
                           .seconds = seconds_between(begun_at_, now()),
                           .share_at_begin = share_at_begin_,
                           .history = &history_,
                           .best_epoch = best_epoch_,
                           .best_value = best_.best().value_or(0)};
  for (const Device& device : options_.devices) {
    DashboardDevice shown{.name = device.name(), .is_lost = device.is_lost()};
    if (!shown.is_lost) {
      const MemoryStatistics memory = device.memory();
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

double TrainingRun::watched(const EpochRecord& epoch) const {
  return watched_metric_ ? epoch.metrics[*watched_metric_]
                         : epoch.validation_loss.value_or(epoch.train_loss);
}

bool TrainingRun::is_stopping_early() const {
  return options_.early_stopping && patience_.misses() >= options_.early_stopping->patience;
}

void TrainingRun::end_epoch() {
  EpochRecord epoch = record_of_epoch();
  if (ports_.validate) {
    const TracePart part(options_.devices.front(), "validation", where_);
    figures_ = ports_.validate();
    epoch.validation_loss = figures_->loss;
    epoch.metrics = figures_->metrics;
  }
  history_.epochs.push_back(epoch);
  sums_ = {};
  ++epoch_;
  const double value = watched(epoch);
  static_cast<void>(patience_.observe(value));
  if (plateau_) {
    static_cast<void>(plateau_->observe(value));
  }
  for (const TrainerCallback& callback : options_.callbacks) {
    if (callback.on_epoch) {
      callback.on_epoch(epoch, control_);
    }
  }
  if (best_.observe(value)) {
    best_epoch_ = epoch.epoch;
    save_best(value);
  }
  save_state();
  keep_epoch();
  write_figures(false);
  console_.end_epoch(history_, epoch);
  if (console_.wants_dashboard()) {
    draw_dashboard(
        {.epoch = epoch.epoch, .batch = ports_.batch_count, .batch_count = ports_.batch_count},
        epoch);
  }
}

// The state first: it is what the user waits for.
void TrainingRun::end_early(EndReason reason) {
  save_state();
  result_.reason = reason;
  result_.ended_at = place();
  result_.partial = record_of_epoch();
  console_.end_epoch(history_, *result_.partial, result_.ended_at);
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
  double seconds = 0;
  for (const double each : step_seconds_) {
    seconds += each;
  }
  result_.samples_per_s = seconds > 0 ? static_cast<double>(sample_count_) / seconds : 0;
  result_.median_step_seconds = median(std::move(step_seconds_));
  result_.best_epoch = best_epoch_;
  result_.best_value = best_.best();
  write_figures(true);
  console_.close();  // while a signal is still a wish
  result_.history = std::move(history_);
  return std::move(result_);
}

// ---------------------------------------------------------------------------------- files

void TrainingRun::save_state() const {
  if (options_.folder.empty()) {
    return;
  }
  const TracePart part(options_.devices.front(), "save", where_);
  TrainingProgress progress{.cursor = ports_.cursor(), .notes = run_notes()};
  progress.notes[kStateNote] = state_text();
  ports_.save(file(kStateFile), progress);
}

void TrainingRun::save_best(double value) {
  if (options_.folder.empty()) {
    return;
  }
  Metadata metadata = options_.notes;
  metadata["epoch"] = std::to_string(*best_epoch_);
  metadata["watched"] = options_.watch.empty() ? "loss" : options_.watch;
  metadata["value"] = fmt::format("{}", value);
  ports_.save_weights(file("best.safetensors"), metadata);
}

void TrainingRun::keep_epoch() const {
  if (options_.folder.empty() || options_.keep_epochs == 0) {
    return;
  }
  const auto name_of = [&](std::int64_t epoch) {
    return options_.folder / fmt::format("epoch-{}.safetensors", epoch);
  };
  const std::int64_t last = epoch_ - 1;
  TrainingProgress progress{.cursor = ports_.cursor(), .notes = run_notes()};
  progress.notes[kStateNote] = state_text();
  ports_.save(name_of(last), progress);
  std::error_code error;
  std::filesystem::remove(name_of(last - options_.keep_epochs), error);
  if (error) {
    require_written(Error{.code = ErrorCode::io_error,
                          .text = fmt::format("file {}: cannot be removed: {}",
                                              name_of(last - options_.keep_epochs).string(),
                                              error.message())},
                    where_);
  }
}

// A report grows with the run, so one of many short epochs is not written after each of them.
void TrainingRun::write_figures(bool is_last) {
  constexpr std::chrono::seconds kPause{2};
  const detail::TimePoint time = now();
  if (options_.folder.empty() || (!is_last && written_at_ && time - *written_at_ < kPause)) {
    return;
  }
  written_at_ = time;
  const auto write = [&](const char* name, const std::string& text) {
    require_written(write_file_atomically(file(name), std::as_bytes(std::span(text))), where_);
  };
  write("metrics.csv", csv_of(history_));
  TrainingReport report{
      .title = options_.title,
      .facts = {{"state", std::string(is_last ? name(result_.reason) : "under way")},
                {"epochs", fmt::format("{} of {}", history_.epochs.size(), options_.epochs)}},
      .history = history_,
      .best_epoch = best_epoch_,
      .model = ports_.model};
  if (best_epoch_) {
    report.facts.emplace_back("best epoch", std::to_string(*best_epoch_));
  }
  for (const auto& [note, value] : run_notes()) {
    report.facts.emplace_back(note, value);
  }
  for (std::size_t i = 0; figures_ && i < options_.metrics.size(); ++i) {
    if (options_.metrics[i].class_count > 0 && !report.confusion) {
      report.confusion = confusion_matrix_of(options_.metrics[i], figures_->statistics.at(i));
    }
  }
  write("report.html", html_of(report));
}

}  // namespace hearth
