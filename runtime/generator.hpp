// Generator: the state of random ops: a seed and a counter. A value. Philox4x32-10 computes the
// numbers, so the same seed and sequence of calls give the same values on every device. Part of a
// checkpoint. Threads: one at a time.
#pragma once

#include <cstdint>

namespace hearth {

class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0, std::uint64_t counter = 0) noexcept
      : seed_(seed), counter_(counter) {}

  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  [[nodiscard]] std::uint64_t counter() const noexcept { return counter_; }
  /// Reserves `blocks` counter values (four 32-bit words each) and returns the first.
  std::uint64_t advance(std::uint64_t blocks) noexcept {
    const std::uint64_t first = counter_;
    counter_ += blocks;
    return first;
  }
  /// An independent generator for a worker: the same seed and rank give the same generator.
  [[nodiscard]] Generator fork(std::uint64_t rank) const noexcept;

 private:
  std::uint64_t seed_;
  std::uint64_t counter_;
};

}  // namespace hearth
