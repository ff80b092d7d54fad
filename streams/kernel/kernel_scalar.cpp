#include "kernel_scalar.hpp"

#include <hearth/streams/kernel/op_expression.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <hearth/runtime/base/philox.hpp>

namespace hearth::detail {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

KernelScalar of_real(double value) {
  return {.real = value};
}
KernelScalar of_integer(std::int64_t value) {
  return {.integer = value};
}
KernelScalar of_bool(bool value) {
  return {.integer = value ? 1 : 0};
}

// Rounds an i64 to the 53 bits of an f64, with a sticky bit. Drops the last 11 bits, and sets the
// bit above them if any of them was set.
double sticky(std::int64_t value) {
  constexpr std::uint64_t kLost = (1U << 11U) - 1;
  const auto word = static_cast<std::uint64_t>(value);
  std::uint64_t size = value < 0 ? 0 - word : word;
  if (size >> 53U != 0 && (size & kLost) != 0) {
    size = (size & ~kLost) | (kLost + 1);
  }
  return value < 0 ? -static_cast<double>(size) : static_cast<double>(size);
}

// ---- integers wrap ----

std::uint64_t bits(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}
std::int64_t negative(std::int64_t value, DType type) {
  return wrapped(0 - bits(value), type);
}

std::int64_t power(std::int64_t base, std::int64_t exponent, DType type) {
  if (exponent < 0) {  // 1 / base^|exponent|, truncated
    const bool is_odd = exponent % 2 != 0;
    return base == 1 ? 1 : base == -1 ? (is_odd ? -1 : 1) : 0;
  }
  std::uint64_t result = 1;
  std::uint64_t square = bits(base);
  for (std::uint64_t left = bits(exponent); left != 0; left >>= 1U) {
    result *= (left & 1U) != 0 ? square : 1;
    square *= square;
  }
  return wrapped(result, type);
}

// A shift by a negative number of places, or by the type's width or more, moves all bits out. A
// shift right fills up with the sign.
std::int64_t shifted_left(std::int64_t value, std::int64_t places, DType type) {
  return places < 0 || places >= 8 * size_bytes(type) ? 0 : wrapped(bits(value) << places, type);
}
std::int64_t shifted_right(std::int64_t value, std::int64_t places, DType type) {
  const bool is_beyond = places < 0 || places >= 8 * size_bytes(type);
  return value >> (is_beyond ? 63 : places);
}

std::int64_t integer_value(Primitive primitive, DType type, std::int64_t a, std::int64_t b) {
  switch (primitive) {
    case Primitive::neg:
      return negative(a, type);
    case Primitive::abs:
      return a < 0 ? negative(a, type) : a;
    case Primitive::add:
      return wrapped(bits(a) + bits(b), type);
    case Primitive::sub:
      return wrapped(bits(a) - bits(b), type);
    case Primitive::mul:
      return wrapped(bits(a) * bits(b), type);
    case Primitive::div:
      return b == -1 ? negative(a, type) : a / b;  // the smallest over -1 wraps
    case Primitive::pow:
      return power(a, b, type);
    case Primitive::bit_and:
      return a & b;
    case Primitive::bit_or:
      return a | b;
    case Primitive::bit_xor:
      return a ^ b;
    case Primitive::shift_left:
      return shifted_left(a, b, type);
    case Primitive::shift_right:
      return shifted_right(a, b, type);
    case Primitive::min:
      return a < b ? a : b;
    case Primitive::max:
    default:
      return a > b ? a : b;
  }
}

double real_value(Primitive primitive, double a, double b) {
  switch (primitive) {
    case Primitive::neg:
      return -a;
    case Primitive::abs:
      return std::fabs(a);
    case Primitive::sqrt:
      return std::sqrt(a);
    case Primitive::exp:
      return std::exp(a);
    case Primitive::log:
      return std::log(a);
    case Primitive::sin:
      return std::sin(a);
    case Primitive::cos:
      return std::cos(a);
    case Primitive::tanh:
      return std::tanh(a);
    case Primitive::erf:
      return std::erf(a);
    case Primitive::atan:
      return std::atan(a);
    case Primitive::add:
      return a + b;
    case Primitive::sub:
      return a - b;
    case Primitive::mul:
      return a * b;
    case Primitive::div:
      return a / b;
    case Primitive::pow:
      return std::pow(a, b);
    case Primitive::min:
      return a < b || std::isnan(a) ? a : b;
    case Primitive::max:
    default:
      return a > b || std::isnan(a) ? a : b;
  }
}

template <class T>
bool holds(Primitive primitive, T a, T b) {
  switch (primitive) {
    case Primitive::equal:
      return a == b;
    case Primitive::less:
      return a < b;
    case Primitive::less_equal:
    default:
      return a <= b;
  }
}

std::int64_t random_word(std::int64_t seed, std::int64_t counter, std::int64_t place) {
  const std::uint64_t i = bits(place);
  return philox::block(bits(seed), bits(counter) + i / 4)[i % 4];
}

std::int64_t saturated(double value, DType type) {
  if (std::isnan(value)) {
    return 0;
  }
  const auto clamp = [&](double least, double most, std::int64_t lowest, std::int64_t highest) {
    return value <= least ? lowest : value >= most ? highest : static_cast<std::int64_t>(value);
  };
  switch (type) {
    case DType::u8:
      return clamp(0, 255, 0, 255);
    case DType::i8:
      return clamp(-128, 127, -128, 127);
    case DType::i32:
      return clamp(-0x1p31,
                   0x1p31 - 1,
                   std::numeric_limits<std::int32_t>::min(),
                   std::numeric_limits<std::int32_t>::max());
    default:
      return clamp(-0x1p63,
                   0x1p63,
                   std::numeric_limits<std::int64_t>::min(),
                   std::numeric_limits<std::int64_t>::max());
  }
}

}  // namespace

double rounded(double value, DType type) noexcept {
  switch (type) {
    case DType::f16:
      return static_cast<double>(static_cast<float>(f16(sticky_f32(value))));
    case DType::bf16:
      return static_cast<double>(static_cast<float>(bf16(sticky_f32(value))));
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    default:
      return value;
  }
}

std::int64_t wrapped(std::uint64_t value, DType type) noexcept {
  switch (type) {
    case DType::u8:
      return static_cast<std::uint8_t>(value);
    case DType::i8:
      return static_cast<std::int8_t>(value);
    case DType::i32:
      return static_cast<std::int32_t>(value);
    default:
      return static_cast<std::int64_t>(value);
  }
}

KernelScalar load(const std::byte* from, DType type) noexcept {
  return visit_dtype(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      return of_bool(*from != std::byte{0});
    } else {
      T value;
      std::memcpy(&value, from, sizeof value);
      if constexpr (std::is_integral_v<T>) {
        return of_integer(value);
      } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
        return of_real(static_cast<double>(static_cast<float>(value)));
      } else {
        return of_real(static_cast<double>(value));
      }
    }
  });
}

void store(std::byte* to, KernelScalar value, DType type) noexcept {
  visit_dtype(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      zero = static_cast<T>(value.integer);
    } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      zero = T(static_cast<float>(value.real));
    } else {
      zero = static_cast<T>(value.real);
    }
    std::memcpy(to, &zero, sizeof zero);
  });
}

KernelScalar constant(const KernelNode& node) noexcept {
  return is_float(node.type) ? of_real(std::bit_cast<double>(node.bits))
                             : of_integer(std::bit_cast<std::int64_t>(node.bits));
}

KernelScalar parameter(const ScalarAttributes& value, DType type) noexcept {
  if (is_float(type)) {
    return of_real(rounded(value.real, type));
  }
  return type == DType::boolean ? of_bool(value.integer != 0)
                                : of_integer(wrapped(bits(value.integer), type));
}

KernelScalar converted(KernelScalar value, DType from, DType to) noexcept {
  if (to == DType::boolean) {
    return of_bool(is_float(from) ? value.real != 0 : value.integer != 0);
  }
  if (is_float(from)) {
    return is_float(to) ? of_real(rounded(value.real, to)) : of_integer(saturated(value.real, to));
  }
  if (!is_float(to)) {
    return of_integer(wrapped(bits(value.integer), to));
  }
  if (to == DType::f32) {  // an i64 may be wider than an f64: straight to f32
    return of_real(static_cast<double>(static_cast<float>(value.integer)));
  }
  const bool is_half = to == DType::f16 || to == DType::bf16;
  return of_real(rounded(is_half ? sticky(value.integer) : static_cast<double>(value.integer), to));
}

const char* why_undefined(Primitive primitive,
                          DType type,
                          KernelScalar a,
                          KernelScalar b) noexcept {
  if (is_float(type)) {
    return nullptr;
  }
  if (primitive == Primitive::div && b.integer == 0) {
    return "division by zero";
  }
  if (primitive == Primitive::pow && a.integer == 0 && b.integer < 0) {
    return "zero to a negative power";
  }
  return nullptr;
}

KernelScalar evaluate(Primitive primitive,
                      DType type,
                      std::span<const KernelScalar> operands) noexcept {
  const KernelScalar a = operands[0];
  const KernelScalar b = operands.size() > 1 ? operands[1] : KernelScalar{};
  switch (primitive) {
    case Primitive::logical_not:
      return of_bool(a.integer == 0);
    case Primitive::logical_and:
      return of_bool(a.integer != 0 && b.integer != 0);
    case Primitive::logical_or:
      return of_bool(a.integer != 0 || b.integer != 0);
    case Primitive::select:
      return a.integer != 0 ? b : operands[2];
    case Primitive::philox:
      return of_integer(random_word(a.integer, b.integer, operands[2].integer));
    case Primitive::equal:
    case Primitive::less:
    case Primitive::less_equal:
      return of_bool(is_float(type) ? holds(primitive, a.real, b.real)
                                    : holds(primitive, a.integer, b.integer));
    default:
      return is_float(type) ? of_real(rounded(real_value(primitive, a.real, b.real), type))
                            : of_integer(integer_value(primitive, type, a.integer, b.integer));
  }
}

namespace {

KernelScalar neutral(FoldOp op, DType type) noexcept {
  const bool is_top = op == FoldOp::max;
  switch (op) {
    case FoldOp::max:
    case FoldOp::min:
      return is_float(type) ? of_real(is_top ? -kInfinity : kInfinity)
                            : of_integer(saturated(is_top ? -kInfinity : kInfinity, type));
    case FoldOp::prod:
      return is_float(type) ? of_real(1) : of_integer(1);
    default:
      return {};
  }
}

/// The first of equal values stays, also of the two zeros, and so does the first NaN.
bool beats(bool is_min, double value, double champion) noexcept {
  const bool is_better = is_min ? value < champion : value > champion;
  return !std::isnan(champion) && (is_better || std::isnan(value));
}

KernelScalar accumulated(FoldOp op, DType type, KernelScalar sum, KernelScalar value) noexcept {
  const bool is_real = is_float(type);
  switch (op) {
    case FoldOp::max:
    case FoldOp::min:
      if (is_real) {
        return beats(op == FoldOp::min, value.real, sum.real) ? value : sum;
      }
      return evaluate(
          op == FoldOp::min ? Primitive::min : Primitive::max, type, std::array{sum, value});
    case FoldOp::prod:
      return is_real ? of_real(sum.real * value.real)
                     : of_integer(wrapped(bits(sum.integer) * bits(value.integer), type));
    default:
      return is_real ? of_real(sum.real + value.real)
                     : of_integer(wrapped(bits(sum.integer) + bits(value.integer), type));
  }
}

}  // namespace

KernelScalar folded(FoldOp op, DType type, std::span<const KernelScalar> row) noexcept {
  KernelScalar value = neutral(op, type);
  for (const KernelScalar& each : row) {
    value = accumulated(op, type, value, each);
  }
  if (!is_float(type)) {
    return value;
  }
  if (op == FoldOp::mean) {
    value.real /= static_cast<double>(row.size());
  }
  return of_real(rounded(value.real, type));
}

void make_softmax(bool is_log, DType type, std::span<KernelScalar> row) {
  double top = -kInfinity;
  for (const KernelScalar& each : row) {
    top = each.real > top || std::isnan(each.real) ? each.real : top;
  }
  double sum = 0;
  for (const KernelScalar& each : row) {
    sum += std::exp(each.real - top);
  }
  for (KernelScalar& each : row) {
    const double shifted = each.real - top;
    each.real = rounded(is_log ? shifted - std::log(sum) : std::exp(shifted) / sum, type);
  }
}

void make_softmax_gradient(bool is_log,
                           DType type,
                           std::span<KernelScalar> grad,
                           std::span<const KernelScalar> y) {
  double sum = 0;
  for (std::size_t i = 0; i < grad.size(); ++i) {
    sum += is_log ? grad[i].real : grad[i].real * y[i].real;
  }
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const double value =
        is_log ? grad[i].real - std::exp(y[i].real) * sum : y[i].real * (grad[i].real - sum);
    grad[i].real = rounded(value, type);
  }
}

}  // namespace hearth::detail
