#include "elements.hpp"
#include "evaluators.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <fmt/format.h>

#include <cstdint>

namespace hearth::reference {
namespace {

void where(const KernelCall& call) {
  const Shape& shape = call.outputs[0].shape();
  const Integers condition = load_integers(call.inputs[0], shape);
  Bits out = load_bits(call.inputs[1], shape);
  const Bits other = load_bits(call.inputs[2], shape);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = condition[i] != 0 ? out[i] : other[i];
  }
  store_bits(call.outputs[0], out);
}

void concat(const KernelCall& call) {
  const TensorView& result = call.outputs[0];
  const auto axis = static_cast<std::size_t>(call.op.attributes<AxisAttributes>().axis);
  const Strides strides = contiguous_strides(result.shape());
  Bits out = filled(result.shape(), std::uint64_t{0});
  std::int64_t first = 0;
  for (const TensorView& input : call.inputs) {
    const Bits values = load_bits(input);
    std::size_t next = 0;
    visit_offsets(input.shape(), strides, [&](std::int64_t offset) {
      at(out, first * strides[axis] + offset) = values[next++];
    });
    first += input.shape()[static_cast<int>(axis)];
  }
  store_bits(result, out);
}

Status slice_scatter(const KernelCall& call) {
  const TensorView& grad = call.inputs[0];
  const TensorView& result = call.outputs[0];
  const auto slice = call.op.attributes<SliceAttributes>();
  const Strides full = contiguous_strides(result.shape());
  Strides strides{};
  std::int64_t first = 0;
  for (int axis = 0; axis < grad.shape().rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t last = slice.start[i] + (grad.shape()[axis] - 1) * slice.step[i];
    for (const std::int64_t index : {slice.start[i], last}) {
      if (grad.element_count() != 0 && (index < 0 || index >= result.shape()[axis])) {
        return Error{.code = ErrorCode::out_of_range,
                     .text = fmt::format("slice_scatter: index {} of axis {} is outside {}",
                                         index,
                                         axis,
                                         result.shape().to_string()),
                     .op = "slice_scatter"};
      }
    }
    first += slice.start[i] * full[i];
    strides[i] = slice.step[i] * full[i];
  }
  const Bits values = load_bits(grad);
  Bits out = filled(result.shape(), std::uint64_t{0});
  std::size_t next = 0;
  visit_offsets(grad.shape(), strides, [&](std::int64_t offset) {
    at(out, first + offset) = values[next++];
  });
  store_bits(result, out);
  return {};
}

}  // namespace

Status evaluate_movement(const KernelCall& call) {
  switch (call.op.kind()) {
    case OpKind::where:
      where(call);
      return {};
    case OpKind::concat:
      concat(call);
      return {};
    case OpKind::slice_scatter:
      return slice_scatter(call);
    default:
      store_bits(call.outputs[0], load_bits(call.inputs[0]));
      return {};
  }
}

}  // namespace hearth::reference
