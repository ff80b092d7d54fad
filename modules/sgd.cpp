#include <hearth/modules/sgd.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

namespace hearth {
namespace {

void require(bool is_right, const std::string& text) {
  if (!is_right) {
    throw_error(Error{.code = ErrorCode::invalid_argument, .text = "Sgd: " + text, .op = "Sgd"});
  }
}

void require_not_negative(std::string_view setting, double value) {
  require(value >= 0 && std::isfinite(value),
          fmt::format("{} is {}, but must be 0 or more", setting, value));
}

}  // namespace

Sgd::Sgd(const Config& config)
    : config_(config),
      state_("Sgd",
             config.momentum == 0 ? std::vector<std::string>{}
                                  : std::vector<std::string>{"momentum"}) {
  require_not_negative("learning_rate", config.learning_rate);
  require_not_negative("momentum", config.momentum);
  require_not_negative("weight_decay", config.weight_decay);
  require(std::isfinite(config.dampening), "dampening is not finite");
  require(!config.is_nesterov || (config.momentum > 0 && config.dampening == 0),
          fmt::format("is_nesterov needs momentum and no dampening, got {} and {}",
                      config.momentum,
                      config.dampening));
}

void Sgd::set_learning_rate(double rate) {
  require_not_negative("learning_rate", rate);
  config_.learning_rate = rate;
}

Pending<StepReport> Sgd::update(std::span<const ParameterRef> parameters, Gradients&& gradients) {
  state_.require_fit(parameters, gradients);
  const std::int64_t done =
      state_.step_count();  // settles the step before, which may have lost the state
  state_.prepare(parameters);
  const SgdUpdate settings{.learning_rate = config_.learning_rate,
                           .momentum = config_.momentum,
                           .dampening = config_.dampening,
                           .weight_decay = config_.weight_decay,
                           .nesterov = config_.is_nesterov,
                           .first = done == 0};
  UpdateGroup group(parameters.front().tensor->device());
  Tensor none;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor& parameter = *parameters[i].tensor;
    if (is_float(parameter.dtype())) {
      Tensor& momentum = config_.momentum == 0 ? none : state_.slot(0, i);
      group.sgd(parameter, std::move(gradients[i]), momentum, settings);
    }
  }
  return state_.commit(group, {.step = done + 1, .learning_rate = config_.learning_rate});
}

}  // namespace hearth
