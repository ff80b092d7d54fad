// A lane's window: the records behind its front that the actor has looked at and not run yet, so
// that several ops may become one kernel. Here is what it counts; the records stay in the ring.
// Pure data, of one thread. Invariants: (1) a record is counted once, when it is first looked at or
// runs unlooked-at; (2) only a program boundary begins the counts anew, never a cut, so that
// windows fill up by the order of the program alone; (3) what has left a window without a kernel of
// its own runs singly, and joins no other; a kernel may take records from behind others, which are
// then done before their turn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <hearth/streams/lane.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

class FusionWindow {
 public:
  /// A window that has one of these is full. A producer that waits for room has some coming then:
  /// no window holds half of a ring.
  static constexpr std::uint64_t kMostOps = 64;
  static constexpr std::uint64_t kMostRecords = Lane::kCapacity / 2;
  static constexpr std::uint64_t kMostBlobBytes = Lane::kBlobBytes / 4;

  /// How many records it holds; the first is the lane's front.
  [[nodiscard]] std::uint64_t looked() const noexcept { return looked_; }
  [[nodiscard]] bool is_open() const noexcept { return looked_ > 0; }
  /// Whether this record was in a window that has ended.
  [[nodiscard]] bool runs_singly(const OpRecord& record) const noexcept {
    return record.sequence <= single_through_;
  }

  /// Whether it may run as one kernel with those behind it.
  [[nodiscard]] bool may_be_grouped(const OpRecord& record) const noexcept {
    return runs_singly(record) && record.sequence > ungrouped_through_;
  }
  /// How many records of its window stand from this one on, if it was in one that has ended.
  [[nodiscard]] std::uint64_t rest_from(const OpRecord& record) const noexcept {
    return runs_singly(record) ? single_through_ - record.sequence + 1 : 0;
  }
  /// Whether a plan may be made for it: its window was a whole one.
  [[nodiscard]] bool may_be_planned(const OpRecord& record) const noexcept {
    return record.sequence <= planned_through_;
  }
  /// No plan is made for what is left of it.
  void use_known_plans() noexcept { planned_through_ = 0; }
  /// No group takes the records up to this one.
  void run_singly_through(std::uint64_t sequence) noexcept { ungrouped_through_ = sequence; }
  /// The record was run with others that stood before it: nothing is left to do at its turn.
  void mark_done(const OpRecord& record) noexcept {
    done_[place_of(record) / 64] |= std::uint64_t{1} << (place_of(record) % 64);
    ++done_count_;
  }
  [[nodiscard]] bool is_done(const OpRecord& record) const noexcept {
    return done_count_ > 0 && (done_[place_of(record) / 64] >> (place_of(record) % 64) & 1U) != 0;
  }
  /// A record that is done is about to leave.
  void forget_done(const OpRecord& record) noexcept {
    done_[place_of(record) / 64] &= ~(std::uint64_t{1} << (place_of(record) % 64));
    --done_count_;
  }

  /// The next record joins. True: the window is full.
  [[nodiscard]] bool join(const OpRecord& record, bool is_op) noexcept {
    ++looked_;
    last_ = record.sequence;
    return count(record, is_op);
  }
  /// A record behind the front's runs without having joined: a program boundary, or one that fails
  /// or stands alone.
  void pass(const OpRecord& record, bool is_op) noexcept {
    if (count(record, is_op)) {
      note_boundary();
    }
  }
  /// A program boundary was passed.
  void note_boundary() noexcept {
    if (ops_ > 1) {
      lonely_ops_ = 0;
    } else if (ops_ == 1 && lonely_ops_ < kLonelyOps) {
      ++lonely_ops_;
    }
    ops_ = records_ = blob_bytes_ = 0;
    is_whole_ = true;
  }
  /// Whether the first op behind a boundary runs at once: for long, each had no other before the
  /// next boundary, as in a program that reads each result.
  [[nodiscard]] bool expects_no_other() const noexcept {
    return lonely_ops_ == kLonelyOps && ops_ == 0;
  }
  /// An op has failed at its turn, which may be a matter of time.
  void note_failure() noexcept { is_whole_ = false; }
  /// Its records run singly. True: the window was a whole one, between two program boundaries.
  bool end(bool at_boundary) noexcept {
    const bool was_whole = is_whole_ && at_boundary;
    single_through_ = last_;
    planned_through_ = was_whole ? last_ : planned_through_;
    looked_ = 0;
    is_whole_ = false;
    if (at_boundary) {
      note_boundary();
    }
    return was_whole;
  }

 private:
  static constexpr std::uint8_t kLonelyOps = 16;

  [[nodiscard]] bool count(const OpRecord& record, bool is_op) noexcept {
    if (record.sequence > counted_through_) {
      counted_through_ = record.sequence;
      ops_ += is_op ? 1U : 0U;
      ++records_;
      blob_bytes_ += record.blob_size_bytes;
    }
    return ops_ >= kMostOps || records_ >= kMostRecords || blob_bytes_ >= kMostBlobBytes;
  }

  /// Windows hold fewer records than that, and one ends before the next begins.
  [[nodiscard]] static std::size_t place_of(const OpRecord& record) noexcept {
    return record.sequence % kMostRecords;
  }

  std::uint64_t looked_ = 0;
  std::uint64_t last_ = 0;               // the sequence of the newest record in it
  std::uint64_t single_through_ = 0;     // and of the last that has left a window
  std::uint64_t planned_through_ = 0;    // and of the last that has left a whole one
  std::uint64_t ungrouped_through_ = 0;  // and of the last that no group takes
  std::uint64_t counted_through_ = 0;    // and of the last that was counted
  std::uint64_t ops_ = 0;                // since the last program boundary
  std::uint64_t records_ = 0;
  std::uint64_t blob_bytes_ = 0;
  std::array<std::uint64_t, kMostRecords / 64> done_{};
  std::uint32_t done_count_ = 0;
  std::uint8_t lonely_ops_ = 0;  // boundaries in a row with one op before each
  bool is_whole_ = true;         // no cut since the last program boundary
};

}  // namespace hearth
