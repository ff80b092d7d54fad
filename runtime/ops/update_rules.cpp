#include "update_rules.hpp"

#include <array>
#include <vector>

#include <hearth/runtime/ops.hpp>

#include "capture.hpp"

namespace hearth::detail {
namespace {

using Tensors = std::span<Tensor>;
using Results = std::vector<Tensor>;

Results sgd(Tensors t, Tensors s) {
  const Tensor g = t[1] + s[1] * t[0];
  return {t[0] - s[0] * g};
}

// In the first step the old momentum may hold anything.
Tensor momentum(Tensors t, Tensors s, const Tensor& g) {
  return where(s[4], g, s[2] * t[2] + s[3] * g);
}
Results sgd_momentum(Tensors t, Tensors s) {
  const Tensor g = t[1] + s[1] * t[0];
  const Tensor m = momentum(t, s, g);
  return {t[0] - s[0] * m, m};
}
Results sgd_nesterov(Tensors t, Tensors s) {
  const Tensor g = t[1] + s[1] * t[0];
  const Tensor m = momentum(t, s, g);
  return {t[0] - s[0] * (g + s[2] * m), m};
}

Results moments(const Tensor& p, const Tensor& g, Tensors t, Tensors s) {
  const Tensor m = s[1] * t[2] + s[2] * g;
  const Tensor v = s[3] * t[3] + s[4] * g * g;
  return {p - s[5] * m / (sqrt(v) * s[6] + s[7]), m, v};
}
Results adam(Tensors t, Tensors s) {
  return moments(t[0], t[1] + s[0] * t[0], t, s);
}
Results adamw(Tensors t, Tensors s) {
  return moments(s[0] * t[0], t[1], t, s);
}

struct Rule {
  const char* name;
  std::size_t tensors;
  std::size_t scalars;
  bool has_first;  ///< The last scalar is a bool.
  Results (*function)(Tensors, Tensors);
};
constexpr std::array<Rule, 5> kRules{{
    {"sgd_step", 2, 2, false, sgd},
    {"sgd_step", 3, 5, true, sgd_momentum},
    {"sgd_step", 3, 5, true, sgd_nesterov},
    {"adam_step", 4, 8, false, adam},
    {"adam_step", 4, 8, false, adamw},
}};

}  // namespace

ExpressionRef capture_update(UpdateForm form, DType dtype) {
  const Rule& rule = kRules[static_cast<std::size_t>(form)];
  const std::vector<DType> tensors(rule.tensors, dtype);
  std::vector<DType> scalars(rule.scalars, dtype);
  if (rule.has_first) {
    scalars.back() = DType::boolean;
  }
  const CaptureForm wanted{.name = rule.name, .tensors = tensors, .scalars = scalars};
  return expression_of(wanted, capture(wanted, rule.function));
}

}  // namespace hearth::detail
