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
    {MathFunction::atan, kBasic, detail::kAtanF32, detail::kAtanF64},
};

// Texts that no library of functions replaces, and those of float that none does.
constexpr std::uint32_t kKept = kBasic | bit(MathFunction::atan);
constexpr std::uint32_t kKeptF32 = kKept | bit(MathFunction::tanh) | bit(MathFunction::erf);

std::string unless_there(std::string_view functions) {
  return fmt::format("#ifndef HAS_MATH\n{}#endif\n", functions);
}

// A kernel of CUDA is a struct: its own function of float would hide the library's of double.
std::string unless_hidden(MathFunction function, std::string_view functions) {
  return fmt::format(
      "#ifdef HAS_MATH\nFN double m_{0}(double x) {{ return hearth_kernel::m_{0}(x); }}\n#else\n"
      "{1}#endif\n",
      function == MathFunction::tanh ? "tanh" : "erf",
      functions);
}

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
    text += fmt::format(" p = mul_{}(p, x, {});", next < 0 ? "sub" : "add", std::abs(next));
  }
  return text + '\n';
}

// The same for a double p.
std::string wide_polynomial_macro(std::string_view name, std::span<const double> coefficients) {
  std::string text = fmt::format("#define {}(p, x) double p = {:.16e}lf;", name, coefficients[0]);
  for (const double next : coefficients.subspan(1)) {
    text += fmt::format(" p = p * x + ({:.16e}lf);", next);
  }
  return text + '\n';
}

// The macros that a function of double needs.
std::string wide_polynomials_of(MathFunction function) {
  return function == MathFunction::atan
             ? wide_polynomial_macro("M_ATAN_DIVIDEND", hearth::detail::kAtanDividend) +
                   wide_polynomial_macro("M_ATAN_DIVISOR", hearth::detail::kAtanDivisor)
             : std::string();
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
    case MathFunction::atan:
      return polynomial_macro("M_ATAN_POLYNOMIAL", hearth::detail::kAtanPolynomial);
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
    const bool is_kept = (kKeptF32 & bit(piece.function)) != 0;
    const bool of_f32 = (use.f32 & bit(piece.function)) != 0;
    if (of_f32) {
      const std::string functions = polynomials_of(piece.function) + std::string(piece.f32);
      text += is_kept ? functions : unless_there(functions);
    }
    if ((use.f64 & bit(piece.function)) != 0) {
      text += (kKept & bit(piece.function)) != 0
                  ? wide_polynomials_of(piece.function) + std::string(piece.f64)
              : is_kept && of_f32 ? unless_hidden(piece.function, piece.f64)
                                  : unless_there(piece.f64);
    }
  }
  return text;
}

std::string_view glsl_math() {
  static const std::string all = glsl_math({.f32 = ~0U, .f64 = ~0U});
  return all;
}

}  // namespace hearth::gpu
