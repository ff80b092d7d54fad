// The text in front of every compute shader: extensions, element types, loads and stores by
// address, indices and parameters. All memory is reached by 64-bit addresses; there are no
// bindings. Pure functions. Threads: any.
//
// What a shader may use behind the prelude:
//   INDEX                     the type of element indices: int, or int64_t where `wide_index`
//   COMPUTE(dtype) by name    f32 float, f64 double, i32 int, i64 int64_t, u8 uint, i8 int, bool
//   bool; f16
//                             and bf16 are loaded and stored as float
//   load_<dtype>(address, i)  element i from there, as its compute type
//   store_<dtype>(address, i, value)   rounds to nearest even; u8 and i8 keep the low 8 bits
//   GROUP, THREAD             number of the workgroup (grids may have two axes), of the thread in
//   it is_nan(x)                 by bits, for float and double: compilers may assume that there is
//   none p                         the parameters, see glsl_parameters()
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth {

struct PreludeOptions {
  int threads = 256;                      ///< Of a workgroup, along one axis.
  bool wide_index = false;                ///< Operands of 2^31 elements or more.
  std::string_view more_extensions = {};  ///< "#extension ... : require" lines.
};

[[nodiscard]] std::string glsl_prelude(const PreludeOptions& options);

/// Push constants hold 128 bytes everywhere. Parameters may have so many of them, more lies in
/// memory; the rest is the device's own (LoopWatch).
inline constexpr std::size_t kPushBytes = 120;

/// Declares the parameters as `p`. Members are "uint64_t x; int n; ..." in the order of the bytes,
/// each aligned to its size (scalar layout); `size_bytes` is that of all: above kPushBytes they are
/// read through an address.
[[nodiscard]] std::string glsl_parameters(std::string_view members, std::size_t size_bytes);

/// "f32", "bool", ...: the ending of load_ and store_.
[[nodiscard]] std::string_view glsl_suffix(DType dtype) noexcept;
/// The type that values of an element type have in a shader.
[[nodiscard]] std::string_view glsl_compute_type(DType dtype) noexcept;

}  // namespace hearth
