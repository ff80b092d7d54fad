// The cache of tuning entries of one device, in memory. The store fills it at opening.
// Owned by a device actor, never shared: no locks. Entries travel between threads as values.
// Invariants: (1) at most `most_entries` entries; the least recently used one leaves first; (2)
// take_changed() returns each change exactly once, also of an entry that has left.
#pragma once

#include <hearth/autotune/tune_entry.hpp>

#include <cstddef>
#include <list>
#include <unordered_map>
#include <vector>

namespace hearth::detail {

class TuneCache final {
 public:
  static constexpr std::size_t kMostEntries = 4096;

  explicit TuneCache(std::size_t most_entries = kMostEntries);

  /// Adds an entry from the store: no change that must be written. A change that is not yet written
  /// stays.
  void load(TuneEntry entry);
  /// Adds or replaces an entry.
  void put(TuneEntry entry);
  /// Returns the entry of the key and marks it as used; nullptr without one. Valid until the next
  /// call that is not const.
  ///
  /// Cost: some 100 ns.
  [[nodiscard]] const TuneEntry* find(const TuneKey& key);
  /// Returns the entry with a ladder whose key differs in its sizes alone, and least; nullptr
  /// without one. Its ladder orders trials. As a pick it serves only through pick_from() with
  /// Numerics::same_bits, and with the candidates of the real call.
  ///
  /// Cost: O(size()): some 10 µs for a full cache. Call it once a new key.
  [[nodiscard]] const TuneEntry* neighbour(const TuneKey& key) const;
  /// Returns the entries that changed since the last call, for the store.
  [[nodiscard]] std::vector<TuneEntry> take_changed();
  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }

 private:
  struct Place {
    TuneEntry entry;
    bool is_changed = false;
  };
  Place& place(TuneEntry entry);

  std::size_t most_entries_;
  std::list<Place> entries_;  ///< Most recently used first.
  std::unordered_map<TuneKey, std::list<Place>::iterator, TuneKeyHash> places_;
  std::vector<TuneEntry> departed_;  ///< Changed entries that left the cache.
};

}  // namespace hearth::detail
