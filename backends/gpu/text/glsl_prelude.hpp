// The text in front of every compute shader: extensions, element types, loads and stores by
// address, indices and parameters. Shaders reach all memory by 64-bit addresses; there are no
// bindings. Pure functions. Threads: any.
//
// Names that a shader may use behind the prelude:
//   INDEX                      type of element indices: int, or int64_t with `wide_index`
//   COMPUTE(dtype) by name     f32 float, f64 double, i32 int, i64 int64_t, u8 uint, i8 int,
//                              bool bool; f16 and bf16 are loaded and stored as float
//   load_<dtype>(address, i)   element i at the address, as its compute type
//   store_<dtype>(address, i, value)   rounds to nearest even; u8 and i8 keep the low 8 bits
//   GROUP, THREAD              number of the workgroup (grids may have two axes), of its thread
//   is_nan(x)                  by bits: compilers may assume that no float or double is NaN
//   p                          the parameters, see glsl_parameters()
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth::gpu {

struct PreludeOptions {
  int threads = 256;                      ///< Threads of a workgroup, along one axis.
  bool wide_index = false;                ///< Operands may have 2^31 elements or more.
  std::string_view more_extensions = {};  ///< "#extension ... : require" lines.
};

/// The front of a kernel's text: its options, and the place of a language's prelude.
[[nodiscard]] std::string glsl_prelude(const PreludeOptions& options);

/// The place in a kernel's text where each language puts its vocabulary and prelude_functions().
inline constexpr std::string_view kPreludePlace = "#pragma prelude\n";
/// Functions in the vocabulary that every language's prelude has: is_nan(), conversions, loads and
/// stores.
[[nodiscard]] std::string prelude_functions();
/// A kernel's text as GLSL: puts GLSL's prelude into its place. A text without the place is GLSL
/// already.
[[nodiscard]] std::string glsl_text(std::string_view text);

/// Bytes of push constants that parameters may use. Every device has 128 bytes; the rest belongs to
/// the device (LoopWatch). Longer parameter blocks lie in memory.
inline constexpr std::size_t kPushBytes = 120;

/// Declares the parameters as `p`. Members are "uint64_t x; int n; ..." in the order of the bytes,
/// each aligned to its size (scalar layout). `size_bytes` is their total: above kPushBytes the
/// shader reads them through an address.
[[nodiscard]] std::string glsl_parameters(std::string_view members, std::size_t size_bytes);

/// Marks the beginning of a program's own lines in a text; their numbers start at 1.
/// `kProgramLinesEnd` marks their end.
inline constexpr std::string_view kProgramLines = "\n#line 1 1\n";
inline constexpr std::string_view kProgramLinesEnd = "\n#line 1 2\n";

/// Suffix of load_ and store_: "f32", "bool", ...
[[nodiscard]] std::string_view glsl_suffix(DType dtype) noexcept;
/// The shader type that holds values of an element type.
[[nodiscard]] std::string_view glsl_compute_type(DType dtype) noexcept;

}  // namespace hearth::gpu
