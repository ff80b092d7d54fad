#include "glsl_math.hpp"

#include "glsl_math_f32.hpp"
#include "glsl_math_f64.hpp"

#include <hearth/backends/polynomials.hpp>

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace hearth::gpu {
namespace {

constexpr std::uint32_t bit(MathFunction function) noexcept {
  return static_cast<std::uint32_t>(function);
}

// Pieces in the order of the text: a function stands behind its callees.
struct Piece {
  MathFunction function;
  std::uint32_t needs;  ///< functions of the same type
  std::string_view f32;
  std::string_view f64;
};

constexpr std::uint32_t kBasic = bit(MathFunction::basic);
constexpr std::uint32_t kExp = bit(MathFunction::exp) | kBasic;
constexpr std::uint32_t kExpm1 = bit(MathFunction::expm1) | kExp;

constexpr Piece kPieces[] = {
    {MathFunction::basic, 0, detail::kBasicF32, detail::kBasicF64},
    {MathFunction::div, kBasic, detail::kDivF32, detail::kDivF64},
    {MathFunction::sqrt, kBasic, detail::kSqrtF32, detail::kSqrtF64},
    {MathFunction::exp, kBasic, detail::kExpF32, detail::kExpF64},
    {MathFunction::log, kBasic, detail::kLogF32, detail::kLogF64},
    {MathFunction::log1p, bit(MathFunction::log) | kBasic, detail::kLog1pF32, detail::kLog1pF64},
    {MathFunction::expm1, kExp, detail::kExpm1F32, detail::kExpm1F64},
    {MathFunction::sine, kBasic, detail::kSineF32, detail::kSineF64},
    {MathFunction::tanh, kExpm1, detail::kTanhF32, detail::kTanhF64},
    {MathFunction::erf, kExp, detail::kErfF32, detail::kErfF64},
    {MathFunction::pow, kExp, detail::kPowF32, detail::kPowF64},
};

std::uint32_t with_needs(std::uint32_t used) noexcept {
  for (const Piece& piece : kPieces) {
    used |= (used & bit(piece.function)) != 0 ? piece.needs : 0;
  }
  return used;
}

// The macro NAME(p, x): a float p with the polynomial's value, step by step.
std::string polynomial_macro(std::string_view name, std::span<const float> coefficients) {
  std::string text = fmt::format("#define {}(p, x) float p = {};", name, coefficients.front());
  for (const float next : coefficients.subspan(1)) {
    text += fmt::format(" p = p * x {} {};", next < 0 ? '-' : '+', std::abs(next));
  }
  return text + '\n';
}

// The macros that a function of float needs.
std::string polynomials_of(MathFunction function) {
  switch (function) {
    case MathFunction::exp:
      return polynomial_macro("M_EXP_POLYNOMIAL", hearth::detail::kExpPolynomial);
    case MathFunction::log:
      return polynomial_macro("M_LOG_POLYNOMIAL", hearth::detail::kLogPolynomial);
    case MathFunction::sine:
      return polynomial_macro("M_SINE_POLYNOMIAL", hearth::detail::kSinePolynomial) +
             polynomial_macro("M_COSINE_POLYNOMIAL", hearth::detail::kCosinePolynomial);
    case MathFunction::tanh:
      return polynomial_macro("M_TANH_POLYNOMIAL", hearth::detail::kTanhPolynomial);
    case MathFunction::erf:
      return polynomial_macro("M_ERF_POLYNOMIAL", hearth::detail::kErfPolynomial);
    default:
      return {};
  }
}

}  // namespace

std::string glsl_math(MathUse use) {
  use.f32 = with_needs(use.f32);
  use.f64 = with_needs(use.f64);
  const bool has_sines = ((use.f32 | use.f64) & bit(MathFunction::sine)) != 0;
  std::string text(has_sines ? detail::kTwoOverPi : "");
  text += (use.f64 & bit(MathFunction::sine)) != 0 ? detail::kTwoOverPiF64 : "";
  for (const Piece& piece : kPieces) {
    if ((use.f32 & bit(piece.function)) != 0) {
      text += polynomials_of(piece.function);
      text += piece.f32;
    }
    text += (use.f64 & bit(piece.function)) != 0 ? piece.f64 : "";
  }
  return text;
}

std::string_view glsl_math() {
  static const std::string all = glsl_math({.f32 = ~0U, .f64 = ~0U});
  return all;
}

}  // namespace hearth::gpu
