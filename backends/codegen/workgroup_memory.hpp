// How much memory the threads of a workgroup share in a shader: for texts of programs, as drivers
// take more than they say they have, or crash. A pure function. Threads: any.
#pragma once

#include <cstdint>
#include <span>

namespace hearth {

/// The bytes of the module's `shared` variables, without gaps between them; what a module that is
/// none declares counts as 0.
[[nodiscard]] std::int64_t workgroup_bytes(std::span<const std::uint32_t> module);

}  // namespace hearth
