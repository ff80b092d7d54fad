// NameSet: a hash set of tensors by their names on the device (name_of). An update group looks
// names up several times for each of its updates, which may be thousands. A value of one thread.
// Invariant: at least half of the table is empty, so probes stay short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth {

class NameSet final {
 public:
  /// Adds a name that is not in the set. Cost: that of a push_back.
  void add(std::uint64_t name) {
    if (2 * (count_ + 1) > table_.size()) {
      grow();
    }
    table_[place_of(name)] = name;
    ++count_;
  }
  [[nodiscard]] bool has(std::uint64_t name) const noexcept {
    return count_ > 0 && table_[place_of(name)] == name;
  }

 private:
  static constexpr std::size_t kFirstSize = 64;              // a power of two, like all sizes
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // slots are numbered from 0

  /// The index of the name, or of the free entry where it would be inserted.
  [[nodiscard]] std::size_t place_of(std::uint64_t name) const noexcept {
    constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio
    const std::size_t mask = table_.size() - 1;
    std::size_t place = (name * kSpread) >> 32U & mask;
    while (table_[place] != kNone && table_[place] != name) {
      place = (place + 1) & mask;
    }
    return place;
  }
  void grow() {
    const std::vector<std::uint64_t> before = table_;
    table_.assign(before.empty() ? kFirstSize : 2 * before.size(), kNone);
    for (const std::uint64_t name : before) {
      if (name != kNone) {
        table_[place_of(name)] = name;
      }
    }
  }

  std::vector<std::uint64_t> table_;
  std::size_t count_ = 0;
};

}  // namespace hearth
