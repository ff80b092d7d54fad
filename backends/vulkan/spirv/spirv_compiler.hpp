// Compiles GLSL compute shaders to SPIR-V, with glslang and SPIRV-Tools. Pure functions of the
// text. Threads: any. Cost: about 1 ms a shader; the first call of a process 100 ms, for the
// built-in symbols of the language.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth::vulkan {

struct SpirvOptions {
  bool validate = false;  ///< Returns an error if SPIRV-Tools rejects the module.
  /// Defines CONVERTS_F16: the device's own conversions of f16 round to nearest even.
  bool converts_f16 = false;
  /// Defines LONG_GRIDS: a row of the device's two-row grids has 2^31 - 1 groups.
  bool has_long_grids = false;
  bool optimise = false;  ///< Runs the passes of `spirv-opt -O`, for drivers that optimise little.
};

using SpirvModule = std::vector<std::uint32_t>;

/// Version of glslang. Modules that another version compiled are not reusable.
[[nodiscard]] std::uint32_t glsl_compiler_version() noexcept;

/// Compiles a module for Vulkan 1.2 with one entry point, `main`.
///
/// Errors: internal, with the compiler's log and the lines of the text that it names; kernel_failed
/// for a text with kProgramLines, with the messages and line numbers of the program's text.
[[nodiscard]] Result<SpirvModule> compile_glsl(std::string_view name,
                                               const std::string& text,
                                               SpirvOptions options = {});

}  // namespace hearth::vulkan
