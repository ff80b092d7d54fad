// Remembers in which direction a matrix was read last, so that the next reading begins where that
// one ended: with what is still in the cache. A model whose weights are a little larger than the
// second-level cache would else find nothing of them there. Owned by one CPU device. Threads: owner
// only.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

class SweepMemory {
 public:
  /// Whether to go backwards this time. Two matrices may share an entry: that costs time, never
  /// bits.
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
