// A call of the program as a value: all facts that a trial needs to make a like call on memory of
// its own. Private to runtime. Values. Threads: any.
#pragma once

#include <hearth/autotune/tune_entry.hpp>
#include <hearth/backends/kernel.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

/// An operand without its bytes.
struct WantedOperand {
  detail::Layout layout;
  DType dtype = DType::f32;
};

struct WantedCall {
  detail::TuneKey key = {};
  OpRecord record = {};
  std::vector<std::byte> blob = {};  ///< Attributes that the record has no room for.
  std::vector<WantedOperand> inputs = {};
  std::vector<WantedOperand> outputs = {};
};

/// A wanted call with operands at the start of cache lines, as a trial has them, but without bytes:
/// for its key and its candidates. The wanted call outlives it.
class CallWithoutBytes final {
 public:
  explicit CallWithoutBytes(const WantedCall& wanted) : wanted_(wanted) {
    for (const auto* const operands : {&wanted.inputs, &wanted.outputs}) {
      for (const WantedOperand& each : *operands) {
        views_.push_back({.layout = &each.layout, .dtype = each.dtype});
      }
    }
  }
  [[nodiscard]] KernelCall call() const noexcept {
    const std::span all(views_);
    return {.op = OpView(wanted_.record, wanted_.blob.data()),
            .inputs = all.first(wanted_.inputs.size()),
            .outputs = all.subspan(wanted_.inputs.size())};
  }

 private:
  const WantedCall& wanted_;
  std::vector<TensorView> views_;
};

/// The calls of a device that have no settled entry, the earliest first.
struct WantedCalls {
  std::vector<WantedCall> calls;
};

/// Results of trials, for the picks of a device.
struct TunedEntries {
  std::vector<detail::TuneEntry> entries;
};

}  // namespace hearth
