// Element types of ONNX and how Hearth holds them. The numbers are those of the file format.
// A value. Threads: any.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth {

enum class OnnxType : std::uint8_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,  ///< Held in i32.
  i16 = 5,  ///< Held in i32.
  i32 = 6,
  i64 = 7,
  string = 8,  ///< Held on the host only.
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,   ///< Held in i64.
  u64 = 13,   ///< Held in i64, so values of 2^63 and more cannot be represented.
  c64 = 14,   ///< Not supported.
  c128 = 15,  ///< Not supported.
  bf16 = 16,
  f8e4m3fn = 17,    ///< Not supported, as are all numbers above.
  f8e4m3fnuz = 18,  ///< Not supported.
  f8e5m2 = 19,      ///< Not supported.
  f8e5m2fnuz = 20,  ///< Not supported.
  u4 = 21,          ///< Held in u8.
  i4 = 22,          ///< Held in i8.
  f4e2m1 = 23,      ///< Not supported.
};

/// Returns "f32", "string", "c64", …
[[nodiscard]] std::string_view name(OnnxType type) noexcept;
std::ostream& operator<<(std::ostream& out, OnnxType type);
/// Returns the type with this number in a file; undefined for an unknown number.
[[nodiscard]] OnnxType onnx_type_of(std::int64_t number) noexcept;
/// Returns the ONNX type with the same values.
[[nodiscard]] OnnxType onnx_type_of(DType dtype) noexcept;
/// Returns the type of the tensor that holds such elements on a device; empty for strings and for
/// types that are not supported.
[[nodiscard]] std::optional<DType> device_type(OnnxType type) noexcept;
/// Returns whether the device holds the type in a wider one, so that results must be wrapped.
[[nodiscard]] bool is_widened(OnnxType type) noexcept;
[[nodiscard]] bool is_float(OnnxType type) noexcept;
/// Returns whether the elements are whole numbers; bools are not.
[[nodiscard]] bool is_integer(OnnxType type) noexcept;
/// Returns the bits of one element in a file; 0 for strings and undefined.
[[nodiscard]] int stored_bits(OnnxType type) noexcept;

}  // namespace hearth
