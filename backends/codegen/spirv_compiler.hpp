// GLSL compute shaders to SPIR-V, by glslang, and through SPIRV-Tools. Pure functions of the text.
// Threads: any. Cost: about 1 ms a shader; the first call of a process 100 ms, for the symbols that
// the language has built in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth {

struct SpirvOptions {
  bool validate = false;  ///< A module that SPIRV-Tools finds wrong is an error.
  /// Defines CONVERTS_F16: the device's own conversions of f16 round to nearest even.
  bool converts_f16 = false;
  /// Defines LONG_GRIDS: a row of the device's grids has 2^31 - 1 groups, if there are two.
  bool has_long_grids = false;
  bool optimise = false;  ///< The passes of `spirv-opt -O`: for drivers that do little themselves.
};

using SpirvModule = std::vector<std::uint32_t>;

/// Stands in a text in front of lines that a program wrote, whose numbers begin at 1 there; what
/// follows them begins with `kProgramLinesEnd`.
inline constexpr std::string_view kProgramLines = "\n#line 1 1\n";
inline constexpr std::string_view kProgramLinesEnd = "\n#line 1 2\n";

/// Another number for each version of the compiler: what an older one made is not what this one
/// would make.
[[nodiscard]] std::uint32_t glsl_compiler_version() noexcept;

/// A module for Vulkan 1.2 with one entry point, `main`.
///
/// Errors: internal, with what the compiler says and the lines of the text that it names;
/// kernel_failed for a text with kProgramLines: what it says of these, with their numbers and
/// words.
[[nodiscard]] Result<SpirvModule> compile_glsl(std::string_view name,
                                               const std::string& text,
                                               SpirvOptions options = {});

}  // namespace hearth
