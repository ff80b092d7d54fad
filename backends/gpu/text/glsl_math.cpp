#include "glsl_math.hpp"

#include "glsl_math_f32.hpp"
#include "glsl_math_f64.hpp"

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

}  // namespace

std::string glsl_math(MathUse use) {
  use.f32 = with_needs(use.f32);
  use.f64 = with_needs(use.f64);
  const bool has_sines = ((use.f32 | use.f64) & bit(MathFunction::sine)) != 0;
  std::string text(has_sines ? detail::kTwoOverPi : "");
  text += (use.f64 & bit(MathFunction::sine)) != 0 ? detail::kTwoOverPiF64 : "";
  for (const Piece& piece : kPieces) {
    text += (use.f32 & bit(piece.function)) != 0 ? piece.f32 : "";
    text += (use.f64 & bit(piece.function)) != 0 ? piece.f64 : "";
  }
  return text;
}

std::string_view glsl_math() {
  static const std::string all = glsl_math({.f32 = ~0U, .f64 = ~0U});
  return all;
}

}  // namespace hearth::gpu
