// The functions that a printed body calls (kernel_printer.hpp), in GLSL, and the words of GLSL.
// They stand behind the prelude. Pure. Threads: any.
#pragma once

#include <string>
#include <string_view>

#include <hearth/backends/codegen/kernel_printer.hpp>

namespace hearth {

[[nodiscard]] const Spelling& glsl_spelling() noexcept;

/// Definitions of the functions that `text` calls, with what those call: rules of numerics.md,
/// conversions, random words. Elementary functions m_... are glsl_math()'s.
[[nodiscard]] std::string glsl_library(std::string_view text);

/// The declarations of a printer's caches, at the top level of a shader.
[[nodiscard]] std::string glsl_philox_caches(int count);

/// "float s0; int s1;": the parameters as members, in the order of the kernel's.
[[nodiscard]] std::string glsl_parameter_members(const KernelIR& kernel);

/// A pointwise kernel as a function, with the library it needs:
/// `void name(const in float x0, ..., const in int64_t place, out float y0, ...)`. Its parameters
/// are p.s0 and so on; where it may fail, `undefined(uint code, int64_t place)` has to be declared
/// before it.
[[nodiscard]] std::string glsl_pointwise_function(const KernelIR& kernel, std::string_view name);

}  // namespace hearth
