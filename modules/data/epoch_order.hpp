// The order of examples in an epoch, and the part of a batch that belongs to each rank. Pure
// functions, so every worker, rank and resumed run computes the same order.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

/// Returns a permutation of 0 … size-1 that depends on size, seed and epoch only.
///
/// Paper: Durstenfeld, Algorithm 235: Random permutation, CACM 1964; numbers by Philox.
[[nodiscard]] std::vector<std::int64_t> shuffled_order(std::int64_t size,
                                                       std::uint64_t seed,
                                                       std::int64_t epoch);
/// Returns 0 … size-1.
[[nodiscard]] std::vector<std::int64_t> plain_order(std::int64_t size);

/// Rows [begin, end) of a batch.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
};

/// Returns the rows of `rank` when `count` rows are divided evenly among `world` ranks. The parts
/// are contiguous, cover all rows, and differ by one row at most. Some are empty when count <
/// world.
[[nodiscard]] constexpr RowRange shard_rows(std::int64_t count, int rank, int world) noexcept {
  return {count * rank / world, count * (rank + 1) / world};
}

/// Returns the rows of `rank` when rank i gets shares[i] of each sum(shares) rows, rounded. If
/// rounding would leave a rank with a share above 0 without rows and `count` suffices, each such
/// rank first gets one row. The sum and `count` are below 2^31.
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
