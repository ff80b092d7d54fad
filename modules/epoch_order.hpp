// The order in which an epoch goes through a data set, and which rank gets which part of a batch.
// Pure functions of their arguments, so that every worker, rank and resumed run agrees. Threads:
// any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

/// A permutation of 0 … size-1 that depends on size, seed and epoch alone.
///
/// Paper: Durstenfeld, Algorithm 235: Random permutation, CACM 1964; numbers by Philox.
[[nodiscard]] std::vector<std::int64_t> shuffled_order(std::int64_t size,
                                                       std::uint64_t seed,
                                                       std::int64_t epoch);
/// 0 … size-1.
[[nodiscard]] std::vector<std::int64_t> plain_order(std::int64_t size);

/// Rows [begin, end) of a batch.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
};

/// The part of `count` rows that belongs to `rank` of `world`: the parts differ by one row at most,
/// follow one another and leave none out. Empty for some ranks when count < world.
[[nodiscard]] constexpr RowRange shard_rows(std::int64_t count, int rank, int world) noexcept {
  return {count * rank / world, count * (rank + 1) / world};
}

/// Rows of `rank` where rank i gets shares[i] of each sum(shares) rows, rounded. The sum and
/// `count` are below 2^31.
[[nodiscard]] constexpr RowRange shard_rows(std::int64_t count,
                                            int rank,
                                            std::span<const std::int64_t> shares) noexcept {
  std::int64_t before = 0;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    before += i < static_cast<std::size_t>(rank) ? shares[i] : 0;
    all += shares[i];
  }
  return {count * before / all, count * (before + shares[static_cast<std::size_t>(rank)]) / all};
}

}  // namespace hearth
