// Numbers that are unique in a process, for the ids of runtimes and devices. Threads: any.
#pragma once

#include <cstdint>

namespace hearth {

/// Returns 1, 2, 3, … over all callers.
[[nodiscard]] std::uint64_t unique_number() noexcept;

}  // namespace hearth
