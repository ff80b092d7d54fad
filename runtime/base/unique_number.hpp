// Numbers that never come twice in a process, for the ids of runtimes and devices. Threads: any.
#pragma once

#include <cstdint>

namespace hearth {

/// 1, 2, 3, … over all callers.
[[nodiscard]] std::uint64_t unique_number() noexcept;

}  // namespace hearth
