// RecordedPass: one forward pass as the ops that its results need, from an op trace. Values have
// numbers that are equal in two passes of the same ops, whatever else the device did meanwhile.
// A value, const once made. Threads: any.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/trace/op_trace.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace hearth::onnx {

/// Number of a value of a pass, from 0 in the order of creation.
using ValueNumber = std::size_t;

/// An op that computes a needed value.
struct PassStep {
  const TraceOp* op = nullptr;
  std::vector<ValueNumber> inputs = {};
  /// One for each output of the op; empty for an output that nothing needs.
  std::vector<std::optional<ValueNumber>> outputs = {};
};

struct PassValue {
  Operand operand;
  std::optional<std::size_t> step = {};  ///< Its producer; empty for a tensor made outside.
  std::uint32_t data = 0;                ///< Its bytes, as TraceOp::data.
};

struct RecordedPass {
  OpTrace trace;
  std::vector<PassStep> steps = {};
  std::vector<PassValue> values = {};
  std::vector<std::optional<ValueNumber>> inputs = {};   ///< Empty: no result needs it.
  std::vector<std::optional<ValueNumber>> weights = {};  ///< Empty: no result needs it.
  std::vector<ValueNumber> results = {};
  bool reads_values = false;  ///< The host read a value that depends on an input.

  [[nodiscard]] const Shape& shape(ValueNumber value) const {
    return trace.shape(values[value].operand);
  }
  /// Returns the bytes of a value made outside, if they were recorded.
  [[nodiscard]] std::optional<std::span<const std::byte>> bytes(ValueNumber value) const;
};

/// Runs `forward` once and records it on the device of its tensors.
///
/// Errors: those of `forward`; ArgumentError if the runtime is being recorded already, or a result
/// lies on another device.
[[nodiscard]] RecordedPass record_pass(
    const Device& device,
    RecordedBytes bytes,
    std::span<const Tensor> inputs,
    std::span<const Tensor> weights,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& forward,
    SourceLoc loc);

}  // namespace hearth::onnx
