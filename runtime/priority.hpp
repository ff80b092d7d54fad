// Priority: the order among a device's streams when several have work. A value; any thread.
#pragma once

#include <cstdint>

namespace hearth {

enum class Priority : std::uint8_t {
  latency,     ///< Before all others: requests with a waiting client.
  normal,      ///< The default.
  background,  ///< When the others have no work: tuning, prefetching, saving.
};

inline constexpr int kPriorityCount = 3;

}  // namespace hearth
