// Queue of released blocks that a stream of the device may still use. Owned by a strategy: no
// locks.
// Invariant: an entry waits for exactly one stream, the first of 1..3 that still uses it. The home
// stream delays no entry.
#pragma once

#include <hearth/memory/memory_strategy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth::detail {

class ReleaseQueue {
 public:
  struct Entry {
    LastUse last_use;
    std::uint32_t index = 0;  ///< Index and heap are private to the strategy.
    std::uint32_t heap = 0;
    std::uint64_t value = 0;  ///< Awaited value of the stream in whose queue the entry waits.
  };

  /// Returns true if all streams are done with the entry. Otherwise keeps the entry until they are.
  ///
  /// Cost: O(1), plus O(log waiting) if the entry is kept.
  [[nodiscard]] bool is_ready_or_kept(Entry entry) {
    for (std::size_t stream = 1; stream < kMaxPhysicalStreams; ++stream) {
      if (entry.last_use.values[stream] > completed_[stream]) {
        keep(stream, entry);
        return false;
      }
    }
    return true;
  }
  /// Records that a stream completed everything up to `value`. Calls `ready` with each entry that
  /// no stream uses any longer.
  template <class Ready>
  void retire(std::size_t stream, std::uint64_t value, const Ready& ready) {
    set_completed(stream, value);
    Entry entry;
    while (take_done(stream, entry)) {
      if (is_ready_or_kept(entry)) {
        ready(entry);
      }
    }
  }
  [[nodiscard]] std::uint64_t completed(std::size_t stream) const noexcept {
    return completed_[stream];
  }

 private:
  void keep(std::size_t stream, Entry entry);
  void set_completed(std::size_t stream, std::uint64_t value) noexcept;
  [[nodiscard]] bool take_done(std::size_t stream, Entry& out) noexcept;

  std::array<std::uint64_t, kMaxPhysicalStreams> completed_{};
  std::array<std::vector<Entry>, kMaxPhysicalStreams> waiting_;  // each a min-heap by value
};

}  // namespace hearth::detail
