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
  bool optimise = false;  ///< The passes of `spirv-opt -O`: for drivers that do little themselves.
};

using SpirvModule = std::vector<std::uint32_t>;

/// A module for Vulkan 1.2 with one entry point, `main`.
///
/// Errors: internal, with what the compiler says and the lines of the text that it names.
[[nodiscard]] Result<SpirvModule> compile_glsl(std::string_view name,
                                               const std::string& text,
                                               SpirvOptions options = {});

}  // namespace hearth
