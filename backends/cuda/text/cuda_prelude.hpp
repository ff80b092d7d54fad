// CUDA's prelude: a kernel's text in the vocabulary of gpu/text/glsl_prelude.hpp as CUDA C++. The
// text becomes the body of a `struct Kernel`, so that its globals are members, in registers. Pure
// functions. Threads: any.
//
// NVRTC compiles the result. Tests compile it by clang's CUDA front end, as a check of address
// spaces, and by g++. For g++ HEARTH_MACHINE names the header with the machine's part.
#pragma once

#include <string>
#include <string_view>

namespace hearth::cuda {

/// The kernel's text as CUDA C++. Its entry is `kernel_entry`, with the parameters by value. A
/// program's lines (gpu::kProgramLines) stay as they are.
[[nodiscard]] std::string cuda_text(std::string_view text);

inline constexpr const char* kEntryName = "kernel_entry";

/// GLSL's literals as C++'s: 1.0 is a float there and becomes 1.0f, 1.0lf becomes 1.0. Lines
/// "#line NUMBER STRING" get a name for the string.
[[nodiscard]] std::string with_literals(std::string_view text);

}  // namespace hearth::cuda
