#include <hearth/modules/lamb.hpp>

#include "adam_moments.hpp"

#include <hearth/runtime/ops.hpp>

namespace hearth {
namespace {

detail::MomentSettings moments_in(const LambRule& rule) {
  return {.beta1 = rule.beta1, .beta2 = rule.beta2, .epsilon = rule.epsilon};
}

Tensor direction_of(const UpdateOperands& o,
                    const detail::Moments& moments,
                    const detail::MomentSettings& settings) {
  return detail::adam_direction(moments, o.factors, settings) + o.weight_decay * o.parameter;
}

}  // namespace

UpdateFormula LambRule::formula() const {
  UpdateFormula formula = detail::adam_formula(moments_in(*this));
  formula.update = [settings = moments_in(*this)](const UpdateOperands& o) {
    const detail::Moments moments = detail::moments_of(o, settings);
    return std::vector<Tensor>{
        o.parameter - o.rate * o.inputs[0] * direction_of(o, moments, settings),
        moments.mean,
        moments.variance};
  };
  formula.inputs = [settings = moments_in(*this)](const UpdateOperands& o) {
    const Tensor length = sqrt(sum(square(o.parameter)));
    const Tensor step =
        sqrt(sum(square(direction_of(o, detail::moments_of(o, settings), settings))));
    const Tensor has_ratio = logical_and(length > 0.0, step > 0.0);
    return std::vector<Tensor>{where(has_ratio, length / step, 1.0)};
  };
  return formula;
}

std::vector<OptimizerSetting> LambRule::settings() const {
  return detail::moment_settings(moments_in(*this));
}

}  // namespace hearth
