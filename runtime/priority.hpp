// Priority: which streams of a device come first when several have work. A value; any thread.
#pragma once

#include <cstdint>

namespace hearth {

enum class Priority : std::uint8_t {
  latency,     ///< Before all others: requests that somebody waits for.
  normal,      ///< The default.
  background,  ///< When the others leave room: tuning, prefetching, saving.
};

inline constexpr int kPriorityCount = 3;

}  // namespace hearth
