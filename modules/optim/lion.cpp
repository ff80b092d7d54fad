#include <hearth/modules/lion.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

UpdateFormula LionRule::formula() const {
  return {.slots = {"momentum"}, .update = [rule = *this](const UpdateOperands& o) {
            const Tensor& m = o.state[0];
            const Tensor direction = sign(rule.beta1 * m + (1 - rule.beta1) * o.gradient);
            return std::vector<Tensor>{
                (1.0 - o.rate * o.weight_decay) * o.parameter - o.rate * direction,
                rule.beta2 * m + (1 - rule.beta2) * o.gradient};
          }};
}

std::vector<OptimizerSetting> LionRule::settings() const {
  return {{.name = "beta1", .value = beta1, .below = 1},
          {.name = "beta2", .value = beta2, .below = 1}};
}

}  // namespace hearth
