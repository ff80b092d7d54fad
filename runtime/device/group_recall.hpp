// Groups that a device remembers: the records of a lane that a group was gathered from, and what it
// was. Where the same records come again, the group is filled in from there, as gathering would
// fill it, and its plan needs no search. Private to runtime. Owned by the device actor, touched by
// the token holder only. Invariants: (1) what is filled in is what GroupGather would gather: all
// that it looks at is compared, but for tensors' names, of which it compares which are the same;
// (2) what it remembers of plans lasts until forget(), which comes before those go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dispatch.hpp"
#include "fused_group.hpp"
#include "group_call.hpp"
#include "handle_table.hpp"
#include "lane_state.hpp"
#include "plan_store.hpp"

namespace hearth {

/// The plans of a group and of the one before it; null where there is none.
struct GroupPlans {
  const PlanStore::Plan* own = nullptr;
  const PlanStore::Plan* before = nullptr;

  [[nodiscard]] GroupKernels kernels() const noexcept {
    return {.own = own != nullptr ? own->expression.get() : nullptr,
            .before = before != nullptr ? before->expression.get() : nullptr};
  }
};

class GroupRecall final {
 public:
  /// Lifetime: all of these outlive it.
  GroupRecall(HandleTable& handles, Dispatch& dispatch) noexcept
      : handles_(handles), dispatch_(dispatch) {}

  /// Fills the group that begins at the lane's front, and with it `before`, if one stood before its
  /// anchor, and returns its plans; null, with the group cleared or spoilt: it has to be gathered.
  [[nodiscard]] const GroupPlans* recall(const LaneState& lane,
                                         FusedGroup& group,
                                         FusedGroup& before);
  /// Remembers a group that was gathered from the first `records` of the lane; `is_cut`: more would
  /// have been looked at, had there been more. Without host memory it remembers nothing.
  void learn(const LaneState& lane,
             const FusedGroup& group,
             std::uint64_t records,
             bool is_cut,
             const GroupPlans& plans) noexcept;
  /// The plans go.
  void forget() noexcept { known_ = {}; }
  /// What was recalled or learnt last does not run.
  void forget_last() noexcept { known_[last_].reset(); }

 private:
  static constexpr std::size_t kEntries = 256;

  /// An operand of a record that is compared with others.
  struct Seen {
    std::uint64_t traits = 0;  ///< Shape, type and use.
    /// The number of its tensor, in the order of their coming, and at its first coming these.
    std::uint32_t tensor = 0;
  };
  static constexpr std::uint32_t kFirst = 1U << 29U;
  static constexpr std::uint32_t kReady = 1U << 30U;     ///< It is there,
  static constexpr std::uint32_t kStraight = 1U << 31U;  ///< and lies in row-major order.
  struct Record {
    std::uint64_t header = 0;  ///< Kind, flags and counts.
    std::uint32_t blob_size_bytes = 0;
    bool is_formed_by_attributes = false;
    bool is_done = false;  ///< A view that was made before its turn.
    std::array<std::byte, sizeof(OpRecord::immediate)> immediate{};
    std::array<Seen, kInlineOperands> operands{};
  };
  /// An operand of a record.
  struct Place {
    std::uint64_t ahead = 0;
    int operand = 0;
  };
  struct Known {
    std::uint64_t key = 0;
    std::vector<Record> records;
    FusedGroup group;
    FusedGroup before;
    std::vector<Place> inputs;  ///< Of group.inputs, where each is read first,
    std::vector<Place> inputs_before;
    std::vector<Place> ends;   ///< and of group.ends
    std::vector<Place> drops;  ///< and of group.drops.
    GroupPlans plans;
    bool is_cut = false;
  };

  [[nodiscard]] static std::uint64_t key_of(Lane& lane) noexcept;
  /// That of a group that was cut: where it comes again, as many records are left of its window.
  [[nodiscard]] static std::uint64_t key_of_cut(std::uint64_t key, const LaneState& lane) noexcept;
  [[nodiscard]] const Known* find(std::uint64_t key, const LaneState& lane);
  [[nodiscard]] static std::uint64_t header_of(const OpRecord& record) noexcept;
  /// What there is to know of an operand; a tensor's number is given at its first coming.
  [[nodiscard]] Seen look_at(const Operand& operand);
  /// Whether the record is done and has left all that it made where others find it.
  [[nodiscard]] bool is_shown(const OpRecord& record) const;
  void begin_look() noexcept;
  [[nodiscard]] bool is_same(const Record& known, const OpRecord& record);
  [[nodiscard]] bool are_same(const Known& known, const LaneState& lane);
  void fill(const Known& known, const LaneState& lane, FusedGroup& group);
  /// Its ops and what they read.
  void fill_ops(const Known& known,
                const FusedGroup& from,
                std::span<const Place> inputs,
                const LaneState& lane,
                FusedGroup& to);
  [[nodiscard]] bool note(const LaneState& lane, std::uint64_t count, Known& known);
  [[nodiscard]] static bool find_place(const LaneState& lane,
                                       std::uint64_t ahead,
                                       SlotId slot,
                                       Place& place);
  [[nodiscard]] static bool find_inputs(const LaneState& lane,
                                        const FusedGroup& group,
                                        std::vector<Place>& places);
  [[nodiscard]] static bool find_places(const LaneState& lane,
                                        const FusedGroup& group,
                                        Known& known);

  HandleTable& handles_;
  Dispatch& dispatch_;
  std::array<std::unique_ptr<Known>, kEntries> known_;
  std::size_t last_ = 0;        // of the entries
  std::uint64_t looks_ = 0;     // counts them
  std::vector<Slot*> tensors_;  // of this look
};

}  // namespace hearth
