// The pick table: the picks of recent calls, found by the facts that an op's record already holds.
// The hot path of dispatch: no lock, no atomic, no allocation, no canonical key.
// Owned by a device actor, never shared. Another thread's result reaches it as a message, whose
// handler calls invalidate().
// Invariants: (1) find() returns a pick only for traits that put() was given in the same epoch; (2)
// a call without an entry runs the rule.
#pragma once

#include <hearth/autotune/candidate.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace hearth::detail {

/// Facts by which calls differ: equal traits mean one key. Plain bytes of an op's record.
struct PickTraits {
  std::uint64_t header = 0;                 ///< Kind, flags and counts of the record.
  std::array<std::uint64_t, 3> operands{};  ///< Shape id, dtype and use of up to three operands.
  std::uint64_t layouts = 0;  ///< Layout and alignment of the operands, attributes, cores.

  /// Without branches: all words are read anyway.
  friend bool operator==(const PickTraits& a, const PickTraits& b) noexcept {
    return ((a.header ^ b.header) | (a.operands[0] ^ b.operands[0]) |
            (a.operands[1] ^ b.operands[1]) | (a.operands[2] ^ b.operands[2]) |
            (a.layouts ^ b.layouts)) == 0;
  }
};

class PickTable final {
 public:
  static constexpr std::size_t kEntries = 512;
  static constexpr CandidateId kUnknown = 0xFFFF;  ///< No entry.

  PickTable() : entries_(std::make_unique<std::array<Entry, kEntries>>()) {}

  /// Returns the pick, or kUnknown: then the caller makes the key and consults the cache.
  ///
  /// Cost: see `BM_PickTable_Find`.
  [[nodiscard]] CandidateId find(const PickTraits& traits) const noexcept {
    const Entry& entry = (*entries_)[place_of(traits)];
    return entry.epoch == epoch_ && entry.traits == traits ? entry.pick : kUnknown;
  }
  /// Remembers a pick. It replaces the entry of other traits that share its place.
  void put(const PickTraits& traits, CandidateId pick) noexcept {
    (*entries_)[place_of(traits)] = {.traits = traits, .epoch = epoch_, .pick = pick};
  }
  /// Forgets all picks: entries of the cache changed.
  void invalidate() noexcept {
    if (++epoch_ == 0) {  // after 2^32 changes entries of an old epoch would count again
      *entries_ = {};
      epoch_ = 1;
    }
  }
  /// Number of the present picks. A holder of a pick reads it anew once this differs.
  [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_; }

 private:
  struct alignas(64) Entry {  // a cache line
    PickTraits traits;
    std::uint32_t epoch = 0;  ///< 0: empty.
    CandidateId pick = kRulePick;
  };

  [[nodiscard]] static std::size_t place_of(const PickTraits& traits) noexcept {
    // The upper bits of a product depend on all bits of its factors. Both products at once.
    const std::uint64_t a = traits.operands[0] ^ (traits.operands[1] << 32U) ^ traits.layouts;
    const std::uint64_t b = traits.operands[2] ^ (traits.header << 40U);
    const std::uint64_t hash = a * 0x9E3779B97F4A7C15U + b * 0xC2B2AE3D27D4EB4FU;
    return static_cast<std::size_t>(hash >> (64 - std::countr_zero(kEntries)));
  }

  std::unique_ptr<std::array<Entry, kEntries>> entries_;
  std::uint32_t epoch_ = 1;
};

}  // namespace hearth::detail
