#include "indexing.hpp"

#include "backends/cpu/machine/collapse.hpp"

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kIndexGrain = std::int64_t{1} << 17;  // indices worth a fork

bool is_pick(OpKind kind) noexcept {
  return kind == OpKind::gather || kind == OpKind::index_select;
}

// Negative indices are large as unsigned numbers. Without an early exit, so that the loop
// vectorises.
template <class T>
bool has_outside(const T* index, std::int64_t step, std::int64_t count, std::uint64_t size) {
  std::uint64_t bad = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<std::uint64_t>(static_cast<std::int64_t>(index[i * step]));
    bad |= value >= size ? 1U : 0U;
  }
  return bad != 0;
}

template <class T>
bool has_outside(const Collapsed& space,
                 const TensorView& index,
                 std::uint64_t size,
                 std::int64_t begin,
                 std::int64_t end) {
  const std::int64_t inner = space.inner_size();
  const std::int64_t step = space.inner_stride(0);
  Place place(space, begin / inner);
  std::int64_t column = begin % inner;
  while (begin < end) {
    const std::int64_t count = std::min(inner - column, end - begin);
    if (has_outside(index.as<const T>() + place.offset[0] + column * step, step, count, size)) {
      return true;
    }
    begin += count;
    column = 0;
    place.advance();
  }
  return false;
}

std::int64_t index_at(const TensorView& index, std::int64_t offset) noexcept {
  return index.dtype == DType::i64 ? index.as<const std::int64_t>()[offset]
                                   : index.as<const std::int32_t>()[offset];
}

// Returns the error of the first index outside the axis. Requires that one exists.
Error outside(const KernelCall& call, const Indexing& op) {
  const Shape& shape = op.index.shape();
  const std::string_view kind = name(call.op.kind());
  Error error{.code = ErrorCode::out_of_range, .text = {}, .op = std::string(kind)};
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    std::string place;
    std::int64_t offset = 0;
    std::int64_t rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * op.index.strides()[static_cast<std::size_t>(axis)];
      rest /= shape[axis];
    }
    const std::int64_t value = index_at(op.index, offset);
    if (value >= 0 && value < op.axis_size()) {
      continue;
    }
    rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      place = fmt::format("{}{}{}", rest % shape[axis], place.empty() ? "" : ", ", place);
      rest /= shape[axis];
    }
    error.text = fmt::format("{}: index {} at [{}] is outside axis {} of size {}",
                             kind,
                             value,
                             place,
                             op.axis,
                             op.axis_size());
    break;
  }
  return error;
}

}  // namespace

Indexing::Indexing(const KernelCall& call) noexcept
    : whole(is_pick(call.op.kind()) ? call.inputs[0] : call.outputs[0]),
      part(is_pick(call.op.kind())             ? call.outputs[0]
           : call.op.kind() == OpKind::scatter ? call.inputs[2]
                                               : call.inputs[0]),
      index(call.inputs[1]),
      axis(call.op.kind() == OpKind::scatter ? call.op.attributes<ScatterAttributes>().axis
                                             : call.op.attributes<AxisAttributes>().axis),
      is_line(call.op.kind() == OpKind::index_select || call.op.kind() == OpKind::index_add) {}

Strides Indexing::index_strides() const noexcept {
  if (!is_line) {
    return index.strides();
  }
  Strides strides{};
  strides[static_cast<std::size_t>(axis)] = index.strides()[0];
  return strides;
}

Status check_index(const KernelCall& call, const Indexing& op, KernelContext& context) {
  Shape shape = op.index.shape();
  if (shape.element_count() == 0) {
    return {};
  }
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (op.index.strides()[static_cast<std::size_t>(axis)] == 0) {
      shape.set(axis, 1);  // repeated indices are checked once
    }
  }
  const Strides strides[] = {op.index.strides()};
  const Collapsed space(shape, strides);
  const auto size = static_cast<std::uint64_t>(op.axis_size());
  std::atomic<bool> is_bad = false;
  context.arena.parallel_for(
      shape.element_count(), kIndexGrain, [&](std::int64_t begin, std::int64_t end) {
        const bool is_wide = op.index.dtype == DType::i64;
        if (is_wide ? has_outside<std::int64_t>(space, op.index, size, begin, end)
                    : has_outside<std::int32_t>(space, op.index, size, begin, end)) {
          is_bad.store(true, std::memory_order_release);  // pairs with the load after the join
        }
      });
  return is_bad.load(std::memory_order_acquire) ? Status(outside(call, op)) : Status();
}

std::span<const KernelRow> indexing_rows() noexcept {
  static constexpr KernelRow kRows[] = {
      {.kind = OpKind::gather, .run = run_pick, .supports = nullptr, .takes_epilogue = true},
      {.kind = OpKind::index_select, .run = run_pick, .supports = nullptr, .takes_epilogue = true},
      {OpKind::scatter_add, run_add_at, nullptr, 0},
      {OpKind::index_add, run_add_at, nullptr, 0},
      {OpKind::scatter, run_scatter, nullptr, 1},
  };
  return kRows;
}

}  // namespace hearth::cpu
