#include <hearth/modules/rms_prop.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

UpdateFormula RmsPropRule::formula() const {
  UpdateFormula formula{.slots = {"square"}, .update = [rule = *this](const UpdateOperands& o) {
                          const Tensor g = o.gradient + o.weight_decay * o.parameter;
                          const Tensor square = rule.alpha * o.state[0] + (1 - rule.alpha) * g * g;
                          std::vector<Tensor> results{Tensor(), square};
                          Tensor variance = square;
                          if (rule.centered) {
                            const Tensor mean = rule.alpha * o.state[1] + (1 - rule.alpha) * g;
                            variance = maximum(square - mean * mean, 0.0);
                            results.push_back(mean);
                          }
                          Tensor direction = g / (sqrt(variance) + rule.epsilon);
                          if (rule.momentum > 0) {
                            direction = rule.momentum * o.state.back() + direction;
                            results.push_back(direction);
                          }
                          results[0] = o.parameter - o.rate * direction;
                          return results;
                        }};
  if (centered) {
    formula.slots.emplace_back("mean");
  }
  if (momentum > 0) {
    formula.slots.emplace_back("momentum");
  }
  return formula;
}

std::vector<OptimizerSetting> RmsPropRule::settings() const {
  return {{.name = "alpha", .value = alpha, .below = 1},
          {.name = "epsilon", .value = epsilon},
          {.name = "momentum", .value = momentum},
          {.name = "centered", .value = centered ? 1.0 : 0.0}};
}

}  // namespace hearth
