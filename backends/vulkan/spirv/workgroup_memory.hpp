// Computes the memory that the threads of a workgroup share in a shader. Programs' own shaders need
// the check: drivers accept more than their limit, or crash. Pure function. Threads: any.
#pragma once

#include <cstdint>
#include <span>

namespace hearth::vulkan {

/// Bytes of the module's `shared` variables, without gaps between them. Returns 0 for data that is
/// not a module.
[[nodiscard]] std::int64_t workgroup_bytes(std::span<const std::uint32_t> module);

}  // namespace hearth::vulkan
