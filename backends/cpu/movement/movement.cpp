#include "backends/cpu/elementwise/elementwise.hpp"
#include "backends/cpu/elementwise/move_loops.hpp"
#include "backends/cpu/machine/collapse.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kMoveGrainBytes = std::int64_t{1} << 19;
constexpr std::int64_t kMoveTileRows = 64;
constexpr std::int64_t kMoveTileColumns = 64;

/// A copy between two strided boxes of one shape.
struct Move {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::int64_t size = 0;  ///< Bytes of an element.
  Collapsed space;        ///< Operand 0 is `to`, operand 1 `from`.
};

template <class T>
void copy_strided(std::byte* to_bytes,
                  std::int64_t to_step,
                  const std::byte* from_bytes,
                  std::int64_t from_step,
                  std::int64_t count) {
  auto* to = reinterpret_cast<T*>(to_bytes);
  const auto* from = reinterpret_cast<const T*>(from_bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    to[i * to_step] = from[i * from_step];
  }
}

void copy_row(const Move& move, const Place& place, std::int64_t begin, std::int64_t count) {
  const std::int64_t to_step = move.space.inner_stride(0);
  const std::int64_t from_step = move.space.inner_stride(1);
  std::byte* const to = move.to + (place.offset[0] + begin * to_step) * move.size;
  const std::byte* const from = move.from + (place.offset[1] + begin * from_step) * move.size;
  if (to_step == 1 && from_step == 1) {
    std::memmove(to, from, static_cast<std::size_t>(count * move.size));
    return;
  }
  switch (move.size) {
    case 1:
      copy_strided<std::uint8_t>(to, to_step, from, from_step, count);
      break;
    case 2:
      copy_strided<std::uint16_t>(to, to_step, from, from_step, count);
      break;
    case 4:
      copy_strided<std::uint32_t>(to, to_step, from, from_step, count);
      break;
    default:
      copy_strided<std::uint64_t>(to, to_step, from, from_step, count);
      break;
  }
}

// Copies two contiguous ranges.
void copy_all(const Move& move, std::int64_t element_count, KernelContext& context) {
  const std::int64_t bytes = element_count * move.size;
  const MoveLoops& loops = move_loops(context.isa);
  const bool streams = bytes >= MoveLoops::kStreamBytes;
  context.arena.parallel_for(bytes, 2 * kMoveGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    if (streams) {
      loops.stream(move.to + begin, move.from + begin, end - begin);
      loops.fence();
    } else {
      std::memmove(move.to + begin, move.from + begin, static_cast<std::size_t>(end - begin));
    }
  });
}

void copy_rows(const Move& move, std::int64_t element_count, KernelContext& context) {
  const std::int64_t inner = move.space.inner_size();
  const std::int64_t grain = std::max<std::int64_t>(1, kMoveGrainBytes / move.size);
  context.arena.parallel_for(element_count, grain, [&](std::int64_t begin, std::int64_t end) {
    Place place(move.space, begin / inner);
    std::int64_t column = begin % inner;
    while (begin < end) {
      const std::int64_t count = std::min(inner - column, end - begin);
      copy_row(move, place, column, count);
      begin += count;
      column = 0;
      place.advance();
    }
  });
}

// Moves an axis next to the innermost one.
void move_inward(Collapsed& space, int axis) {
  for (int i = axis; i < space.rank - 2; ++i) {
    const auto from = static_cast<std::size_t>(i);
    std::swap(space.size[from], space.size[from + 1]);
    for (std::size_t operand = 0; operand < space.operand_count; ++operand) {
      std::swap(space.stride[operand][from], space.stride[operand][from + 1]);
    }
  }
}

// Copies contiguous rows that are shorter than their own bookkeeping, many at a time, along the
// longest axis.
void copy_short_rows(Move move, std::int64_t element_count, KernelContext& context) {
  Collapsed& space = move.space;
  const auto longest = std::max_element(space.size.begin(), space.size.begin() + space.rank - 1);
  move_inward(space, static_cast<int>(longest - space.size.begin()));
  const auto second = static_cast<std::size_t>(space.rank) - 2;
  const std::int64_t height = space.size[second];
  const std::int64_t columns = space.inner_size();
  const GatherLoop gather = move_loops(context.isa).gathers[MoveLoops::size_index(move.size)];
  const std::int64_t grain = std::max<std::int64_t>(1, kMoveGrainBytes / (columns * move.size));
  context.arena.parallel_for(
      element_count / columns, grain, [&](std::int64_t begin, std::int64_t end) {
        while (begin < end) {
          const std::int64_t rows = std::min(end - begin, height - begin % height);
          const Place place(space, begin);
          gather(move.to + place.offset[0] * move.size,
                 space.stride[0][second],
                 move.from + place.offset[1] * move.size,
                 space.stride[1][second],
                 1,
                 rows,
                 columns);
          begin += rows;
        }
      });
}

// Copies a source that is contiguous along another axis than the target. Moves that axis next to
// the innermost one and copies square tiles, so that both sides use whole cache lines.
void copy_tiles(Move move, int axis, std::int64_t element_count, KernelContext& context) {
  Collapsed& space = move.space;
  const int second = space.rank - 2;
  move_inward(space, axis);
  const std::int64_t rows = space.size[static_cast<std::size_t>(second)];
  const std::int64_t columns = space.inner_size();
  const std::int64_t to_row = space.stride[0][static_cast<std::size_t>(second)];
  const std::int64_t from_row = space.stride[1][static_cast<std::size_t>(second)];
  const std::int64_t from_column = space.inner_stride(1);
  const std::int64_t bands = (rows + kMoveTileRows - 1) / kMoveTileRows;
  const std::int64_t planes = element_count / (rows * columns);
  const GatherLoop gather = move_loops(context.isa).gathers[MoveLoops::size_index(move.size)];
  const std::int64_t grain = std::max<std::int64_t>(
      1, kMoveGrainBytes / (std::min(rows, kMoveTileRows) * columns * move.size));
  context.arena.parallel_for(planes * bands, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t band = begin; band < end; ++band) {
      const std::int64_t first = band % bands * kMoveTileRows;
      const std::int64_t height = std::min(kMoveTileRows, rows - first);
      const Place place(space, band / bands * rows + first);
      for (std::int64_t column = 0; column < columns; column += kMoveTileColumns) {
        gather(move.to + (place.offset[0] + column) * move.size,
               to_row,
               move.from + (place.offset[1] + column * from_column) * move.size,
               from_row,
               from_column,
               height,
               std::min(kMoveTileColumns, columns - column));
      }
    }
  });
}

void copy_box(std::byte* to,
              const Strides& to_strides,
              const TensorView& from,
              const Shape& shape,
              KernelContext& context) {
  const std::int64_t count = shape.element_count();
  if (count == 0) {
    return;
  }
  const Strides strides[] = {to_strides, broadcast_strides(*from.layout, shape)};
  const Move move{.to = to,
                  .from = from.data,
                  .size = size_bytes(from.dtype),
                  .space = Collapsed(shape, strides)};
  if (move.space.rank == 1 && move.space.inner_stride(0) == 1 && move.space.inner_stride(1) == 1) {
    copy_all(move, count, context);
    return;
  }
  if (move.space.inner_stride(0) == 1 && move.space.inner_stride(1) != 1) {
    for (int axis = move.space.rank - 2; axis >= 0; --axis) {
      if (move.space.stride[1][static_cast<std::size_t>(axis)] == 1) {
        copy_tiles(move, axis, count, context);
        return;
      }
    }
  }
  constexpr std::int64_t kShortRowBytes = 512;
  if (move.space.rank > 1 && move.space.inner_stride(0) == 1 && move.space.inner_stride(1) == 1 &&
      move.space.inner_size() * move.size <= kShortRowBytes) {
    copy_short_rows(move, count, context);
    return;
  }
  copy_rows(move, count, context);
}

}  // namespace

Status run_copy(const KernelCall& call, KernelContext& context) {
  const TensorView& in = call.inputs[0];
  const TensorView& out = call.outputs[0];
  if (in.data == out.data) {
    return {};
  }
  copy_box(out.data, contiguous_strides(out.shape()), in, out.shape(), context);
  return {};
}

Status run_concat(const KernelCall& call, KernelContext& context) {
  const TensorView& out = call.outputs[0];
  const int axis = call.op.attributes<AxisAttributes>().axis;
  const Strides strides = contiguous_strides(out.shape());
  const std::int64_t step = strides[static_cast<std::size_t>(axis)] * size_bytes(out.dtype);
  std::byte* to = out.data;
  for (const TensorView& in : call.inputs) {
    copy_box(to, strides, in, in.shape(), context);
    to += in.shape()[axis] * step;
  }
  return {};
}

Status run_slice_scatter(const KernelCall& call, KernelContext& context) {
  const TensorView& grad = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const auto slice = call.op.attributes<SliceAttributes>();
  const Strides full = contiguous_strides(out.shape());
  const std::int64_t size = size_bytes(out.dtype);
  Strides strides{};
  std::int64_t first = 0;
  for (int axis = 0; axis < grad.shape().rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t last = slice.start[i] + (grad.shape()[axis] - 1) * slice.step[i];
    const std::int64_t bound = out.shape()[axis];
    if (grad.element_count() != 0 &&
        (slice.start[i] < 0 || slice.start[i] >= bound || last < 0 || last >= bound)) {
      return Error{.code = ErrorCode::out_of_range,
                   .text = fmt::format("slice_scatter: indices {} to {} of axis {} are outside {}",
                                       slice.start[i],
                                       last,
                                       axis,
                                       out.shape().to_string()),
                   .op = "slice_scatter"};
    }
    first += slice.start[i] * full[i];
    strides[i] = slice.step[i] * full[i];
  }
  const std::int64_t bytes = out.element_count() * size;
  context.arena.parallel_for(bytes, 2 * kMoveGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memset(out.data + begin, 0, static_cast<std::size_t>(end - begin));
  });
  copy_box(out.data + first * size, strides, grad, grad.shape(), context);
  return {};
}

}  // namespace hearth::cpu
