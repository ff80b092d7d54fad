// Element types and the 16-bit storage types. Values, any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hearth {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i32, i64, u8, boolean };
inline constexpr int kDTypeCount = 8;

/// Bytes of one element.
[[nodiscard]] constexpr std::int64_t size_bytes(DType dtype) noexcept {
  constexpr std::int64_t kSizes[] = {4, 8, 2, 2, 4, 8, 1, 1};
  return kSizes[static_cast<int>(dtype)];
}
[[nodiscard]] constexpr bool is_float(DType dtype) noexcept {
  return static_cast<int>(dtype) <= 3;
}
[[nodiscard]] constexpr bool is_integer(DType dtype) noexcept {
  return static_cast<int>(dtype) >= 4 && static_cast<int>(dtype) <= 6;
}
/// "f32", "bool", ...
[[nodiscard]] std::string_view name(DType dtype) noexcept;

// NOLINTBEGIN(readability-identifier-naming): element types are written as users write them

/// IEEE binary16, storage only. Conversions round to nearest even.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  explicit f16(float value) noexcept;
  explicit operator float() const noexcept;
};
/// bfloat16, storage only. Conversions round to nearest even.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U) {
      bits = static_cast<std::uint16_t>((word >> 16U) | 0x40U);  // NaN stays NaN
    } else {
      bits = static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16U) & 1U)) >> 16U);
    }
  }
  explicit operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
};

/// The DType of a C++ element type: dtype_of<float> == DType::f32.
template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
// NOLINTEND(readability-identifier-naming)

/// Calls fn with a value of the C++ element type that `dtype` names:
/// visit_dtype(d, [&](auto zero) { using T = decltype(zero); }).
template <class Fn>
decltype(auto) visit_dtype(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::f64:
      return fn(double{});
    case DType::f16:
      return fn(f16{});
    case DType::bf16:
      return fn(bf16{});
    case DType::i32:
      return fn(std::int32_t{});
    case DType::i64:
      return fn(std::int64_t{});
    case DType::u8:
      return fn(std::uint8_t{});
    case DType::boolean:
      return fn(bool{});
    case DType::f32:
    default:
      return fn(float{});
  }
}

}  // namespace hearth
