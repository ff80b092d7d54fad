// Writes the files of a run: its state, the best weights, the last epochs, figures and report.
#include <hearth/parallel/training_run.hpp>

#include "training_run_parts.hpp"

#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/training_report.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/trace_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace hearth {
namespace {

void remove_file(const std::filesystem::path& path, SourceLoc where) {
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) {
    training::require_written(
        Error{
            .code = ErrorCode::io_error,
            .text = fmt::format("file {}: cannot be removed: {}", path.string(), error.message())},
        where);
  }
}

// The epoch of a file that keep_epochs made.
std::optional<std::int64_t> kept_epoch(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view kBegin = "epoch-";
  constexpr std::string_view kEnd = ".safetensors";
  if (name.size() <= kBegin.size() + kEnd.size() || !name.starts_with(kBegin) ||
      !name.ends_with(kEnd)) {
    return std::nullopt;
  }
  const char* const begin = name.data() + kBegin.size();
  const char* const end = name.data() + name.size() - kEnd.size();
  std::int64_t epoch = 0;
  const auto [stop, error] = std::from_chars(begin, end, epoch);
  return error == std::errc() && stop == end ? std::optional(epoch) : std::nullopt;
}

}  // namespace

std::filesystem::path TrainingRun::file(const char* name) const {
  return options_.folder / name;
}

// Locks the folder before any file in it is read.
void TrainingRun::take_folder() {
  if (options_.folder.empty()) {
    return;
  }
  lock_ = lock_folder(options_.folder, where_);
  if (!lock_->is_held()) {
    console_.print_line(
        fmt::format("{}: this file system has no locks: see to it that no other run writes "
                    "there",
                    options_.folder.string()));
  }
}

// Finds files that cannot be written before the training starts.
void TrainingRun::prepare_folder() const {
  if (options_.folder.empty()) {
    return;
  }
  for (const char* name :
       {"model.safetensors", training::kStateFile, "metrics.csv", "report.html"}) {
    training::require_written(check_writable(file(name)), where_);
  }
}

void TrainingRun::save_state() {
  if (options_.folder.empty()) {
    return;
  }
  const TracePart part(options_.devices.front(), "save", where_);
  save_state_to(file(training::kStateFile));
}

// Repeats the save when a device was lost meanwhile, so that the notes hold the number of ranks.
void TrainingRun::save_state_to(const std::filesystem::path& file) {
  for (int world = 0; world != ports_.world();) {
    world = ports_.world();
    TrainingProgress progress{.cursor = ports_.cursor(), .notes = run_notes()};
    progress.notes[training::kStateNote] = state_text();
    ports_.save(file, progress);
  }
  replace_old_run();
}

void TrainingRun::replace_old_run() {
  if (std::exchange(has_replaced_old_run_, true)) {
    return;
  }
  const auto remove = [this] {
    if (!best_epoch_) {
      remove_file(file("best.safetensors"), where_);
    }
    remove_kept_epochs([](std::int64_t) { return false; });
  };
  on_first(remove, "the removal of an old run's files");
}

Metadata TrainingRun::best_notes(double value) const {
  return {{"epoch", std::to_string(best_epoch_.value_or(0))},
          {"watched", options_.watch.empty() ? "loss" : options_.watch},
          {"value", fmt::format("{}", value)}};
}

void TrainingRun::save_best(double value) {
  if (options_.folder.empty()) {
    return;
  }
  Metadata metadata = best_notes(value);
  metadata.insert(options_.notes.begin(), options_.notes.end());
  ports_.save_weights(file("best.safetensors"), metadata);
}

void TrainingRun::keep_epoch() {
  if (options_.folder.empty() || options_.keep_epochs == 0) {
    return;
  }
  const std::int64_t last = epoch_ - 1;
  save_state_to(options_.folder / fmt::format("epoch-{}.safetensors", last));
  const auto is_wanted = [&](std::int64_t epoch) {
    return epoch > last - options_.keep_epochs && epoch <= last;
  };
  on_first([&] { remove_kept_epochs(is_wanted); }, "the removal of old epochs");
}

void TrainingRun::remove_kept_epochs(
    const std::function<bool(std::int64_t epoch)>& is_wanted) const {
  std::vector<std::filesystem::path> unwanted;
  std::error_code error;
  for (std::filesystem::directory_iterator each(options_.folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::optional<std::int64_t> epoch = kept_epoch(each->path());
    if (epoch && !is_wanted(*epoch)) {
      unwanted.push_back(each->path());
    }
  }
  if (error) {
    training::require_written(
        Error{.code = ErrorCode::io_error,
              .text = fmt::format(
                  "folder {}: cannot be read: {}", options_.folder.string(), error.message())},
        where_);
  }
  for (const std::filesystem::path& path : unwanted) {
    remove_file(path, where_);
  }
}

// The report grows with the run, so it is not written after each of many short epochs.
void TrainingRun::write_figures(bool is_last) {
  constexpr std::chrono::seconds kPause{2};
  const detail::TimePoint time = training::now();
  if (options_.folder.empty() || (!is_last && written_at_ && time - *written_at_ < kPause)) {
    return;
  }
  written_at_ = time;
  const auto write = [&](const char* name, const std::string& text) {
    training::require_written(write_file_atomically(file(name), std::as_bytes(std::span(text))),
                              where_);
  };
  write("metrics.csv", csv_of(history_));
  is_finished_ = is_last;
  TrainingReport report{.title = options_.title,
                        .facts = facts(),
                        .history = history_,
                        .best_epoch = best_epoch_,
                        .model = ports_.model};
  const auto metric = std::ranges::find_if(options_.metrics, [&](const EvaluationMetric& each) {
    return confusion_ && each.name == confusion_->metric &&
           each.class_count == confusion_->class_count;
  });
  if (metric != options_.metrics.end()) {
    report.confusion = confusion_matrix_of(*metric, confusion_->statistics, where_);
  }
  write("report.html", html_of(report));
}

}  // namespace hearth
