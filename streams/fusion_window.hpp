// A lane's fusion window: the records behind the lane's front that the actor has inspected but not
// run yet. So several ops can become one kernel. This class holds only the counts; the records stay
// in the ring. Plain data, of one thread.
// A full window ends where the program has come to, in the midst of a chain perhaps. So a window
// that has enough ends before the next product, whose chain then lies in one window.
// Invariants: (1) a record is counted once, when it is first inspected or runs without inspection;
// (2) only a program boundary resets the counts, never a cut, so that windows fill up by program
// order alone; (3) a record that left a window without a kernel runs singly and joins no other
// window. A kernel may include records from behind others, which are then done before their turn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <hearth/streams/lane.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

class FusionWindow {
 public:
  /// Limits of a window. It is full at the first one reached. No window holds half of a ring, so a
  /// producer that waits for room always gets some.
  static constexpr std::uint64_t kMostOps = 64;
  static constexpr std::uint64_t kMostRecords = Lane::kCapacity / 2;
  static constexpr std::uint64_t kMostBlobBytes = Lane::kBlobBytes / 4;
  /// A window that has enough: five eighths of a full one.
  static constexpr std::uint64_t kEnoughOps = 40;
  static constexpr std::uint64_t kEnoughRecords = kMostRecords / 8 * 5;

  /// Returns the number of records in the window; the first is the lane's front.
  [[nodiscard]] std::uint64_t looked() const noexcept { return looked_; }
  [[nodiscard]] bool is_open() const noexcept { return looked_ > 0; }
  /// Returns whether this record was in a window that has ended.
  [[nodiscard]] bool runs_singly(const OpRecord& record) const noexcept {
    return record.sequence <= single_through_;
  }

  /// Returns whether the record may run as one kernel with those behind it.
  [[nodiscard]] bool may_be_grouped(const OpRecord& record) const noexcept {
    return runs_singly(record) && record.sequence > ungrouped_through_;
  }
  /// Returns the number of records of its ended window from this one on, else 0.
  [[nodiscard]] std::uint64_t rest_from(const OpRecord& record) const noexcept {
    return runs_singly(record) ? single_through_ - record.sequence + 1 : 0;
  }
  /// Returns whether a plan may be made for the record: its window was a whole one.
  [[nodiscard]] bool may_be_planned(const OpRecord& record) const noexcept {
    return record.sequence <= planned_through_;
  }
  /// Allows no new plan for the rest of the window.
  void use_known_plans() noexcept { planned_through_ = 0; }
  /// Excludes the records up to this one from groups.
  void run_singly_through(std::uint64_t sequence) noexcept { ungrouped_through_ = sequence; }
  /// Marks a record that ran in a kernel of earlier records: nothing is left to do at its turn.
  void mark_done(const OpRecord& record) noexcept {
    done_[place_of(record) / 64] |= std::uint64_t{1} << (place_of(record) % 64);
    ++done_count_;
  }
  [[nodiscard]] bool is_done(const OpRecord& record) const noexcept {
    return done_count_ > 0 && (done_[place_of(record) / 64] >> (place_of(record) % 64) & 1U) != 0;
  }
  /// Clears the mark of a done record that is about to leave the ring.
  void forget_done(const OpRecord& record) noexcept {
    done_[place_of(record) / 64] &= ~(std::uint64_t{1} << (place_of(record) % 64));
    --done_count_;
  }

  /// Returns whether the window ends before this record, if that is a product.
  [[nodiscard]] bool has_enough_before(const OpRecord& record) const noexcept {
    return record.sequence > counted_through_ && (ops_ >= kEnoughOps || records_ >= kEnoughRecords);
  }
  /// Adds the next record. Returns true if the window is full.
  [[nodiscard]] bool join(const OpRecord& record, bool is_op) noexcept {
    ++looked_;
    last_ = record.sequence;
    return count(record, is_op);
  }
  /// Counts a record behind the front that runs without having joined: a program boundary, or a
  /// record that fails or cannot be fused.
  void pass(const OpRecord& record, bool is_op) noexcept {
    if (count(record, is_op)) {
      record_boundary();
    }
  }
  /// Resets the counts at a program boundary.
  void record_boundary() noexcept {
    if (ops_ > 1) {
      lonely_ops_ = 0;
    } else if (ops_ == 1 && lonely_ops_ < kLonelyOps) {
      ++lonely_ops_;
    }
    ops_ = records_ = blob_bytes_ = 0;
    is_whole_ = true;
  }
  /// Returns whether the first op after a boundary should run at once. That is so if the last
  /// kLonelyOps boundaries each followed a single op, as in a program that reads each result.
  [[nodiscard]] bool expects_no_other() const noexcept {
    return lonely_ops_ == kLonelyOps && ops_ == 0;
  }
  /// Notes that an op failed at its turn, which may depend on timing: the window is not whole.
  void register_failure() noexcept { is_whole_ = false; }
  /// Ends the window; its records run singly. Returns whether it was a whole one, between two
  /// program boundaries.
  bool end(bool at_boundary) noexcept {
    const bool was_whole = is_whole_ && at_boundary;
    single_through_ = last_;
    planned_through_ = was_whole ? last_ : planned_through_;
    looked_ = 0;
    is_whole_ = false;
    if (at_boundary) {
      record_boundary();
    }
    return was_whole;
  }

 private:
  static constexpr std::uint8_t kLonelyOps = 16;

  [[nodiscard, gnu::always_inline]] bool count(const OpRecord& record, bool is_op) noexcept {
    if (record.sequence > counted_through_) {
      counted_through_ = record.sequence;
      ops_ += is_op ? 1U : 0U;
      ++records_;
      blob_bytes_ += record.blob_size_bytes;
    }
    return ops_ >= kMostOps || records_ >= kMostRecords || blob_bytes_ >= kMostBlobBytes;
  }

  /// Unique among live records: windows hold fewer than kMostRecords, and one ends before the next
  /// begins.
  [[nodiscard]] static std::size_t place_of(const OpRecord& record) noexcept {
    return record.sequence % kMostRecords;
  }

  std::uint64_t looked_ = 0;
  std::uint64_t last_ = 0;               // the sequence of the newest record in the window
  std::uint64_t single_through_ = 0;     // of the last record that has left a window
  std::uint64_t planned_through_ = 0;    // of the last record that has left a whole window
  std::uint64_t ungrouped_through_ = 0;  // of the last record that no group takes
  std::uint64_t counted_through_ = 0;    // of the last record that was counted
  std::uint64_t ops_ = 0;                // since the last program boundary
  std::uint64_t records_ = 0;
  std::uint64_t blob_bytes_ = 0;
  std::array<std::uint64_t, kMostRecords / 64> done_{};
  std::uint32_t done_count_ = 0;
  std::uint8_t lonely_ops_ = 0;  // boundaries in a row with one op before each
  bool is_whole_ = true;         // no cut since the last program boundary
};

}  // namespace hearth
