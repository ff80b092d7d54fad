#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"

#include <numbers>
#include <utility>

namespace hearth {
namespace {

// The factor of gelu(x) = x·factor, between 0 and 1, in its erf form; the tanh form follows.
Tensor gelu_share_by_erf(const Tensor& x, SourceLoc loc) {
  Tensor scaled = mul(Arg(x, loc), Arg(1 / std::numbers::sqrt2, loc));
  Tensor doubled = add(Arg(erf(Arg(std::move(scaled), loc)), loc), Arg(1.0, loc));
  return mul(Arg(std::move(doubled), loc), Arg(0.5, loc));
}

// The argument of the tanh is sqrt(2/pi) * (x + 0.044715 * x^3).
Tensor gelu_share_by_tanh(const Tensor& x, SourceLoc loc) {
  constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  Tensor cubic = mul(Arg(square(Arg(x, loc)), loc), Arg(0.044715 * kScale, loc));
  Tensor slope = add(Arg(std::move(cubic), loc), Arg(kScale, loc));
  Tensor inner = mul(Arg(x, loc), Arg(std::move(slope), loc));
  Tensor doubled = add(Arg(tanh(Arg(std::move(inner), loc)), loc), Arg(1.0, loc));
  return mul(Arg(std::move(doubled), loc), Arg(0.5, loc));
}

// Computes x·share(x), in the type of x.
template <class Share>
Tensor gated(const Arg& x, const Share& share) {
  const DType dtype = detail::accepted_operand(OpKind::sigmoid, x).dtype;
  const SourceLoc loc = x.location();
  Tensor value = detail::wide(x);
  Tensor part = share(value, loc);
  Tensor result = mul(Arg(std::move(value), loc), Arg(std::move(part), loc));
  return cast(Arg(std::move(result), loc), dtype);
}

}  // namespace

Tensor leaky_relu(Arg x, double slope) {
  return detail::named_as("leaky_relu", [&] {
    static_cast<void>(detail::accepted_operand(OpKind::sigmoid, x));
    const SourceLoc loc = x.location();
    const Tensor value = detail::take(x);
    Tensor is_above = greater(Arg(value, loc), Arg(0.0, loc));
    Tensor below = mul(Arg(value, loc), Arg(slope, loc));
    return where(Arg(std::move(is_above), loc), Arg(value, loc), Arg(std::move(below), loc));
  });
}

Tensor silu(Arg x) {
  return detail::named_as("silu", [&] {
    return gated(x, [](const Tensor& value, SourceLoc loc) { return sigmoid(Arg(value, loc)); });
  });
}

Tensor gelu(Arg x, GeluForm form) {
  return detail::named_as("gelu", [&] {
    return gated(x, form == GeluForm::erf ? gelu_share_by_erf : gelu_share_by_tanh);
  });
}

}  // namespace hearth
