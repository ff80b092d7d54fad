// RankRange: the ranks of one process of a data-parallel training. A value. Threads: any.
#pragma once

namespace hearth {

struct RankRange {
  int first = 0;  ///< The first rank of this process.
  int count = 1;  ///< Ranks of this process.
  int world = 1;  ///< Ranks of all processes.
  friend bool operator==(const RankRange&, const RankRange&) = default;
};

}  // namespace hearth
