#include "collapse.hpp"
#include "indexing.hpp"
#include "move_loops.hpp"

#include <algorithm>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kGrainBytes = std::int64_t{1} << 20;
constexpr std::int64_t kScatteredGrain = std::int64_t{1} << 15;  // elements that lie anywhere

struct Pick {
  const TensorView& x;
  const TensorView& out;
  const TensorView& index;
  std::int64_t size = 0;       // bytes of an element
  std::int64_t axis_step = 0;  // of x
  Collapsed space;             // operand 0 is x at the axis' first element, operand 1 the index
};

// One index for the whole run: a piece of x.
void copy_run(
    const Pick& op, GatherLoop loop, std::int64_t to, std::int64_t from, std::int64_t count) {
  loop(op.out.data + to * op.size,
       count,
       op.x.data + from * op.size,
       0,
       op.space.inner_stride(0),
       1,
       count);
}

template <class T, class I>
void pick_run(
    const Pick& op, std::int64_t to, std::int64_t from, const I* index, std::int64_t count) {
  T* const out = op.out.as<T>() + to;
  const T* const x = op.x.as<const T>() + from;
  const std::int64_t x_step = op.space.inner_stride(0);
  const std::int64_t index_step = op.space.inner_stride(1);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = x[i * x_step + static_cast<std::int64_t>(index[i * index_step]) * op.axis_step];
  }
}

template <class I>
void pick_run(
    const Pick& op, std::int64_t to, std::int64_t from, const I* index, std::int64_t count) {
  switch (op.size) {
    case 1:
      pick_run<std::uint8_t>(op, to, from, index, count);
      break;
    case 2:
      pick_run<std::uint16_t>(op, to, from, index, count);
      break;
    case 4:
      pick_run<std::uint32_t>(op, to, from, index, count);
      break;
    default:
      pick_run<std::uint64_t>(op, to, from, index, count);
      break;
  }
}

template <class I>
void pick_all(const Pick& op, KernelContext& context) {
  const std::int64_t inner = op.space.inner_size();
  const std::int64_t x_step = op.space.inner_stride(0);
  const std::int64_t index_step = op.space.inner_stride(1);
  const bool by_runs = index_step == 0;
  const GatherLoop loop = move_loops(context.isa).gathers[MoveLoops::size_index(op.size)];
  const std::int64_t grain = by_runs ? kGrainBytes / op.size : kScatteredGrain;
  context.arena.parallel_for(
      op.out.element_count(), grain, [&](std::int64_t begin, std::int64_t end) {
        Place place(op.space, begin / inner);
        std::int64_t column = begin % inner;
        while (begin < end) {
          const std::int64_t count = std::min(inner - column, end - begin);
          const std::int64_t from = place.offset[0] + column * x_step;
          const I* const index = op.index.as<const I>() + place.offset[1] + column * index_step;
          if (by_runs) {
            const auto chosen = static_cast<std::int64_t>(*index);
            copy_run(op, loop, begin, from + chosen * op.axis_step, count);
          } else {
            pick_run(op, begin, from, index, count);
          }
          begin += count;
          column = 0;
          place.advance();
        }
      });
}

}  // namespace

Status run_pick(const KernelCall& call, KernelContext& context) {
  const Indexing op(call);
  HEARTH_TRY_STATUS(check_index(call, op, context));
  if (op.part.element_count() == 0) {
    return {};
  }
  Strides rows = op.whole.strides();
  const std::int64_t axis_step = rows[static_cast<std::size_t>(op.axis)];
  rows[static_cast<std::size_t>(op.axis)] = 0;
  const Strides strides[] = {rows, op.index_strides()};
  const Pick pick{.x = op.whole,
                  .out = op.part,
                  .index = op.index,
                  .size = size_bytes(op.part.dtype),
                  .axis_step = axis_step,
                  .space = Collapsed(op.part.shape(), strides)};
  if (op.index.dtype == DType::i64) {
    pick_all<std::int64_t>(pick, context);
  } else {
    pick_all<std::int32_t>(pick, context);
  }
  return {};
}

}  // namespace hearth::cpu
