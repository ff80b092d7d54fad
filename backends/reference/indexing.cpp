#include "elements.hpp"
#include "evaluators.hpp"

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::reference {
namespace {

bool is_line(OpKind kind) {
  return kind == OpKind::index_select || kind == OpKind::index_add;
}

// Formats the place of the i-th element in row-major order: "[0, 2]".
std::string place_text(const Shape& shape, std::int64_t i) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text = fmt::format("{}{}{}", i % shape[axis], text.empty() ? "" : ", ", text);
    i /= shape[axis];
  }
  return "[" + text + "]";
}

int axis_of(const KernelCall& call) {
  return call.op.kind() == OpKind::scatter ? call.op.attributes<ScatterAttributes>().axis
                                           : call.op.attributes<AxisAttributes>().axis;
}

Status check_index(const KernelCall& call, const Integers& index, const Shape& whole) {
  const int axis = axis_of(call);
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= whole[axis]) {
      const std::string_view op = name(call.op.kind());
      return Error{
          .code = ErrorCode::out_of_range,
          .text = fmt::format("{}: index {} at {} is outside axis {} of size {}",
                              op,
                              index[i],
                              place_text(call.inputs[1].shape(), static_cast<std::int64_t>(i)),
                              axis,
                              whole[axis]),
          .op = std::string(op)};
    }
  }
  return {};
}

// Returns the place in `whole` of each element of `part`, in the part's row-major order.
std::vector<std::int64_t> places(const KernelCall& call,
                                 const Integers& index,
                                 const Shape& whole,
                                 const Shape& part) {
  const auto axis = static_cast<std::size_t>(axis_of(call));
  Strides index_strides = contiguous_strides(part);
  if (is_line(call.op.kind())) {
    index_strides = {};
    index_strides[axis] = 1;
  }
  Strides others = contiguous_strides(whole);
  const std::int64_t step = others[axis];
  others[axis] = 0;
  std::vector<std::int64_t> places;
  visit_offsets(part, others, [&](std::int64_t offset) { places.push_back(offset); });
  std::size_t next = 0;
  visit_offsets(part, index_strides, [&](std::int64_t offset) {
    places[next++] += at(index, offset) * step;
  });
  return places;
}

template <class T>
void sum_at(const KernelCall& call, const std::vector<std::int64_t>& places) {
  const auto source = load<T>(call.inputs[0]);
  auto sums = filled(call.outputs[0].shape(), T{0});
  for (std::size_t i = 0; i < places.size(); ++i) {
    at(sums, places[i]) = plus(at(sums, places[i]), source[i]);
  }
  store(call.outputs[0], sums);
}

template <class T>
T joined(ScatterMode mode, T value, T update) {
  switch (mode) {
    case ScatterMode::add:
      return plus(value, update);
    case ScatterMode::mul:
      return times(value, update);
    case ScatterMode::min:
      return update < value || update != update ? update : value;
    case ScatterMode::max:
      return update > value || update != update ? update : value;
    default:
      return update;
  }
}

template <class T>
void join_at(const KernelCall& call, ScatterMode mode, const std::vector<std::int64_t>& places) {
  auto values = load<T>(call.inputs[0]);
  const auto updates = load<T>(call.inputs[2]);
  for (std::size_t i = 0; i < places.size(); ++i) {
    at(values, places[i]) = joined(mode, at(values, places[i]), updates[i]);
  }
  store(call.outputs[0], values);
}

void set_at(const KernelCall& call, const std::vector<std::int64_t>& places) {
  Bits values = load_bits(call.inputs[0]);
  const Bits updates = load_bits(call.inputs[2]);
  for (std::size_t i = 0; i < places.size(); ++i) {
    at(values, places[i]) = updates[i];
  }
  store_bits(call.outputs[0], values);
}

}  // namespace

Status evaluate_scatter(const KernelCall& call) {
  const TensorView& whole = call.inputs[0];
  const Integers index = load_integers(call.inputs[1]);
  HEARTH_TRY_STATUS(check_index(call, index, whole.shape()));
  const std::vector<std::int64_t> to = places(call, index, whole.shape(), call.inputs[2].shape());
  const ScatterMode mode = call.op.attributes<ScatterAttributes>().mode;
  if (mode == ScatterMode::set) {
    set_at(call, to);
  } else if (is_float(whole.dtype)) {
    join_at<double>(call, mode, to);
  } else {
    join_at<std::int64_t>(call, mode, to);
  }
  return {};
}

Status evaluate_indexing(const KernelCall& call) {
  const bool is_pick = call.op.kind() == OpKind::gather || call.op.kind() == OpKind::index_select;
  const TensorView& whole = is_pick ? call.inputs[0] : call.outputs[0];
  const TensorView& part = is_pick ? call.outputs[0] : call.inputs[0];
  const Integers index = load_integers(call.inputs[1]);
  HEARTH_TRY_STATUS(check_index(call, index, whole.shape()));
  const std::vector<std::int64_t> from = places(call, index, whole.shape(), part.shape());
  if (is_pick) {
    const Bits values = load_bits(whole);
    Bits out;
    for (const std::int64_t place : from) {
      out.push_back(at(values, place));
    }
    store_bits(part, out);
  } else if (is_float(whole.dtype)) {
    sum_at<double>(call, from);
  } else {
    sum_at<std::int64_t>(call, from);
  }
  return {};
}

}  // namespace hearth::reference
