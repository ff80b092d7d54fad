#include <hearth/runtime/base/dtype.hpp>

#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <ostream>

namespace hearth {

std::string_view name(DType dtype) noexcept {
  constexpr std::string_view kNames[] = {
      "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool", "i8"};
  const auto number = static_cast<std::size_t>(dtype);
  return number < std::size(kNames) ? kNames[number] : "no dtype";  // read from a damaged file
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << name(dtype);
}

bool fits(std::int64_t value, DType dtype) noexcept {
  switch (dtype) {
    case DType::i32:
      return value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max();
    case DType::u8:
      return value >= 0 && value <= std::numeric_limits<std::uint8_t>::max();
    case DType::i8:
      return value >= std::numeric_limits<std::int8_t>::min() &&
             value <= std::numeric_limits<std::int8_t>::max();
    case DType::boolean:
      return value == 0 || value == 1;
    case DType::f16:
      return fits(static_cast<double>(value), dtype);
    default:
      return true;
  }
}

bool fits(double value, DType dtype) noexcept {
  if (is_float(dtype)) {
    // From half a step above the largest value on, rounding gives infinity.
    const double step = dtype == DType::f16 ? 32.0 : dtype == DType::bf16 ? 0x1p120 : 0x1p104;
    return !std::isfinite(value) || dtype == DType::f64 ||
           std::fabs(value) < largest_value(dtype) + step / 2;
  }
  const bool is_whole = std::trunc(value) == value && value >= -0x1p63 && value < 0x1p63;
  return is_whole && fits(static_cast<std::int64_t>(value), dtype);
}

// Scalar conversions use integer arithmetic, so that every machine gives the same bits.
f16::f16(float value) noexcept {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (word >> 16U) & 0x8000U;
  const std::uint32_t magnitude = word & 0x7fffffffU;
  std::uint32_t result = 0;
  if (magnitude > 0x7f800000U) {
    result = 0x7e00U;  // NaN
  } else if (magnitude >= 0x477ff000U) {
    result = 0x7c00U;  // rounds to infinity
  } else if (magnitude >= 0x38800000U) {
    const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13U) & 1U);
    result = (rounded - 0x38000000U) >> 13U;
  } else if (magnitude >= 0x33000000U) {  // subnormal
    const std::uint32_t shift = 126U - (magnitude >> 23U);
    const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    const std::uint32_t half = 1U << (shift - 1U);
    const std::uint32_t kept = mantissa >> shift;
    const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
    result = kept + ((rest > half || (rest == half && (kept & 1U) != 0U)) ? 1U : 0U);
  }
  bits = static_cast<std::uint16_t>(sign | result);
}

f16::operator float() const noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
  std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1fU) {
    return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13U));
  }
  if (exponent != 0U) {
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
  }
  const float tiny = static_cast<float>(mantissa) * 0x1p-24F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(tiny) | sign);
}

}  // namespace hearth
