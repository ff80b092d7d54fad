#include <hearth/modules/adadelta.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

UpdateFormula AdadeltaRule::formula() const {
  return {.slots = {"square", "step"}, .update = [rule = *this](const UpdateOperands& o) {
            const Tensor g = o.gradient + o.weight_decay * o.parameter;
            const Tensor square = rule.rho * o.state[0] + (1 - rule.rho) * g * g;
            const Tensor step = sqrt(o.state[1] + rule.epsilon) / sqrt(square + rule.epsilon) * g;
            return std::vector<Tensor>{o.parameter - o.rate * step,
                                       square,
                                       rule.rho * o.state[1] + (1 - rule.rho) * step * step};
          }};
}

std::vector<OptimizerSetting> AdadeltaRule::settings() const {
  return {{.name = "rho", .value = rho, .below = 1}, {.name = "epsilon", .value = epsilon}};
}

}  // namespace hearth
