// Runs a kernel call whose operands lie in host memory on a backend with its own memory. Every
// piece of host memory that an operand touches has a mirror on the device, margins included. The
// mirror is uploaded before the call and downloaded after it.
// Threads: as Backend.
#pragma once

#include <hearth/backends/backend.hpp>

namespace hearth::testing {

/// Bytes around each operand that are mirrored too, so that a write beside it is detected. Host
/// memory must include them.
inline constexpr std::int64_t kMirroredMargin = 64;

/// Runs the call as run_call() does, through mirrors.
[[nodiscard]] Status run_mirrored(Backend& backend, const KernelCall& call);

}  // namespace hearth::testing
