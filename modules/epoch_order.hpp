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

/// Rows of `rank` where rank i gets shares[i] of each sum(shares) rows, rounded. Where rounding
/// would leave a rank with a share above 0 without rows, and there are enough, each gets one first.
/// The sum and `count` are below 2^31.
[[nodiscard]] constexpr RowRange shard_rows(std::int64_t count,
                                            int rank,
                                            std::span<const std::int64_t> shares) noexcept {
  std::int64_t all = 0;
  std::int64_t takers = 0;
  for (const std::int64_t share : shares) {
    all += share;
    takers += share > 0 ? 1 : 0;
  }
  const auto part = [&](std::size_t of, std::int64_t first_rows) -> RowRange {
    std::int64_t before = 0;
    std::int64_t takers_before = 0;
    for (std::size_t i = 0; i < of; ++i) {
      before += shares[i];
      takers_before += shares[i] > 0 ? 1 : 0;
    }
    const std::int64_t rest = count - first_rows * takers;
    const std::int64_t taker = shares[of] > 0 ? 1 : 0;
    return {first_rows * takers_before + rest * before / all,
            first_rows * (takers_before + taker) + rest * (before + shares[of]) / all};
  };
  bool leaves_out = false;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    leaves_out = leaves_out || (shares[i] > 0 && part(i, 0).size() == 0);
  }
  return part(static_cast<std::size_t>(rank), leaves_out && count >= takers ? 1 : 0);
}

}  // namespace hearth
