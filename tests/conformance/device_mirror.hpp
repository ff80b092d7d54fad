// Runs a kernel call whose operands lie in host memory on a backend that the host cannot see into:
// every piece of host memory that an operand touches has a mirror on the device, margins included,
// which goes up before the call and comes down behind it.
// Threads: as Backend.
#pragma once

#include <hearth/backends/backend.hpp>

namespace hearth::testing {

/// Bytes around each operand that go along, so that a write beside it is seen. Host memory must
/// have them.
inline constexpr std::int64_t kMirroredMargin = 64;

/// run_call() through mirrors.
[[nodiscard]] Status run_mirrored(Backend& backend, const KernelCall& call);

}  // namespace hearth::testing
