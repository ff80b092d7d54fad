// Whether a group may run before the records that it leaves alone: an independent model, which
// plays the window record by record, once as the program says and once with the group first, and
// compares what each record finds and what is there at the end. Knows no memory and no values, only
// lifetimes. For asserts and property tests: slow, and it allocates. Private to runtime. Borrows
// what it is given. Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/streams/op_record.hpp>

#include "fused_group.hpp"

namespace hearth {

class GroupLegality final {
 public:
  /// What a slot holds before the window's first record.
  struct AtStart {
    std::uint32_t generation = 0;
    bool is_live = false;
    bool is_poisoned = false;
    bool is_pending = false;  ///< An op of `home` will make the next tensor there.
    LaneId home = {};
  };
  struct Record {
    OpView op;
    bool is_done = false;  ///< Taken by a group before.
  };
  /// What a record that is done still ends at its turn.
  struct Late {
    std::uint64_t ahead = 0;
    Operand operand;
  };

  GroupLegality(LaneId lane,
                std::span<const Record> records,
                std::span<const Late> late,
                std::function<AtStart(SlotId)> at_start)
      : lane_(lane), records_(records), late_(late), at_start_(std::move(at_start)) {}

  /// What is wrong with the window as its program wrote it: of a real one, nothing. Names the
  /// record and the rule; empty: nothing.
  [[nodiscard]] std::string breach_of_window() const;
  /// What would be wrong if the group ran first. Empty: nothing, or the window itself is broken.
  [[nodiscard]] std::string breach_of(const FusedGroup& group) const;

 private:
  class Tensors;
  class Check;

  void play_singly(Tensors& tensors) const;
  void end_late(Tensors& tensors, std::uint64_t ahead) const;

  LaneId lane_;
  std::span<const Record> records_;
  std::span<const Late> late_;
  std::function<AtStart(SlotId)> at_start_;
};

}  // namespace hearth
