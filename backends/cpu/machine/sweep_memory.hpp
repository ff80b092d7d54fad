// Remembers the direction in which each matrix was read last. The next reading begins where the
// last one ended, with what is still in the cache. Otherwise weights slightly larger than the
// second-level cache would find nothing of themselves there. Owned by one CPU device. Threads:
// owner only.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

class SweepMemory {
 public:
  /// Flips the direction of a matrix; true: read backwards. Two matrices may share an entry: that
  /// costs time, never bits.
  [[nodiscard]] bool turn(const std::byte* matrix) noexcept {
    const auto line = reinterpret_cast<std::uintptr_t>(matrix) / 64;
    const auto entry = line % kEntries;
    backwards_.flip(entry);
    return backwards_.test(entry);
  }

 private:
  static constexpr std::size_t kEntries = 251;
  std::bitset<kEntries> backwards_;
};

}  // namespace hearth::cpu
