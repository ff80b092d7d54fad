// The state of a run as text: part of the file that a run goes on from.
#include <hearth/parallel/training_run.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

namespace hearth {
namespace {

using Json = nlohmann::json;

// Numbers in JSON come back bit by bit, but for those that are none.
Json json_of(double value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}
double double_of(const Json& json) {
  return json.is_string() ? std::strtod(json.get_ref<const std::string&>().c_str(), nullptr)
                          : json.get<double>();
}
Json json_of(std::int64_t value) {
  return Json(value);
}
template <class T>
Json json_of(const std::optional<T>& value) {
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
          json_of(epoch.learning_rate),
          json_of(epoch.seconds),
          epoch.sample_count};
}
EpochRecord epoch_of(const Json& json) {
  return {.epoch = json.at(0).get<std::int64_t>(),
          .train_loss = double_of(json.at(1)),
          .validation_loss = optional_of(json.at(2)),
          .metrics = doubles_of(json.at(3)),
          .learning_rate = double_of(json.at(4)),
          .seconds = double_of(json.at(5)),
          .sample_count = json.at(6).get<std::int64_t>()};
}

Json json_of(const BestValue& best) {
  return {json_of(best.best()), best.misses()};
}

}  // namespace

std::string TrainingRun::state_text() const {
  Json epochs = Json::array();
  for (const EpochRecord& epoch : history_.epochs) {
    epochs.push_back(json_of(epoch));
  }
  const LossCurve& steps = history_.steps;
  const Json state = {
      {"epochs", epochs},
      {"steps",
       {steps.steps_per_point(),
        json_of(steps.points()),
        json_of(steps.open_sum()),
        steps.open_count()}},
      {"sums",
       {json_of(sums_.loss), json_of(sums_.weight), sums_.sample_count, json_of(sums_.seconds)}},
      {"best", json_of(best_)},
      {"best_epoch", json_of(best_epoch_)},
      {"patience", json_of(patience_)},
      {"plateau",
       plateau_ ? Json{json_of(plateau_->factor()), json_of(plateau_->best())} : Json(nullptr)}};
  return state.dump();
}

void TrainingRun::take_state(const std::string& text) {
  const Json state = Json::parse(text);
  const auto best_of = [](const Json& json, Goal goal, double min_change) {
    return BestValue(goal, min_change, optional_of(json.at(0)), json.at(1).get<std::int64_t>());
  };
  for (const Json& epoch : state.at("epochs")) {
    history_.epochs.push_back(epoch_of(epoch));
    history_.epochs.back().metrics.resize(history_.metrics.size(), std::nan(""));
  }
  const Json& steps = state.at("steps");
  history_.steps = LossCurve(steps.at(0).get<std::int64_t>(),
                             doubles_of(steps.at(1)),
                             double_of(steps.at(2)),
                             steps.at(3).get<std::int64_t>());
  const Json& sums = state.at("sums");
  sums_ = {.loss = double_of(sums.at(0)),
           .weight = double_of(sums.at(1)),
           .sample_count = sums.at(2).get<std::int64_t>(),
           .seconds = double_of(sums.at(3))};
  const Goal goal = best_.goal();
  best_ = best_of(state.at("best"), goal, 0);
  if (!state.at("best_epoch").is_null()) {
    best_epoch_ = state.at("best_epoch").get<std::int64_t>();
  }
  const double min_change = options_.early_stopping ? options_.early_stopping->min_change : 0;
  patience_ = best_of(state.at("patience"), goal, min_change);
  if (plateau_ && !state.at("plateau").is_null()) {
    const Json& plateau = state.at("plateau");
    plateau_.emplace(std::get<PlateauRate>(options_.schedule),
                     goal,
                     double_of(plateau.at(0)),
                     optional_of(plateau.at(1).at(0)),
                     plateau.at(1).at(1).get<std::int64_t>());
  }
}

}  // namespace hearth
