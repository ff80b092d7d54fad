#include <hearth/modules/sgd.hpp>

#include <hearth/modules/optimizer_setting.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace hearth {
namespace {

void require(bool is_right, const std::string& text, SourceLoc loc) {
  if (!is_right) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument, .text = "Sgd: " + text, .op = "Sgd", .location = loc});
  }
}

}  // namespace

Sgd::Sgd(const Config& config, SourceLoc loc)
    : config_(config),
      state_(
          "Sgd",
          config.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"},
          config.groups,
          loc) {
  detail::require_sound("Sgd",
                        {{.name = "learning_rate", .value = config.learning_rate},
                         {.name = "momentum", .value = config.momentum},
                         {.name = "weight_decay", .value = config.weight_decay}},
                        loc);
  require(std::isfinite(config.dampening), "dampening is not finite", loc);
  require(!config.nesterov || (config.momentum > 0 && config.dampening == 0),
          fmt::format("nesterov needs momentum and no dampening, got {} and {}",
                      config.momentum,
                      config.dampening),
          loc);
}

void Sgd::set_learning_rate(double rate, SourceLoc loc) {
  detail::require_sound("Sgd", {{.name = "learning_rate", .value = rate}}, loc);
  config_.learning_rate = rate;
}

Pending<StepReport> Sgd::update(std::span<const ParameterRef> parameters,
                                Gradients&& gradients,
                                JointUpdate joint,
                                SourceLoc loc) {
  const bool has_momentum = config_.momentum != 0;
  Tensor none;
  return state_.step(parameters,
                     std::move(gradients),
                     {.learning_rate = config_.learning_rate,
                      .counts_updates = has_momentum,
                      .joint = std::move(joint)},
                     loc,
                     [&](UpdateGroup& group, std::size_t i, Tensor gradient) {
                       const detail::ParameterSettings& own = state_.settings(i);
                       const Tensor* const count = state_.device_count(i);
                       group.sgd(
                           *parameters[i].tensor,
                           std::move(gradient),
                           has_momentum ? state_.slot(0, i) : none,
                           {.learning_rate = config_.learning_rate * own.rate_factor,
                            .momentum = config_.momentum,
                            .dampening = config_.dampening,
                            .weight_decay = own.weight_decay.value_or(config_.weight_decay),
                            .nesterov = config_.nesterov,
                            .first = has_momentum && count == nullptr && state_.next_update(i) == 1,
                            .count = count});
                     });
}

}  // namespace hearth
