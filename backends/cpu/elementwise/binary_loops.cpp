#include "binary_loops.hpp"

#include "backends/cpu/machine/vector_math.hpp"
#include "quotients.hpp"

#include <cmath>
#include <numbers>
#include <type_traits>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

// Integers wrap, so they are computed in an unsigned type that does not promote to int.
template <class T, bool is_integer = std::is_integral_v<T>>
struct Wrap {
  using type = T;
};
template <class T>
struct Wrap<T, true> {
  using type = std::conditional_t<(sizeof(T) < 8), std::uint32_t, std::uint64_t>;
};
template <class T>
using Wrapping = typename Wrap<T>::type;

struct Add {
  template <class T>
  static T apply(T a, T b) noexcept {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) noexcept {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) noexcept {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) noexcept {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      return b == -1 ? Sub::apply(T{0}, a)
                     : static_cast<T>(a / b);  // the smallest integer divided by -1 traps
    } else {
      return static_cast<T>(a / b);
    }
  }
};
// The most common powers are products and a quotient, rounded as such, in every loop: a result
// depends on its two numbers alone.
template <class T>
[[gnu::always_inline]] inline T with_small_powers(T a, T b, T general) noexcept {
  const T cube = a * a * a;
  T result = b == T{-1} ? T{1} / a : general;
  result = b == T{3} ? cube : result;
  return b == T{2} ? a * a : result;
}

struct Pow {
  static float apply(float a, float b) noexcept { return with_small_powers(a, b, pow_f32(a, b)); }
  static double apply(double a, double b) noexcept {
    return with_small_powers(a, b, std::pow(a, b));
  }
  template <class T>
  static T apply(T base, T exponent) noexcept {
    if constexpr (std::is_signed_v<T>) {
      if (exponent < 0) {
        const bool is_odd = exponent % 2 != 0;
        return static_cast<T>(base == 1 ? 1 : base == -1 ? (is_odd ? -1 : 1) : 0);
      }
    }
    T result{1};
    for (; exponent > 0; exponent = static_cast<T>(exponent / 2)) {
      if (exponent % 2 != 0) {
        result = Mul::apply(result, base);
      }
      base = Mul::apply(base, base);
    }
    return result;
  }
};
// A NaN on either side is the result.
struct Min {
  template <class T>
  static T apply(T a, T b) noexcept {
    return a < b || a != a ? a : b;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) noexcept {
    return a > b || a != a ? a : b;
  }
};
struct Equal {
  template <class T>
  static bool apply(T a, T b) noexcept {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  static bool apply(T a, T b) noexcept {
    return a != b;
  }
};
struct Less {
  template <class T>
  static bool apply(T a, T b) noexcept {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  static bool apply(T a, T b) noexcept {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  static bool apply(T a, T b) noexcept {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  static bool apply(T a, T b) noexcept {
    return a >= b;
  }
};
struct ReluBackward {
  template <class T>
  static T apply(T grad, T y) noexcept {
    return y <= T{0} ? T{0} : grad;
  }
};

// Follows its expression (streams/kernel/op_expression) step by step, like log1p.
struct Atan2 {
  static float arc(float x) noexcept { return atan_f32(x); }
  static double arc(double x) noexcept { return std::atan(x); }
  template <class T>
  static T apply(T y, T x) noexcept {
    constexpr T kHalfTurn = static_cast<T>(std::numbers::pi);
    constexpr T kQuarterTurn = static_cast<T>(std::numbers::pi / 2);
    const T width = std::fabs(x);
    const T height = std::fabs(y);
    const T shorter = Min::apply(width, height);
    const T longer = Max::apply(width, height);
    const T of_equal = longer == T{0} ? T{0} : T{1};
    T angle = arc(shorter == longer ? of_equal : shorter / longer);
    angle = width < height ? kQuarterTurn - angle : angle;
    angle = std::copysign(T{1}, x) < T{0} ? kHalfTurn - angle : angle;
    return std::copysign(angle, y);
  }
};
struct BitAnd {
  template <class T>
  static T apply(T a, T b) noexcept {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  static T apply(T a, T b) noexcept {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  static T apply(T a, T b) noexcept {
    return static_cast<T>(a ^ b);
  }
};
// Negative numbers of places are large as unsigned ones.
template <class T>
inline constexpr Wrapping<T> kWidth = 8 * sizeof(T);
struct ShiftLeft {
  template <class T>
  static T apply(T a, T b) noexcept {
    const auto places = static_cast<Wrapping<T>>(b);
    return places < kWidth<T> ? static_cast<T>(static_cast<Wrapping<T>>(a) << (places % kWidth<T>))
                              : T{0};
  }
};
struct ShiftRight {
  template <class T>
  static T apply(T a, T b) noexcept {
    const auto places = static_cast<Wrapping<T>>(b);
    const bool is_beyond = places >= kWidth<T>;
    if constexpr (std::is_unsigned_v<T>) {
      return is_beyond ? T{0} : static_cast<T>(a >> (places % kWidth<T>));
    } else {
      return static_cast<T>(a >> (is_beyond ? kWidth<T> - 1 : places));
    }
  }
};

template <class Op, class T>
using Out =
    std::conditional_t<std::is_same_v<decltype(Op::apply(T{}, T{})), bool>, std::uint8_t, T>;

template <class Op, class T>
void both(void* out, const void* a, const void* b, std::int64_t count) {
  auto* to = static_cast<Out<Op, T>*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = Op::apply(x[i], y[i]);
  }
}
template <class Op, class T>
void scalar_a(void* out, const void* a, const void* b, std::int64_t count) {
  auto* to = static_cast<Out<Op, T>*>(out);
  const T x = *static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = Op::apply(x, y[i]);
  }
}
template <class Op, class T>
void scalar_b(void* out, const void* a, const void* b, std::int64_t count) {
  auto* to = static_cast<Out<Op, T>*>(out);
  const auto* x = static_cast<const T*>(a);
  const T y = *static_cast<const T*>(b);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = Op::apply(x[i], y);
  }
}

// One exponent for all elements: the small powers need no logarithm.
template <class T>
void power_by_scalar(void* out, const void* a, const void* b, std::int64_t count) {
  auto* to = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const T y = *static_cast<const T*>(b);
  if (y == T{2}) {
    both<Mul, T>(out, a, a, count);
  } else if (y == T{3}) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = x[i] * x[i] * x[i];
    }
  } else if (y == T{-1}) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = T{1} / x[i];
    }
  } else {
    scalar_b<Pow, T>(out, a, b, count);
  }
}

#ifdef __FMA__
void plain_quotients(float* to, const float* x, float y, std::int64_t count) {
  const float reciprocal = 1.0F / y;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = plain_quotient(x[i], y, reciprocal);
  }
}
#endif

// Vector division takes ten times as long as multiplication.
void float_by_scalar(void* out, const void* a, const void* b, std::int64_t count) {
  const float y = *static_cast<const float*>(b);
  if (has_exact_reciprocal(y)) {
    const float reciprocal = 1.0F / y;
    scalar_b<Mul, float>(out, a, &reciprocal, count);
    return;
  }
#ifdef __FMA__
  if (is_plain(y)) {
    constexpr std::int64_t kBlock = 1024;
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
      const std::int64_t size = begin + kBlock < count ? kBlock : count - begin;
      float* const to = static_cast<float*>(out) + begin;
      const float* const x = static_cast<const float*>(a) + begin;
      are_plain(x, size) ? plain_quotients(to, x, y, size) : scalar_b<Div, float>(to, x, &y, size);
    }
    return;
  }
#endif
  scalar_b<Div, float>(out, a, &y, count);
}
void double_by_scalar(void* out, const void* a, const void* b, std::int64_t count) {
  const double y = *static_cast<const double*>(b);
  const double reciprocal = 1.0 / y;
  has_exact_reciprocal(y) ? scalar_b<Mul, double>(out, a, &reciprocal, count)
                          : scalar_b<Div, double>(out, a, &y, count);
}

template <class Op, class T>
constexpr BinaryLoops::Forms forms() {
  return {both<Op, T>, scalar_a<Op, T>, scalar_b<Op, T>};
}
template <class Op>
constexpr BinaryLoops::Row numbers() {
  return {forms<Op, float>(),
          forms<Op, double>(),
          forms<Op, std::int32_t>(),
          forms<Op, std::int64_t>(),
          forms<Op, std::uint8_t>(),
          forms<Op, std::int8_t>()};
}
template <class Op>
constexpr BinaryLoops::Row floats() {
  return {forms<Op, float>(), forms<Op, double>()};
}
template <class Op>
constexpr BinaryLoops::Row integers() {
  return {BinaryLoops::Forms{},
          BinaryLoops::Forms{},
          forms<Op, std::int32_t>(),
          forms<Op, std::int64_t>(),
          forms<Op, std::uint8_t>(),
          forms<Op, std::int8_t>()};
}
constexpr BinaryLoops::Row quotients() {
  BinaryLoops::Row row = numbers<Div>();
  row[0][2] = float_by_scalar;
  row[1][2] = double_by_scalar;
  return row;
}
constexpr BinaryLoops::Row powers() {
  BinaryLoops::Row row = numbers<Pow>();
  row[0][2] = power_by_scalar<float>;
  row[1][2] = power_by_scalar<double>;
  return row;
}

}  // namespace

// In the order of row_of().
extern const BinaryLoops binary_loops_table = {{
    numbers<Add>(),
    numbers<Sub>(),
    numbers<Mul>(),
    quotients(),
    powers(),
    numbers<Min>(),
    numbers<Max>(),
    numbers<Equal>(),
    numbers<NotEqual>(),
    numbers<Less>(),
    numbers<LessEqual>(),
    numbers<Greater>(),
    numbers<GreaterEqual>(),
    numbers<ReluBackward>(),
    floats<Atan2>(),
    integers<BitAnd>(),
    integers<BitOr>(),
    integers<BitXor>(),
    integers<ShiftLeft>(),
    integers<ShiftRight>(),
}};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
