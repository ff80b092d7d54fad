#include "unary_loops.hpp"

#include "backends/cpu/machine/vector_math.hpp"
#include "backends/cpu/machine/vector_math_512.hpp"

#include <type_traits>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

// Integers wrap, so they are computed in the unsigned type of their size.
template <class T>
using Wrapping = typename std::
    conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

struct Neg {
  template <class T>
  static T apply(T x) noexcept {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(x));
    } else {
      return -x;
    }
  }
};
struct Abs {
  template <class T>
  static T apply(T x) noexcept {
    if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else if constexpr (std::is_integral_v<T>) {
      return x < 0 ? Neg::apply(x) : x;
    } else {
      return std::fabs(x);
    }
  }
};
struct Square {
  template <class T>
  static T apply(T x) noexcept {
    return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(x));
  }
};
struct Relu {
  template <class T>
  static T apply(T x) noexcept {
    return x < T{0} ? T{0} : x;  // NaN is kept
  }
};
struct Sqrt {
  template <class T>
  static T apply(T x) noexcept {
    return std::sqrt(x);
  }
};
struct Rsqrt {
  template <class T>
  static T apply(T x) noexcept {
    return T{1} / std::sqrt(x);
  }
};
struct Recip {
  template <class T>
  static T apply(T x) noexcept {
    return T{1} / x;
  }
};
struct Exp {
  static float apply(float x) noexcept { return exp_f32(x); }
  static double apply(double x) noexcept { return std::exp(x); }
};
struct Log {
  static float apply(float x) noexcept { return log_f32(x); }
  static double apply(double x) noexcept { return std::log(x); }
};
struct Tanh {
  static float apply(float x) noexcept { return tanh_f32(x); }
  static double apply(double x) noexcept { return std::tanh(x); }
};
struct Erf {
  static float apply(float x) noexcept { return erf_f32(x); }
  static double apply(double x) noexcept { return std::erf(x); }
};
struct Sigmoid {
  static float apply(float x) noexcept { return sigmoid_f32(x); }
  static double apply(double x) noexcept { return 1.0 / (1.0 + std::exp(-x)); }
};
struct Atan {
  static float apply(float x) noexcept { return atan_f32(x); }
  static double apply(double x) noexcept { return std::atan(x); }
};
// log1p and expm1 follow their expressions (streams/kernel/op_expression) step by step, in f64 too.
// So a tile program gives equal bits for the whole op and for its parts.
struct Log1p {
  template <class T>
  static T apply(T x) noexcept {
    const T u = T{1} + x;
    const T kept = u - T{1};
    const T whole = Log::apply(u);
    const T corrected = kept == x ? whole : whole * (x / kept);
    return u == T{1} ? x : corrected;
  }
};
struct Expm1 {
  template <class T>
  static T apply(T x) noexcept {
    return Tanh::apply(x * T{0.5}) * (Exp::apply(x) + T{1});
  }
};
struct Floor {
  template <class T>
  static T apply(T x) noexcept {
    return std::floor(x);
  }
};
struct Ceil {
  template <class T>
  static T apply(T x) noexcept {
    return std::ceil(x);
  }
};
struct Round {
  template <class T>
  static T apply(T x) noexcept {
    return std::nearbyint(x);  // halves to even
  }
};
struct Trunc {
  template <class T>
  static T apply(T x) noexcept {
    return std::trunc(x);
  }
};
struct Sin {
  static double apply(double x) noexcept { return std::sin(x); }
};
struct Cos {
  static double apply(double x) noexcept { return std::cos(x); }
};

template <class Op, class T>
void run(void* out, const void* in, std::int64_t count) {
  auto* to = static_cast<T*>(out);
  const auto* from = static_cast<const T*>(in);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = Op::apply(from[i]);
  }
}

#ifdef __AVX512F__
void run_exp(void* out, const void* in, std::int64_t count) {
  map_lanes(static_cast<float*>(out), static_cast<const float*>(in), count, exp_lanes);
}
void run_erf(void* out, const void* in, std::int64_t count) {
  map_lanes(static_cast<float*>(out), static_cast<const float*>(in), count, erf_lanes);
}
#else
void run_exp(void* out, const void* in, std::int64_t count) {
  run<Exp, float>(out, in, count);
}
void run_erf(void* out, const void* in, std::int64_t count) {
  run<Erf, float>(out, in, count);
}
#endif

// Large angles, infinities and NaN take the slow, accurate path one by one: a result does not
// depend on its neighbours.
template <int quarter_turns>
void run_sine(void* out, const void* in, std::int64_t count) {
  auto* to = static_cast<float*>(out);
  const auto* from = static_cast<const float*>(in);
  constexpr std::int64_t kBlock = 256;
  float block[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = begin + kBlock < count ? kBlock : count - begin;
    std::int32_t outside = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      block[i] = sine_f32(from[begin + i], quarter_turns);
      outside |= __builtin_fabsf(from[begin + i]) <= kSineLimit ? 0 : 1;
    }
    for (std::int64_t i = 0; outside != 0 && i < size; ++i) {
      const float x = from[begin + i];
      if (!(__builtin_fabsf(x) <= kSineLimit)) {
        const auto wide = static_cast<double>(x);
        block[i] = static_cast<float>(quarter_turns == 0 ? std::sin(wide) : std::cos(wide));
      }
    }
    __builtin_memcpy(to + begin, block, static_cast<std::size_t>(size) * sizeof(float));
  }
}

template <class Op>
constexpr UnaryLoops::Row floats() {
  return {run<Op, float>, run<Op, double>, nullptr, nullptr, nullptr, nullptr};
}
template <class Op>
constexpr UnaryLoops::Row numbers() {
  return {run<Op, float>,
          run<Op, double>,
          run<Op, std::int32_t>,
          run<Op, std::int64_t>,
          run<Op, std::uint8_t>,
          run<Op, std::int8_t>};
}

}  // namespace

// In the order of row_of(); columns f32, f64, i32, i64, u8, i8.
extern const UnaryLoops unary_loops_table = {{
    numbers<Neg>(),
    numbers<Abs>(),
    UnaryLoops::Row{run_exp, run<Exp, double>, nullptr, nullptr, nullptr, nullptr},
    floats<Log>(),
    floats<Sqrt>(),
    floats<Rsqrt>(),
    numbers<Square>(),
    UnaryLoops::Row{run_sine<0>, run<Sin, double>, nullptr, nullptr, nullptr, nullptr},
    UnaryLoops::Row{run_sine<1>, run<Cos, double>, nullptr, nullptr, nullptr, nullptr},
    floats<Tanh>(),
    UnaryLoops::Row{run_erf, run<Erf, double>, nullptr, nullptr, nullptr, nullptr},
    floats<Sigmoid>(),
    floats<Recip>(),
    numbers<Relu>(),
    floats<Log1p>(),
    floats<Expm1>(),
    floats<Floor>(),
    floats<Ceil>(),
    floats<Round>(),
    floats<Trunc>(),
    floats<Atan>(),
}};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
