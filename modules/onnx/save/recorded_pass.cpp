#include "recorded_pass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <hearth/runtime/base/error.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::onnx {
namespace {

using Slots = std::unordered_set<std::uint32_t>;

bool makes_values(const TraceOp& op) {
  return op.record.kind == OpKind::upload || op_info(op.record.kind).op_class != OpClass::lifetime;
}

bool has_any(const TraceOp& op, int begin, int end, const Slots& slots) {
  for (int i = begin; i < end; ++i) {
    if (slots.contains(op.view().operand(i).slot.value)) {
      return true;
    }
  }
  return false;
}

// Slots of all values that the wanted ones need, found from the last op to the first.
Slots needed_slots(const OpTrace& trace, std::span<const std::uint32_t> wanted) {
  Slots needed(wanted.begin(), wanted.end());
  for (auto op = trace.ops.rbegin(); op != trace.ops.rend(); ++op) {
    const int inputs = op->record.input_count;
    if (makes_values(*op) && has_any(*op, inputs, op->record.operand_count(), needed)) {
      for (int i = 0; i < inputs; ++i) {
        needed.insert(op->view().input(i).slot.value);
      }
    }
  }
  return needed;
}

// Whether the host reads a value that depends on an input.
bool reads_inputs(const OpTrace& trace, std::span<const std::uint32_t> inputs) {
  Slots dependent(inputs.begin(), inputs.end());
  for (const TraceOp& op : trace.ops) {
    const int count = op.record.input_count;
    const bool depends = has_any(op, 0, count, dependent);
    if (depends && (op.record.kind == OpKind::readback || op.record.kind == OpKind::lend)) {
      return true;
    }
    for (int i = count; depends && i < op.record.operand_count(); ++i) {
      dependent.insert(op.view().operand(i).slot.value);
    }
  }
  return false;
}

// Numbers the needed values in the order in which they were made.
class PassNumbers final {
 public:
  explicit PassNumbers(RecordedPass& pass, const Slots& needed) : pass_(pass), needed_(needed) {}

  void add(const TraceOp& op) {
    const OpView view = op.view();
    if (!makes_values(op) ||
        !has_any(op, op.record.input_count, op.record.operand_count(), needed_)) {
      return;
    }
    const bool is_outside = op.record.kind == OpKind::upload;
    PassStep step{.op = &op};
    for (int i = 0; i < op.record.input_count; ++i) {
      step.inputs.push_back(input(view.input(i)));
    }
    for (int i = 0; i < op.record.output_count; ++i) {
      const Operand output = view.output(i);
      step.outputs.emplace_back();
      if (needed_.contains(output.slot.value)) {
        step.outputs.back() = pass_.values.size();
        numbers_.emplace(output.slot.value, pass_.values.size());
        pass_.values.push_back(
            {.operand = output,
             .step = is_outside ? std::nullopt : std::optional(pass_.steps.size()),
             .data = is_outside ? op.data : 0});
      }
    }
    if (!is_outside) {
      pass_.steps.push_back(std::move(step));
    }
  }

  [[nodiscard]] std::optional<ValueNumber> of(std::uint32_t slot) const {
    const auto found = numbers_.find(slot);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  // The device's memory may also be written by a client that borrowed it: such a value has no
  // producer here.
  [[nodiscard]] ValueNumber input(const Operand& operand) {
    const auto [number, is_new] = numbers_.emplace(operand.slot.value, pass_.values.size());
    if (is_new) {
      pass_.values.push_back({.operand = operand});
    }
    return number->second;
  }

  RecordedPass& pass_;
  const Slots& needed_;
  std::unordered_map<std::uint32_t, ValueNumber> numbers_;
};

std::vector<std::uint32_t> slots_of(const RecordScope& recording, std::span<const Tensor> tensors) {
  std::vector<std::uint32_t> slots;
  for (const Tensor& tensor : tensors) {
    slots.push_back(recording.value_of(tensor).value());
  }
  return slots;
}

}  // namespace

std::optional<std::span<const std::byte>> RecordedPass::bytes(ValueNumber value) const {
  const std::uint32_t data = values[value].data;
  if (data == 0 && shape(value).element_count() == 0) {
    return std::span<const std::byte>();
  }
  return data == 0 ? std::nullopt : std::optional(std::span(std::as_const(trace.data[data - 1])));
}

// Phases: run; find the tensors' numbers while they live; keep what the results need.
RecordedPass record_pass(const Device& device,
                         RecordedBytes bytes,
                         std::span<const Tensor> inputs,
                         std::span<const Tensor> weights,
                         const std::function<std::vector<Tensor>(std::span<const Tensor>)>& forward,
                         SourceLoc loc) {
  RecordScope recording(device,
                        {.bytes = bytes, .limit_bytes = std::numeric_limits<std::int64_t>::max()});
  const std::vector<Tensor> results = forward(inputs);
  const std::vector<std::uint32_t> result_slots = slots_of(recording, results);
  const std::vector<std::uint32_t> input_slots = slots_of(recording, inputs);
  const std::vector<std::uint32_t> weight_slots = slots_of(recording, weights);
  RecordedPass pass{.trace = recording.take().value()};
  if (const auto ended = pass.trace.notes.find("ended early"); ended != pass.trace.notes.end()) {
    throw_error(Error{.code = ErrorCode::out_of_memory,
                      .text = "save_onnx: the recording ended early " + ended->second,
                      .op = "save_onnx",
                      .location = loc});
  }
  pass.reads_values = reads_inputs(pass.trace, input_slots);
  const Slots needed = needed_slots(pass.trace, result_slots);
  PassNumbers numbers(pass, needed);
  for (const TraceOp& op : pass.trace.ops) {
    numbers.add(op);
  }
  const auto number = [&](std::uint32_t slot) { return numbers.of(slot); };
  std::ranges::transform(input_slots, std::back_inserter(pass.inputs), number);
  std::ranges::transform(weight_slots, std::back_inserter(pass.weights), number);
  for (const std::uint32_t slot : result_slots) {
    pass.results.push_back(*numbers.of(slot));  // value_of() entered each
  }
  return pass;
}

}  // namespace hearth::onnx
