#include <hearth/modules/radam.hpp>

#include "adam_moments.hpp"

#include <hearth/runtime/ops.hpp>

namespace hearth {
namespace {

detail::MomentSettings moments_in(const RAdamRule& rule) {
  return {.beta1 = rule.beta1,
          .beta2 = rule.beta2,
          .epsilon = rule.epsilon,
          .decoupled = rule.decoupled};
}

// 1 / (1 - β1^t), then the factor of the rectified step, which is 0 in the first steps.
std::vector<Tensor> rectified_factors(const Tensor& t, const RAdamRule& rule) {
  const Tensor power = pow(rule.beta2, t);
  const double end = 2 / (1 - rule.beta2) - 1;
  const Tensor rho = end - 2.0 * t * power / (1.0 - power);
  const Tensor is_certain = rho > 5.0;
  const Tensor safe = where(is_certain, rho, 5.0);  // no root of a negative number
  const Tensor rectified =
      sqrt((safe - 4.0) * (safe - 2.0) * end / ((end - 4) * (end - 2) * safe) * (1.0 - power));
  return {1.0 / (1.0 - pow(rule.beta1, t)), where(is_certain, rectified, 0.0)};
}

}  // namespace

UpdateFormula RAdamRule::formula() const {
  return {.slots = detail::moment_slots(),
          .update =
              [rule = *this](const UpdateOperands& o) {
                const detail::Moments moments = detail::moments_of(o, moments_in(rule));
                const Tensor& rectified = o.factors[1];
                const Tensor scale = where(
                    rectified > 0.0, rectified / (sqrt(moments.variance) + rule.epsilon), 1.0);
                return std::vector<Tensor>{
                    moments.parameter - o.rate * o.factors[0] * moments.mean * scale,
                    moments.mean,
                    moments.variance};
              },
          .factors = [rule = *this](const Tensor& t) { return rectified_factors(t, rule); }};
}

std::vector<OptimizerSetting> RAdamRule::settings() const {
  std::vector<OptimizerSetting> all = detail::moment_settings(moments_in(*this));
  all.push_back({.name = "decoupled", .value = decoupled ? 1.0 : 0.0});
  return all;
}

}  // namespace hearth
