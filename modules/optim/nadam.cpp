#include <hearth/modules/nadam.hpp>

#include "adam_moments.hpp"

#include <hearth/runtime/ops.hpp>

#include <cmath>

namespace hearth {
namespace {

detail::MomentSettings moments_in(const NAdamRule& rule) {
  return {.beta1 = rule.beta1,
          .beta2 = rule.beta2,
          .epsilon = rule.epsilon,
          .decoupled = rule.decoupled};
}

/// μ(s) and its product from 1 to s.
struct Momentum {
  Tensor value;
  Tensor product;
};
// The product of 1 - q^i/2 for i = 1 … s has the logarithm -Σk 2^-k/k·(q^k - q^(k(s+1)))/(1 - q^k).
// It needs no state: f64 holds 52 terms of it.
Momentum momentum_at(const Tensor& s, const NAdamRule& rule) {
  constexpr std::int64_t kTerms = 52;
  const double log_q = rule.momentum_decay * std::log(0.96);
  const Tensor value = rule.beta1 * (1.0 - 0.5 * exp(s * log_q));
  if (rule.momentum_decay == 0) {
    return {.value = value, .product = pow(rule.beta1 * 0.5, s)};
  }
  const Tensor k = arange(s.device(), 1, kTerms + 1, 1, DType::f64);
  const Tensor share = pow(0.5, k) / k / expm1(k * log_q);
  const Tensor logarithm = sum(share * exp(k * log_q) * -expm1(k * log_q * s));
  return {.value = value, .product = pow(rule.beta1, s) * exp(logarithm)};
}

// The factors of g and m, then 1 / sqrt(1 - β2^t).
std::vector<Tensor> nesterov_factors(const Tensor& t, const NAdamRule& rule) {
  const Momentum now = momentum_at(t, rule);
  const Momentum next = momentum_at(t + 1.0, rule);
  return {(1.0 - now.value) / (1.0 - now.product),
          next.value / (1.0 - next.product),
          1.0 / sqrt(1.0 - pow(rule.beta2, t))};
}

}  // namespace

UpdateFormula NAdamRule::formula() const {
  return {.slots = detail::moment_slots(),
          .update =
              [rule = *this](const UpdateOperands& o) {
                const detail::Moments moments = detail::moments_of(o, moments_in(rule));
                const Tensor direction =
                    o.factors[0] * moments.gradient + o.factors[1] * moments.mean;
                const Tensor root = sqrt(moments.variance) * o.factors[2] + rule.epsilon;
                return std::vector<Tensor>{
                    moments.parameter - o.rate * direction / root, moments.mean, moments.variance};
              },
          .factors = [rule = *this](const Tensor& t) { return nesterov_factors(t, rule); }};
}

std::vector<OptimizerSetting> NAdamRule::settings() const {
  std::vector<OptimizerSetting> all = detail::moment_settings(moments_in(*this));
  all.push_back({.name = "momentum_decay", .value = momentum_decay});
  all.push_back({.name = "decoupled", .value = decoupled ? 1.0 : 0.0});
  return all;
}

}  // namespace hearth
