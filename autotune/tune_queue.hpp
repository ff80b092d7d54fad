// The queue of wanted keys: which call should be tuned next.
// Owned by a device actor, never shared: no locks. The caller passes the time.
// Invariants: (1) at most `most_keys` keys wait; (2) a key that resumes later is not returned
// before; (3) a key whose share of all wanted time is above 1 / most_keys is in the queue.
#pragma once

#include <hearth/autotune/sample.hpp>
#include <hearth/autotune/tune_key.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <hearth/runtime/base/clock.hpp>

namespace hearth::detail {

/// A key without a settled entry.
struct WantedKey {
  TuneKey key = {};
  std::string label = {};  ///< to_string() of the key; empty until it is stored.
  RunTime weight = {};     ///< Calls · predicted time.
  std::uint64_t calls = 0;

  friend bool operator==(const WantedKey&, const WantedKey&) = default;
};

class TuneQueue final {
 public:
  static constexpr std::size_t kMostKeys = 256;

  explicit TuneQueue(std::size_t most_keys = kMostKeys);

  /// Counts a call of a key. A full queue replaces its lightest key, whose weight the new key takes
  /// over: a frequent key then stays, however late it comes.
  ///
  /// Cost: some 50 ns for a known key; O(most_keys) for a new one in a full queue.
  /// Paper: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in
  /// data streams", ICDT 2005 (Space-Saving).
  void want(const TuneKey& key, RunTime predicted);
  /// Returns the heaviest key that is not postponed; nothing if none is.
  ///
  /// Cost: O(size()).
  [[nodiscard]] std::optional<TuneKey> next(TimePoint now) const;
  /// Returns when next() may return a key: TimePoint::max() for an empty queue.
  [[nodiscard]] TimePoint ready_at() const noexcept;
  /// Keeps the key back until `time`: its trial rests on a busy machine.
  void postpone(const TuneKey& key, TimePoint time);
  /// Removes the key: it was tuned, or it cannot be.
  void remove(const TuneKey& key);
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }
  /// Returns all keys, the heaviest first, for the store.
  [[nodiscard]] std::vector<WantedKey> list() const;

 private:
  struct State {
    RunTime weight = {};
    std::uint64_t calls = 0;
    TimePoint not_before = {};
  };
  void replace_lightest(const TuneKey& key, State state);

  std::size_t most_keys_;
  std::unordered_map<TuneKey, State, TuneKeyHash> waiting_;
};

}  // namespace hearth::detail
