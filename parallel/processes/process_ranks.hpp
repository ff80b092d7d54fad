// ProcessRanks: the ranks of a training and the processes that have them. Ranks are numbered over
// all processes, in the order of these. A value. Threads: any.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace hearth {

struct ProcessRanks {
  std::vector<std::size_t> counts = {1};  ///< Ranks by process, 1 or more each.
  std::size_t process = 0;                ///< This process.

  /// Number of ranks.
  [[nodiscard]] std::size_t world() const { return first_of(counts.size()); }
  /// First rank of a process.
  [[nodiscard]] std::size_t first_of(std::size_t of) const {
    return std::accumulate(
        counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(of), std::size_t{0});
  }
  /// First rank of this process.
  [[nodiscard]] std::size_t first() const { return first_of(process); }
  /// Ranks of this process.
  [[nodiscard]] std::size_t count() const { return counts[process]; }
};

}  // namespace hearth
