#include "update_rules.hpp"

#include <array>
#include <utility>
#include <vector>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>

#include "capture.hpp"
#include "runtime/client/stream_state.hpp"

namespace hearth::detail {
namespace {

using Tensors = std::span<Tensor>;
using Results = std::vector<Tensor>;

Results sgd(Tensors t, Tensors s) {
  const Tensor g = t[1] + s[1] * t[0];
  return {t[0] - s[0] * g};
}

// In the first step the old momentum may hold any value.
Tensor momentum(Tensors t, Tensors s, const Tensor& g) {
  return where(s[4], g, s[2] * t[2] + s[3] * g);
}
// The momentum on a device that counts updates.
Tensor counted_momentum(Tensors t, Tensors s, const Tensor& g) {
  return where(equal(t[3], 0.0), g, s[2] * t[2] + s[3] * g);
}
template <Tensor (*kMomentum)(Tensors, Tensors, const Tensor&)>
Results sgd_momentum(Tensors t, Tensors s) {
  const Tensor g = t[1] + s[1] * t[0];
  const Tensor m = kMomentum(t, s, g);
  return {t[0] - s[0] * m, m};
}
template <Tensor (*kMomentum)(Tensors, Tensors, const Tensor&)>
Results sgd_nesterov(Tensors t, Tensors s) {
  const Tensor g = t[1] + s[1] * t[0];
  const Tensor m = kMomentum(t, s, g);
  return {t[0] - s[0] * (g + s[2] * m), m};
}

/// The scalars that turn moments into an update.
struct MomentFactors {
  const Tensor& rate;
  const Tensor& root;
  const Tensor& epsilon;
};
Results moments(
    const Tensor& p, const Tensor& g, Tensors t, Tensors s, const MomentFactors& factors) {
  const Tensor m = s[1] * t[2] + s[2] * g;
  const Tensor v = s[3] * t[3] + s[4] * g * g;
  return {p - factors.rate * m / (sqrt(v) * factors.root + factors.epsilon), m, v};
}
Results adam(Tensors t, Tensors s) {
  return moments(t[0], t[1] + s[0] * t[0], t, s, {s[5], s[6], s[7]});
}
Results adamw(Tensors t, Tensors s) {
  return moments(s[0] * t[0], t[1], t, s, {s[5], s[6], s[7]});
}
Results adam_counted(Tensors t, Tensors s) {
  return moments(t[0], t[1] + s[0] * t[0], t, s, {t[4], t[5], s[5]});
}
Results adamw_counted(Tensors t, Tensors s) {
  return moments(s[0] * t[0], t[1], t, s, {t[4], t[5], s[5]});
}

Results count(Tensors t, Tensors /*s*/) {
  return {t[0] + 1.0};
}
Results adam_factors(Tensors t, Tensors s) {
  const Tensor number = t[0] + 1.0;
  return {s[0] / (1.0 - pow(s[1], number)), 1.0 / sqrt(1.0 - pow(s[2], number))};
}

/// Operands whose type is neither the parameter's nor its accumulation type.
enum class Special : std::uint8_t {
  nothing,
  last_scalar,  ///< a bool
  last_tensor,  ///< a count
  operands,     ///< all f64
};
struct Rule {
  const char* name;
  std::size_t tensors;
  std::size_t scalars;
  Special special;
  Results (*function)(Tensors, Tensors);
};
constexpr std::array<Rule, 11> kRules{{
    {"sgd_step", 2, 2, Special::nothing, sgd},
    {"sgd_step", 3, 5, Special::last_scalar, sgd_momentum<momentum>},
    {"sgd_step", 3, 5, Special::last_scalar, sgd_nesterov<momentum>},
    {"adam_step", 4, 8, Special::nothing, adam},
    {"adam_step", 4, 8, Special::nothing, adamw},
    {"sgd_step", 4, 4, Special::last_tensor, sgd_momentum<counted_momentum>},
    {"sgd_step", 4, 4, Special::last_tensor, sgd_nesterov<counted_momentum>},
    {"adam_step", 6, 6, Special::nothing, adam_counted},
    {"adam_step", 6, 6, Special::nothing, adamw_counted},
    {"update_count", 1, 0, Special::operands, count},
    {"adam_factors", 1, 3, Special::operands, adam_factors},
}};

}  // namespace

void keep_unless(const Tensor& condition,
                 std::span<const Tensor> inputs,
                 std::vector<Tensor>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i] = where(condition, results[i], inputs[replaced_input(i)]);
  }
}

ExpressionRef capture_update(UpdateForm form, UpdateTypes types) {
  const Rule& rule = kRules[static_cast<std::size_t>(form)];
  const DType wide = accumulation_dtype(types.parameter);
  const bool is_of_counts = rule.special == Special::operands;
  std::vector<DType> tensors(rule.tensors, is_of_counts ? DType::f64 : wide);
  std::vector<DType> scalars(rule.scalars, is_of_counts ? DType::f64 : wide);
  if (!is_of_counts) {
    tensors[0] = types.parameter;
    tensors[1] = types.gradient;
  }
  if (rule.special == Special::last_scalar) {
    scalars.back() = DType::boolean;
  } else if (rule.special == Special::last_tensor) {
    tensors.back() = DType::f64;
  }
  if (types.is_conditional) {
    tensors.push_back(DType::boolean);
  }
  const CaptureForm wanted{.name = rule.name, .tensors = tensors, .scalars = scalars};
  return expression_of(wanted, capture(wanted, [&](Tensors t, Tensors s) {
                         const Results given(t.begin(), t.end());
                         if (!is_of_counts) {
                           t[0] = cast(t[0], wide);
                           t[1] = cast(t[1], wide);
                         }
                         Results results = rule.function(t, s);
                         for (Tensor& result : results) {
                           result = cast(result, form == UpdateForm::count ? DType::f64 : wide);
                         }
                         if (!is_of_counts) {
                           results[0] = cast(results[0], types.parameter);
                         }
                         if (types.is_conditional) {
                           keep_unless(given.back(), given, results);
                         }
                         return results;
                       }));
}

const ExpressionRef& update_of(StreamState& stream, UpdateForm form, UpdateTypes types) {
  const int key = 2 * static_cast<int>(form) + (types.is_conditional ? 1 : 0);
  ExpressionRef& known = stream.updates()[{key, types.parameter, types.gradient}];
  if (known == nullptr) {
    known = capture_update(form, types);
  }
  return known;
}

}  // namespace hearth::detail
