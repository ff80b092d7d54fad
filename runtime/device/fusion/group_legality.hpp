// GroupLegality checks whether a group may run before the records that it bypasses. It is an
// independent model: it plays the window record by record, once in program order and once with the
// group first. It compares what each record finds and what exists at the end.
// The model knows only lifetimes, no memory and no values. For asserts and property tests: slow,
// allocates. Private to runtime. Borrows its arguments. Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/streams/op_record.hpp>

#include "runtime/device/dispatch/fused_group.hpp"

namespace hearth {

class GroupLegality final {
 public:
  /// State of a slot before the window's first record.
  struct AtStart {
    std::uint32_t generation = 0;
    bool is_live = false;
    bool is_poisoned = false;
    bool is_pending = false;  ///< An op of `home` will create the slot's next tensor.
    LaneId home = {};
  };
  struct Record {
    OpView op;
    bool is_done = false;  ///< An earlier group ran it.
  };
  /// A tensor that a completed record still ends at its turn.
  struct Late {
    std::uint64_t ahead = 0;
    Operand operand;
  };

  GroupLegality(LaneId lane,
                std::span<const Record> records,
                std::span<const Late> late,
                std::function<AtStart(SlotId)> at_start)
      : lane_(lane), records_(records), late_(late), at_start_(std::move(at_start)) {}

  /// Describes a breach of the window in program order, with record and rule. Empty for every real
  /// window.
  [[nodiscard]] std::string breach_of_window() const;
  /// Describes a breach if the group ran first. Empty if there is none, or if the window itself is
  /// broken.
  [[nodiscard]] std::string breach_of(const FusedGroup& group) const;

 private:
  class Tensors;
  class Check;

  void simulate_singly(Tensors& tensors) const;
  void end_late(Tensors& tensors, std::uint64_t ahead) const;

  LaneId lane_;
  std::span<const Record> records_;
  std::span<const Late> late_;
  std::function<AtStart(SlotId)> at_start_;
};

}  // namespace hearth
