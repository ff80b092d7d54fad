// Attention without the matrix of scores in memory: blocks of queries iterate over blocks of keys.
// The sums so far are rescaled whenever a larger score appears.
// Papers: Milakov, Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867; Dao et
// al., FlashAttention, arXiv:2205.14135.
// Private to backends/cpu. Threads: owner only; forks in the device's arena. Invariant: blocks
// depend on sizes alone, so the bits do not depend on the cores.
#pragma once

#include "attention_operands.hpp"
#include "attention_tiles.hpp"
#include "backends/cpu/machine/kernel_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

inline constexpr std::int64_t kAttentionRows = 64;
inline constexpr std::int64_t kAttentionKeys = 256;

/// Size of one block: `rows` queries and `keys` keys.
struct BlockSize {
  std::int64_t rows;
  std::int64_t keys;
};

/// Numbers of keys of a block that its rows see under the causal mask.
class VisibleKeys {
 public:
  /// Rows [first, first + count), count ≤ kAttentionRows, and keys [key, key + keys).
  VisibleKeys(const AttentionSizes& sizes,
              std::int64_t first,
              std::int64_t count,
              std::int64_t key,
              std::int64_t keys) noexcept
      : count_(count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t seen =
          std::clamp<std::int64_t>(sizes.visible_keys(first + i) - key, 0, keys);
      seen_[static_cast<std::size_t>(i)] = seen;
      most_ = std::max(most_, seen);
    }
  }
  [[nodiscard]] std::int64_t seen(std::int64_t row) const noexcept {
    return seen_[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] std::int64_t most() const noexcept { return most_; }
  /// Returns the largest number of keys that one of these rows sees.
  [[nodiscard]] std::int64_t most_of(std::int64_t first, std::int64_t count) const noexcept {
    const auto from = seen_.begin() + first;
    return *std::max_element(from, from + count);
  }
  /// Returns the first row that sees this key, or the number of rows.
  [[nodiscard]] std::int64_t first_to_see(std::int64_t key) const noexcept {
    const auto end = seen_.begin() + count_;
    return std::find_if(seen_.begin(), end, [key](std::int64_t seen) { return seen > key; }) -
           seen_.begin();
  }

 private:
  std::int64_t count_;
  std::int64_t most_ = 0;
  std::array<std::int64_t, kAttentionRows> seen_{};
};

/// Elements between rows of scores: whole cache lines.
template <class T>
[[nodiscard]] constexpr std::int64_t score_step(std::int64_t keys) noexcept {
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
  return (keys + kLine - 1) / kLine * kLine;
}

[[nodiscard]] Status run_attention(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_attention_backward(const KernelCall& call, KernelContext& context);

}  // namespace hearth::cpu
