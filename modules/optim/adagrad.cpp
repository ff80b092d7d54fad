#include <hearth/modules/adagrad.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

UpdateFormula AdagradRule::formula() const {
  UpdateFormula formula{.slots = {"sum"}, .update = [rule = *this](const UpdateOperands& o) {
                          const Tensor g = o.gradient + o.weight_decay * o.parameter;
                          const Tensor sum = o.state[0] + g * g;
                          const Tensor root = sqrt(sum + rule.initial_sum) + rule.epsilon;
                          const Tensor rate = rule.rate_decay > 0 ? o.rate * o.factors[0] : o.rate;
                          return std::vector<Tensor>{o.parameter - rate * g / root, sum};
                        }};
  if (rate_decay > 0) {
    formula.factors = [decay = rate_decay](const Tensor& update_number) {
      return std::vector<Tensor>{1.0 / (1.0 + (update_number - 1.0) * decay)};
    };
  }
  return formula;
}

std::vector<OptimizerSetting> AdagradRule::settings() const {
  return {{.name = "rate_decay", .value = rate_decay},
          {.name = "initial_sum", .value = initial_sum},
          {.name = "epsilon", .value = epsilon}};
}

}  // namespace hearth
