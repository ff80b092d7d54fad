// A run of elementwise ops at a lane's front that may become one kernel: what it reads, makes and
// ends, and its form, by which a plan is found. Private to runtime. Reused from group to group;
// touched by the token holder only. Invariants: (1) it points into the lane's ring, so that it ends
// with the turn; (2) its form holds no number that is computed with, and no tensor, size or place
// in the stream: the same lines of a program have the same form at each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hearth/streams/kernel/group_kernel.hpp>

#include "handle_table.hpp"
#include "lane_state.hpp"

namespace hearth {

struct FusedGroup {
  /// A tensor that is there before the group runs.
  struct Input {
    Operand operand;
    Slot* slot = nullptr;
    bool is_last = false;  ///< It goes with the group.
  };
  struct Made {
    OpView op;
    Operand operand;
    std::uint32_t needs = 0;  ///< Bit i: it is made of input i.
    std::uint8_t first_source = 0;
    std::uint8_t source_count = 0;
    bool is_over = false;  ///< Nobody outside of the group needs it: it never reaches memory.
    bool is_dropped_later = false;  ///< Its drop comes behind the group.
    bool is_needed = false;         ///< By an op behind the group.
  };

  std::vector<Input> inputs;
  std::vector<Made> made;
  std::vector<GroupSource> sources;
  std::vector<SlotId> drops;  ///< Of tensors that the group does not read.
  std::vector<std::uint64_t> form;
  std::uint64_t records = 0;  ///< How many it takes from the lane.
  std::size_t parameters = 0;
  std::uint64_t foreign_uses = 0;

  void clear() noexcept {
    inputs.clear();
    made.clear();
    sources.clear();
    drops.clear();
    form.clear();
    records = 0;
    parameters = 0;
    foreign_uses = 0;
  }
  [[nodiscard]] std::size_t output_count() const noexcept {
    std::size_t count = 0;
    for (const Made& each : made) {
      count += each.is_over ? 0U : 1U;
    }
    return count;
  }
};

}  // namespace hearth
