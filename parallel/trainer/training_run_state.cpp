// The state of a run as text, which is part of the saved file, and the resume from it.
#include <hearth/parallel/training_run.hpp>

#include "training_run_parts.hpp"

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/json_fault.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

namespace hearth {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 2;  // format number of the state's text

// JSON keeps finite numbers bit by bit; NaN and infinity are stored as strings.
Json json_of(double value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}
double double_of(const Json& json) {
  return json.is_string() ? std::strtod(json.get_ref<const std::string&>().c_str(), nullptr)
                          : json.get<double>();
}
Json json_of(const std::optional<double>& value) {
  return value ? json_of(*value) : Json(nullptr);
}
std::optional<double> optional_of(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(double_of(json));
}
Json json_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) {
    list.push_back(json_of(value));
  }
  return list;
}
std::vector<double> doubles_of(const Json& list) {
  std::vector<double> values;
  for (const Json& each : list) {
    values.push_back(double_of(each));
  }
  return values;
}

Json json_of(const EpochRecord& epoch) {
  return {epoch.epoch,
          json_of(epoch.train_loss),
          json_of(epoch.validation_loss),
          json_of(epoch.metrics),
          json_of(epoch.first_learning_rate),
          json_of(epoch.last_learning_rate),
          epoch.duration.count(),
          epoch.sample_count};
}
EpochRecord epoch_of(const Json& json) {
  return {.epoch = json.at(0).get<std::int64_t>(),
          .train_loss = double_of(json.at(1)),
          .validation_loss = optional_of(json.at(2)),
          .metrics = doubles_of(json.at(3)),
          .first_learning_rate = double_of(json.at(4)),
          .last_learning_rate = double_of(json.at(5)),
          .duration = std::chrono::nanoseconds(json.at(6).get<std::int64_t>()),
          .sample_count = json.at(7).get<std::int64_t>()};
}

Json json_of(const StepCurve& curve) {
  return {curve.steps_per_point(),
          json_of(curve.points()),
          json_of(curve.open_sum()),
          curve.open_count()};
}
StepCurve curve_of(const Json& json) {
  return {json.at(0).get<std::int64_t>(),
          doubles_of(json.at(1)),
          double_of(json.at(2)),
          json.at(3).get<std::int64_t>()};
}

// Figures of a run whose metrics may have differed or stood in another order; NaN: missing.
std::vector<double> in_columns(const std::vector<MetricColumn>& columns,
                               const std::vector<std::string>& names,
                               const std::vector<double>& figures) {
  std::vector<double> all;
  for (const MetricColumn& column : columns) {
    const auto found = std::ranges::find(names, column.name);
    const auto place = static_cast<std::size_t>(found - names.begin());
    all.push_back(place < figures.size() ? figures[place] : std::nan(""));
  }
  return all;
}

// Returns no settings if the text is not valid JSON, which take_state() reports, or if an earlier
// build wrote it.
std::vector<std::pair<std::string, std::string>> settings_in(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> settings;
  const Json state = Json::parse(text, nullptr, false);
  if (state.is_object() && state.contains("settings")) {
    for (const Json& setting : state.at("settings")) {
      if (setting.is_array() && setting.size() == 2 && setting[0].is_string() &&
          setting[1].is_string()) {
        settings.emplace_back(setting[0].get<std::string>(), setting[1].get<std::string>());
      }
    }
  }
  return settings;
}

}  // namespace

std::string TrainingRun::state_text() const {
  Json epochs = Json::array();
  for (const EpochRecord& epoch : history_.epochs) {
    epochs.push_back(json_of(epoch));
  }
  Json metrics = Json::array();
  for (const MetricColumn& metric : history_.metrics) {
    metrics.push_back(metric.name);
  }
  Json settings = Json::array();
  for (const auto& [name, value] : this->settings()) {
    settings.push_back({name, value});
  }
  const Json state = {
      {"format", kFormat},
      {"settings", settings},
      {"epochs", epochs},
      {"steps", json_of(history_.steps)},
      {"rates", json_of(history_.rates)},
      {"sums",
       {json_of(sums_.loss),
        json_of(sums_.weight),
        sums_.sample_count,
        sums_.duration.count(),
        json_of(sums_.first_learning_rate),
        json_of(sums_.last_learning_rate)}},
      {"rate", json_of(rate_)},
      {"epoch", epoch_},
      {"metrics", metrics},
      {"watched", {watched_name(), best_.goal() == Goal::highest}},
      {"confusion",
       confusion_
           ? Json{confusion_->metric, confusion_->class_count, json_of(confusion_->statistics)}
           : Json(nullptr)}};
  return state.dump();
}

// The best epoch, patience and plateau follow from the figures of the epochs, as they did in the
// first run.
void TrainingRun::take_state(const std::string& text) {
  const detail::FloatEnvironment environment;
  const Json state = Json::parse(text);
  // the first format had no number
  if (!state.contains("format") || state.at("format") != Json(kFormat)) {
    throw std::invalid_argument("another version of Hearth wrote it");
  }
  epoch_ = state.at("epoch").get<std::int64_t>();
  const auto names = state.at("metrics").get<std::vector<std::string>>();
  for (const Json& saved : state.at("epochs")) {
    EpochRecord epoch = epoch_of(saved);
    epoch.metrics = in_columns(history_.metrics, names, epoch.metrics);
    history_.epochs.push_back(std::move(epoch));
  }
  history_.steps = curve_of(state.at("steps"));
  history_.rates = curve_of(state.at("rates"));
  const Json& sums = state.at("sums");
  sums_ = {.loss = double_of(sums.at(0)),
           .weight = double_of(sums.at(1)),
           .sample_count = sums.at(2).get<std::int64_t>(),
           .duration = std::chrono::nanoseconds(sums.at(3).get<std::int64_t>()),
           .first_learning_rate = double_of(sums.at(4)),
           .last_learning_rate = double_of(sums.at(5))};
  if (state.contains("rate")) {  // an earlier build wrote none
    rate_ = optional_of(state.at("rate"));
  }
  if (const Json& confusion = state.at("confusion"); !confusion.is_null()) {
    confusion_ = Confusion{.metric = confusion.at(0).get<std::string>(),
                           .class_count = confusion.at(1).get<std::int64_t>(),
                           .statistics = doubles_of(confusion.at(2))};
  }
  const Json& watched = state.at("watched");
  const auto name = watched.at(0).get<std::string>();
  if (name == watched_name() && watched.at(1).get<bool>() == (best_.goal() == Goal::highest)) {
    for (const EpochRecord& epoch : history_.epochs) {
      static_cast<void>(observe(epoch));
    }
  } else {
    console_.print_line(
        fmt::format("the run watched {}, and watches {} now: the best epoch is chosen again",
                    name,
                    watched_name()));
  }
}

Metadata TrainingRun::own_notes() const {
  Metadata notes = ports_.data.notes;
  notes["devices"] = std::to_string(ports_.world());
  notes["seed"] = std::to_string(options_.seed);
  notes["accumulate"] = std::to_string(options_.accumulate);
  return notes;
}

Metadata TrainingRun::run_notes() const {
  Metadata notes = own_notes();
  notes.insert(options_.notes.begin(), options_.notes.end());
  return notes;
}

void TrainingRun::require_same_run() {
  const auto require_same = [this](const std::string& what,
                                   const std::string& was,
                                   const std::string& is) {
    if (was != is) {
      training::refuse(fmt::format("the run in {} had {} {}, this one has {}: resume it with the "
                                   "same, or begin a new one in another folder, or without resume",
                                   file(training::kStateFile).string(),
                                   what,
                                   was,
                                   is),
                       where_);
    }
  };
  const SafetensorsFile saved = SafetensorsFile::read(file(training::kStateFile), where_);
  for (const auto& [note, wanted] : run_notes()) {
    const auto found = saved.metadata().find(note);
    require_same(note, found == saved.metadata().end() ? "unknown" : found->second, wanted);
  }
  const auto state = saved.metadata().find(training::kStateNote);
  saved_settings_ = state == saved.metadata().end() ? Words() : settings_in(state->second);
  require_same_scaling();
  // An average that starts in mid-run would cover other steps.
  const auto average =
      std::ranges::find(saved_settings_, std::string("average_decay"), &Words::value_type::first);
  const std::string now = fmt::format("{}", options_.average_decay);
  if (average != saved_settings_.end() && (average->second == "0" || now == "0")) {
    require_same("average_decay", average->second, now);
  }
}

void TrainingRun::resume() {
  const TrainingProgress progress = ports_.load(file(training::kStateFile));
  const auto text = progress.notes.find(training::kStateNote);
  try {
    if (text == progress.notes.end()) {
      throw std::invalid_argument(fmt::format("'{}' is missing", training::kStateNote));
    }
    take_state(text->second);
  } catch (const std::exception& error) {  // includes the JSON library's exceptions
    throw FileError(Error{.code = ErrorCode::bad_format,
                          .text = fmt::format("file {}: no run can go on from it: {}; begin a new "
                                              "one in another folder, or without resume",
                                              file(training::kStateFile).string(),
                                              json_fault(error)),
                          .op = "Trainer",
                          .location = where_});
  }
  require_same_epoch(progress.cursor);
  ports_.seek(ends_epoch(progress.cursor) ? LoaderCursor{.epoch = epoch_, .batch = 0}
                                          : progress.cursor);
  has_replaced_old_run_ = true;
  const RunPlace at = place();
  if (at.batch == ports_.batch_count) {
    is_epoch_trained_ = true;
    ports_.seek({.epoch = epoch_, .batch = 0});
  }
  result_.resumed_at = at;
  const std::string changes = changes_since(saved_settings_);
  if (epoch_ > options_.epochs) {
    console_.print_line(fmt::format("nothing left to train: the run in {} has had {} epochs",
                                    options_.folder.string(),
                                    epoch_ - 1));
  } else if (is_epoch_trained_) {
    console_.print_line(fmt::format("resumed at the end of epoch {}{}", epoch_, changes));
  } else {
    console_.print_line(
        fmt::format("resumed at epoch {}, batch {}{}", epoch_, at.batch + 1, changes));
  }
}

std::optional<std::string> TrainingRun::saved_setting(std::string_view name) const {
  const auto saved = std::ranges::find(saved_settings_, name, &Words::value_type::first);
  return saved == saved_settings_.end() ? std::nullopt : std::optional(saved->second);
}

// After the last batch the cursor may be at the end of the epoch, whose length the saved settings
// give, or in the next epoch.
bool TrainingRun::ends_epoch(const LoaderCursor& cursor) const {
  return cursor.epoch < epoch_ && std::to_string(cursor.batch) == saved_setting(kBatches);
}

// The state of an earlier build holds no settings.
void TrainingRun::require_same_epoch(const LoaderCursor& cursor) const {
  if (cursor.batch == 0 || ends_epoch(cursor)) {
    return;
  }
  for (const auto& [name, now] : settings()) {
    const std::optional<std::string> saved = saved_setting(name);
    if (saved && *saved != now && (name == kBatches || name == kExamples)) {
      training::refuse(
          fmt::format("the run in {} was stopped after batch {} of an epoch of other data: {} {}, "
                      "and here {}; it can only go on behind a whole epoch",
                      file(training::kStateFile).string(),
                      cursor.batch,
                      name,
                      *saved,
                      now),
          where_);
    }
  }
}

bool TrainingRun::has_state() const {
  std::error_code error;
  const bool is_there = std::filesystem::exists(file(training::kStateFile), error);
  if (error) {
    training::require_written(Error{.code = ErrorCode::io_error,
                                    .text = fmt::format("file {}: cannot be looked for: {}",
                                                        file(training::kStateFile).string(),
                                                        error.message())},
                              where_);
  }
  return is_there;
}

}  // namespace hearth
