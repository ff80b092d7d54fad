#include <hearth/modules/sgd.hpp>

#include <hearth/runtime/base/float_environment.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

namespace hearth {
namespace {

void require(bool is_right, const std::string& text, SourceLoc loc) {
  if (!is_right) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument, .text = "Sgd: " + text, .op = "Sgd", .location = loc});
  }
}

void require_not_negative(std::string_view setting, double value, SourceLoc loc) {
  require(value >= 0 && std::isfinite(value),
          fmt::format("{} is {}, but must be 0 or more", setting, value),
          loc);
}

}  // namespace

Sgd::Sgd(const Config& config, SourceLoc loc)
    : config_(config),
      state_(
          "Sgd",
          config.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"},
          config.groups,
          loc) {
  require_not_negative("learning_rate", config.learning_rate, loc);
  require_not_negative("momentum", config.momentum, loc);
  require_not_negative("weight_decay", config.weight_decay, loc);
  require(std::isfinite(config.dampening), "dampening is not finite", loc);
  require(!config.nesterov || (config.momentum > 0 && config.dampening == 0),
          fmt::format("nesterov needs momentum and no dampening, got {} and {}",
                      config.momentum,
                      config.dampening),
          loc);
}

void Sgd::set_learning_rate(double rate, SourceLoc loc) {
  require_not_negative("learning_rate", rate, loc);
  config_.learning_rate = rate;
}

Pending<StepReport> Sgd::update(std::span<const ParameterRef> parameters,
                                Gradients&& gradients,
                                JointUpdate joint,
                                SourceLoc loc) {
  const detail::FloatEnvironment environment;
  state_.require_fit(parameters, gradients, loc);
  state_.require_steps_told(loc);
  state_.prepare(parameters, loc);
  const bool has_momentum = config_.momentum != 0;
  if (has_momentum) {
    state_.count_updates(parameters, gradients, loc);
  }
  UpdateGroup group(parameters.front().tensor->device(), loc);
  Tensor none;
  Gradients taken(std::move(gradients));  // marks the argument as used
  state_.update_each(parameters, taken, [&](std::size_t i) {
    const detail::ParameterSettings& own = state_.settings(i);
    const Tensor* const count = state_.device_count(i);
    group.sgd(*parameters[i].tensor,
              std::move(taken[i]),
              has_momentum ? state_.slot(0, i) : none,
              {.learning_rate = config_.learning_rate * own.rate_factor,
               .momentum = config_.momentum,
               .dampening = config_.dampening,
               .weight_decay = own.weight_decay.value_or(config_.weight_decay),
               .nesterov = config_.nesterov,
               .first = has_momentum && count == nullptr && state_.next_update(i) == 1,
               .count = count});
  });
  return state_.commit(group, {.learning_rate = config_.learning_rate}, std::move(joint));
}

}  // namespace hearth
