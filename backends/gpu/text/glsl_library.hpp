// GLSL definitions of the functions that a printed body calls (kernel_printer.hpp), and the GLSL
// spelling. They stand behind the prelude. Pure. Threads: any.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernel_printer.hpp"

namespace hearth::gpu {

[[nodiscard]] const Spelling& glsl_spelling() noexcept;

/// Definitions of the functions that `text` calls, and of their callees: rules of numerics.md,
/// conversions, random words. glsl_math() defines the elementary functions m_...
[[nodiscard]] std::string glsl_library(std::string_view text);

/// Declarations of a printer's Philox caches, for the top level of a shader.
[[nodiscard]] std::string glsl_philox_caches(int count);
/// The declarations of BodyPrinter::divisors(), behind the parameters and glsl_math().
[[nodiscard]] std::string glsl_divisors(std::span<const std::string> divisors);

/// The kernel's parameters as members, "float s0; int s1;", in the order of the kernel.
[[nodiscard]] std::string glsl_parameter_members(const KernelIR& kernel);

/// A pointwise kernel as a function, with the library that it needs: `void name(const in float x0,
/// ..., const in int64_t place, out float y0, ...)`. Its parameters are p.s0 and so on. A kernel
/// that may fail needs a declaration of `undefined(uint code, int64_t place)` before it.
[[nodiscard]] std::string glsl_pointwise_function(const KernelIR& kernel, std::string_view name);

}  // namespace hearth::gpu
