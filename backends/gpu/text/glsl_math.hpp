// Elementary functions for shaders, behind the prelude. GLSL has none for double, and drivers
// compute its float functions and `/` less exactly than numerics.md requires. Pure functions.
// Threads: any. Each function exists for float and, unless left out, for double:
//   m_div(a, b)  m_sqrt(x)                  at most one unit in the last place off
//   m_exp m_log m_log1p m_expm1 m_sin m_cos m_tanh m_erf m_atan m_pow(x, y)   at most four
// over all finite numbers, sines of large ones too. NaN gives NaN, and infinities give the limits.
// A zero keeps its sign where the function does. Denormals survive where the driver keeps them.
// A prelude that defines HAS_MATH has these functions already, but for atan, and tanh and erf of
// float.
// Also: M_INF, M_NAN, M_INF_D, M_NAN_D; m_is_finite(x), by bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hearth::gpu {

/// One bit for each function. The text of a function includes its callees.
enum class MathFunction : std::uint32_t {
  basic = 1U << 0U,  ///< The constants, m_is_finite().
  div = 1U << 1U,
  sqrt = 1U << 2U,
  exp = 1U << 3U,
  log = 1U << 4U,
  log1p = 1U << 5U,
  expm1 = 1U << 6U,
  sine = 1U << 7U,  ///< Sine and cosine.
  tanh = 1U << 8U,
  erf = 1U << 9U,
  pow = 1U << 10U,
  atan = 1U << 11U,
};

/// The functions in use, by type.
struct MathUse {
  std::uint32_t f32 = 0;  ///< Bits of MathFunction; so in `f64`.
  std::uint32_t f64 = 0;

  void add(MathFunction function, bool is_double) noexcept {
    (is_double ? f64 : f32) |= static_cast<std::uint32_t>(function);
  }
  void add(const MathUse& other) noexcept {
    f32 |= other.f32;
    f64 |= other.f64;
  }
};

/// All functions. Cost: compiling the long text; a shader that uses few functions takes those
/// alone.
[[nodiscard]] std::string_view glsl_math();
/// The functions in use, and their callees.
[[nodiscard]] std::string glsl_math(MathUse use);

}  // namespace hearth::gpu
