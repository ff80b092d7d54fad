#include "adam_moments.hpp"

namespace hearth::detail {

std::vector<std::string> moment_slots() {
  return {"mean", "variance"};
}

std::vector<OptimizerSetting> moment_settings(const MomentSettings& settings) {
  return {{.name = "beta1", .value = settings.beta1, .below = 1},
          {.name = "beta2", .value = settings.beta2, .below = 1},
          {.name = "epsilon", .value = settings.epsilon}};
}

Moments moments_of(const UpdateOperands& o, const MomentSettings& settings) {
  const Tensor g = settings.decoupled ? o.gradient : o.gradient + o.weight_decay * o.parameter;
  return {
      .parameter = settings.decoupled ? (1.0 - o.rate * o.weight_decay) * o.parameter : o.parameter,
      .gradient = g,
      .mean = settings.beta1 * o.state[0] + (1 - settings.beta1) * g,
      .variance = settings.beta2 * o.state[1] + (1 - settings.beta2) * g * g};
}

std::vector<Tensor> moment_factors(const Tensor& update_number, const MomentSettings& settings) {
  return {1.0 / (1.0 - pow(settings.beta1, update_number)),
          1.0 / sqrt(1.0 - pow(settings.beta2, update_number))};
}

Tensor adam_direction(const Moments& moments,
                      const std::vector<Tensor>& factors,
                      const MomentSettings& settings) {
  return factors[0] * moments.mean / (sqrt(moments.variance) * factors[1] + settings.epsilon);
}

UpdateFormula adam_formula(const MomentSettings& settings) {
  return {.slots = moment_slots(),
          .update =
              [settings](const UpdateOperands& o) {
                const Moments moments = moments_of(o, settings);
                return std::vector<Tensor>{
                    moments.parameter - o.rate * adam_direction(moments, o.factors, settings),
                    moments.mean,
                    moments.variance};
              },
          .factors =
              [settings](const Tensor& update_number) {
                return moment_factors(update_number, settings);
              }};
}

}  // namespace hearth::detail
