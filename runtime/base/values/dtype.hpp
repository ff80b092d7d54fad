// Element types and the 16-bit storage types. Values, any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

namespace hearth {

// Files and records store the numbers: append new types.
enum class DType : std::uint8_t { f32, f64, f16, bf16, i32, i64, u8, boolean, i8 };
inline constexpr int kDTypeCount = 9;

/// Returns the bytes of one element.
[[nodiscard]] constexpr std::int64_t size_bytes(DType dtype) noexcept {
  constexpr std::int64_t kSizes[] = {4, 8, 2, 2, 4, 8, 1, 1, 1};
  return kSizes[static_cast<int>(dtype)];
}
[[nodiscard]] constexpr bool is_float(DType dtype) noexcept {
  return static_cast<int>(dtype) <= 3;
}
[[nodiscard]] constexpr bool is_integer(DType dtype) noexcept {
  return !is_float(dtype) && dtype != DType::boolean;
}
/// Returns "f32", "bool", ...
[[nodiscard]] std::string_view name(DType dtype) noexcept;
std::ostream& operator<<(std::ostream& out, DType dtype);

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

/// C++ types that tensors are filled from and read into: exactly one for each DType. `unsigned` and
/// `long long` are not among them, whatever their size.
template <class T>
concept Element = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, f16> ||
    std::is_same_v<T, bf16> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t> ||
    std::is_same_v<T, std::uint8_t> || std::is_same_v<T, bool> || std::is_same_v<T, std::int8_t>;

namespace detail {
// A static_assert rather than a constraint, so that the compiler prints one sentence.
template <class T>
constexpr DType element_dtype() noexcept {
  static_assert(Element<T>,
                "this is no element type: tensors hold float, double, hearth::f16, hearth::bf16, "
                "std::int32_t, std::int64_t, std::uint8_t, std::int8_t or bool");
  if constexpr (std::is_same_v<T, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<T, f16>) {
    return DType::f16;
  } else if constexpr (std::is_same_v<T, bf16>) {
    return DType::bf16;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::i32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return DType::i64;
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return DType::u8;
  } else if constexpr (std::is_same_v<T, bool>) {
    return DType::boolean;
  } else if constexpr (std::is_same_v<T, std::int8_t>) {
    return DType::i8;
  } else {
    return DType::f32;
  }
}
}  // namespace detail

/// The DType of a C++ element type: dtype_of<float> == DType::f32. Requires an Element.
template <class T>
inline constexpr DType dtype_of = detail::element_dtype<T>();
// NOLINTEND(readability-identifier-naming)

/// Returns the largest finite value of a float type.
[[nodiscard]] constexpr double largest_value(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return 0x1.fffffffffffffp1023;
    case DType::f16:
      return 65504.0;
    case DType::bf16:
      return 0x1.fep127;
    default:
      return 0x1.fffffep127;
  }
}
/// Returns whether the type can hold the number. Integers hold the whole numbers of their range,
/// bool holds 0 and 1. Floats may round it, but a finite number must stay finite.
[[nodiscard]] bool fits(double value, DType dtype) noexcept;
[[nodiscard]] bool fits(std::int64_t value, DType dtype) noexcept;

/// Calls fn with a value of the C++ element type of `dtype`: visit_dtype(d, [&](auto zero) { using
/// T = decltype(zero); }).
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
    case DType::i8:
      return fn(std::int8_t{});
    case DType::f32:
    default:
      return fn(float{});
  }
}

}  // namespace hearth
