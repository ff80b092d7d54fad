// Functions of numbers, element by element, that are composed of ops. ops.hpp includes this header
// and states the rules of all ops. Dtypes: floats; f16 and bf16 are computed in f32 and rounded
// once. Threads: any.
#pragma once

#include <optional>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// The logarithm with base 2: log(x) times a constant, so that powers of 2 may be off by a
/// rounding.
[[nodiscard]] Tensor log2(Arg x);
[[nodiscard]] Tensor log10(Arg x);  ///< The logarithm with base 10, rounded as log2.
[[nodiscard]] Tensor tan(Arg x);    ///< The tangent of x in radians.
[[nodiscard]] Tensor sinh(Arg x);   ///< (exp(x) - exp(-x))/2, exact near 0.
[[nodiscard]] Tensor cosh(Arg x);   ///< (exp(x) + exp(-x))/2.
[[nodiscard]] Tensor asinh(Arg x);  ///< The inverse of sinh, for all x.
[[nodiscard]] Tensor acosh(Arg x);  ///< The inverse of cosh; below 1 NaN.
[[nodiscard]] Tensor atanh(Arg x);  ///< The inverse of tanh; beyond -1 and 1 NaN.
/// log(exp(a) + exp(b)) without overflow; exact also for infinities, whose gradient is no NaN.
///
/// Shapes: broadcast; one operand may be a number. Dtypes: floats, promoted to one type.
[[nodiscard]] Tensor logaddexp(Arg a, Arg b);
/// start + weight·(end - start): start at weight 0 and end at weight 1, both exactly.
///
/// Shapes: all three broadcast; the weight may be a number, and one of start and end.
/// Dtypes: floats, promoted to one type.
[[nodiscard]] Tensor lerp(Arg start, Arg end, Arg weight);

[[nodiscard]] Tensor isnan(Arg x);     ///< True where x is NaN.
[[nodiscard]] Tensor isinf(Arg x);     ///< True where x is infinite, with either sign.
[[nodiscard]] Tensor isfinite(Arg x);  ///< True where x is neither NaN nor infinite.
/// The former name of isfinite.
[[nodiscard]] Tensor is_finite(Arg x);
struct NanToNumOptions {
  double nan = 0;                     ///< Replaces NaN.
  std::optional<double> posinf = {};  ///< Replaces infinity; the type's largest number if omitted.
  std::optional<double> neginf = {};  ///< Replaces -infinity; the type's lowest if omitted.
};
/// x with numbers in place of NaN and infinities. The gradient of a replaced element is 0.
[[nodiscard]] Tensor nan_to_num(Arg x, NanToNumOptions options = {});
struct AllcloseOptions {
  double rtol = 1e-5;      ///< Allowed difference, as a part of |b|.
  double atol = 1e-8;      ///< Allowed difference, added to that part.
  bool equal_nan = false;  ///< True: two NaN count as close.
};
/// Returns whether |a - b| <= atol + rtol·|b| for every element; equal infinities are close. Waits
/// for the values.
///
/// Shapes: broadcast. Dtypes: floats, promoted to one type.
/// Errors: ArgumentError for a tolerance below 0 or NaN; DeviceMismatch now; DeviceError if an
/// operand is poisoned.
[[nodiscard]] bool allclose(Arg a, Arg b, AllcloseOptions options = {});

}  // namespace hearth
