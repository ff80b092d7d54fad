// GroupRecall remembers groups by the records that they were gathered from. When the same records
// recur, it fills the group in as gathering would, and its plan needs no search. Private to
// runtime. Owned by the device actor, touched by the token holder only.
// Invariants: (1) a recalled group equals the one that GroupGather would gather. Every fact that
// gathering depends on is compared; of tensors, only which operands are the same tensor; (2)
// remembered plans are valid until forget(), which runs before plans are evicted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan_store.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/dispatch/fused_group.hpp"
#include "runtime/device/dispatch/group_call.hpp"
#include "runtime/device/dispatch/lane_state.hpp"
#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

/// Plans of a group and of the group before it; null if absent.
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
  /// Lifetime: all arguments outlive this object.
  GroupRecall(HandleTable& handles, Dispatch& dispatch) noexcept
      : handles_(handles), dispatch_(dispatch) {}

  /// Fills the group at the lane's front, and `before` if it had a group before its anchor. Returns
  /// its plans, or null if the group must be gathered; the groups are then cleared or spoilt.
  [[nodiscard]] const GroupPlans* recall(const LaneState& lane,
                                         FusedGroup& group,
                                         FusedGroup& before);
  /// Remembers a group that was gathered from the first `records` of the lane. `is_cut`: the
  /// gathering would have inspected more records. Remembers nothing if host memory is short.
  void learn(const LaneState& lane,
             const FusedGroup& group,
             std::uint64_t records,
             bool is_cut,
             const GroupPlans& plans) noexcept;
  /// Forgets all groups, before plans are evicted.
  void forget() noexcept { known_ = {}; }
  /// Forgets the group that was recalled or learnt last, because it cannot run.
  void forget_last() noexcept { known_[last_].reset(); }

 private:
  static constexpr std::size_t kEntries = 256;

  /// Facts of one operand, for comparison.
  struct Seen {
    std::uint64_t traits = 0;  ///< Shape, type and use.
    /// Number of its tensor in order of first appearance, and at that appearance these flags.
    std::uint32_t tensor = 0;
  };
  static constexpr std::uint32_t kFirst = 1U << 29U;
  static constexpr std::uint32_t kReady = 1U << 30U;     ///< The tensor exists.
  static constexpr std::uint32_t kStraight = 1U << 31U;  ///< The tensor is in row-major order.
  struct Record {
    std::uint64_t header = 0;  ///< Kind, flags and counts.
    std::uint32_t blob_size_bytes = 0;
    bool is_formed_by_attributes = false;
    bool is_done = false;  ///< A view that was created before its turn.
    std::array<std::byte, sizeof(OpRecord::immediate)> immediate{};
    std::array<Seen, kInlineOperands> operands{};
  };
  /// Position of an operand: record and index.
  struct Place {
    std::uint64_t ahead = 0;
    int operand = 0;
  };
  struct Known {
    std::uint64_t key = 0;
    std::vector<Record> records;
    FusedGroup group;
    FusedGroup before;
    std::vector<Place> inputs;  ///< First read of each of group.inputs,
    std::vector<Place> inputs_before;
    std::vector<Place> ends;   ///< end of each of group.ends,
    std::vector<Place> drops;  ///< and of each of group.drops.
    GroupPlans plans;
    bool is_cut = false;
  };

  [[nodiscard]] static std::uint64_t key_of(Lane& lane) noexcept;
  /// Key of a group that the window's end cut: it includes the number of records left in the
  /// window.
  [[nodiscard]] static std::uint64_t key_of_cut(std::uint64_t key, const LaneState& lane) noexcept;
  [[nodiscard]] const Known* find(std::uint64_t key, const LaneState& lane);
  [[nodiscard]] static std::uint64_t header_of(const OpRecord& record) noexcept;
  /// Facts of an operand. A tensor gets its number at its first appearance.
  [[nodiscard]] Seen facts_of(const Operand& operand);
  /// Whether the record is done and other ops can find all its results.
  [[nodiscard]] bool is_visible(const OpRecord& record) const;
  void begin_pass() noexcept;
  [[nodiscard]] bool is_same(const Record& known, const OpRecord& record);
  [[nodiscard]] bool are_same(const Known& known, const LaneState& lane);
  void fill(const Known& known, const LaneState& lane, FusedGroup& group);
  /// Fills in the ops and their inputs.
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
  std::size_t last_ = 0;        // index of the entry recalled or learnt last
  std::uint64_t pass_ = 0;      // number of looks
  std::vector<Slot*> tensors_;  // of this look
};

}  // namespace hearth
