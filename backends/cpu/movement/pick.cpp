#include "backends/cpu/elementwise/move_loops.hpp"
#include "backends/cpu/machine/collapse.hpp"
#include "backends/cpu/products/epilogue_rows.hpp"
#include "indexing.hpp"

#include <algorithm>
#include <array>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kPickGrainBytes = std::int64_t{1} << 20;
constexpr std::int64_t kPickScatteredGrain = std::int64_t{1} << 15;  // elements at random places

struct Pick {
  const TensorView& x;
  const TensorView& index;
  std::int64_t size = 0;       // bytes of an element
  std::int64_t axis_step = 0;  // of x
  Collapsed space;             // operand 0: x at the axis' first element; 1: the index
  GatherLoop copy = nullptr;

  /// Whether each run of neighbours has a single index.
  [[nodiscard]] bool is_by_runs() const noexcept { return space.inner_stride(1) == 0; }
};

template <class T, class I>
void pick_run(
    const Pick& op, std::byte* to, std::int64_t from, const I* index, std::int64_t count) {
  T* const out = reinterpret_cast<T*>(to);
  const T* const x = op.x.as<const T>() + from;
  const std::int64_t x_step = op.space.inner_stride(0);
  const std::int64_t index_step = op.space.inner_stride(1);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = x[i * x_step + static_cast<std::int64_t>(index[i * index_step]) * op.axis_step];
  }
}

template <class I>
void pick_run(
    const Pick& op, std::byte* to, std::int64_t from, const I* index, std::int64_t count) {
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

// Stores elements [begin, end) of the result to `to`.
template <class I>
void pick_range(const Pick& op, std::int64_t begin, std::int64_t end, std::byte* to) {
  const std::int64_t inner = op.space.inner_size();
  const std::int64_t x_step = op.space.inner_stride(0);
  Place place(op.space, begin / inner);
  std::int64_t column = begin % inner;
  while (begin < end) {
    const std::int64_t count = std::min(inner - column, end - begin);
    const std::int64_t from = place.offset[0] + column * x_step;
    const I* const index =
        op.index.as<const I>() + place.offset[1] + column * op.space.inner_stride(1);
    if (op.is_by_runs()) {
      const auto chosen = static_cast<std::int64_t>(*index);
      const std::byte* const run = op.x.data + (from + chosen * op.axis_step) * op.size;
      op.copy(to, count, run, 0, x_step, 1, count);
    } else {
      pick_run(op, to, from, index, count);
    }
    begin += count;
    to += count * op.size;
    column = 0;
    place.advance();
  }
}

template <class I>
void pick_all(const Pick& op, std::byte* out, std::int64_t count, Arena& arena) {
  const std::int64_t grain = op.is_by_runs() ? kPickGrainBytes / op.size : kPickScatteredGrain;
  arena.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    pick_range<I>(op, begin, end, out + begin * op.size);
  });
}

template <class I>
void pick_to(const EpilogueRows& epilogue, const Pick& op, std::int64_t count, Arena& arena) {
  arena.parallel_for(count, epilogue.grain(), [&](std::int64_t begin, std::int64_t end) {
    EpilogueRows::Part part(epilogue);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): filled before it is read
    alignas(64) std::array<std::byte, EpilogueRows::kPieceBytes> piece;
    const std::int64_t most = EpilogueRows::kPieceBytes / op.size;
    for (std::int64_t first = begin; first < end; first += most) {
      const std::int64_t last = std::min(end, first + most);
      pick_range<I>(op, first, last, piece.data());
      part.run(piece.data(), first, last);
    }
  });
}

}  // namespace

Status run_pick(const KernelCall& call, KernelContext& context) {
  const Indexing op(call);
  HEARTH_TRY_STATUS(check_index(call, op, context));
  const std::int64_t count = op.part.element_count();
  if (count == 0) {
    return {};
  }
  EpilogueRows epilogue;
  HEARTH_TRY_STATUS(epilogue.start(call, context));
  Strides rows = op.whole.strides();
  const std::int64_t axis_step = rows[static_cast<std::size_t>(op.axis)];
  rows[static_cast<std::size_t>(op.axis)] = 0;
  const Strides strides[] = {rows, op.index_strides()};
  const std::int64_t size = size_bytes(op.whole.dtype);
  const Shape& result = epilogue.is_there() ? call.epilogue->result->shape : op.part.shape();
  const Pick pick{.x = op.whole,
                  .index = op.index,
                  .size = size,
                  .axis_step = axis_step,
                  .space = Collapsed(result, strides),
                  .copy = move_loops(context.isa).gathers[MoveLoops::size_index(size)]};
  const bool is_wide = op.index.dtype == DType::i64;
  if (epilogue.is_there()) {
    const auto run = is_wide ? &pick_to<std::int64_t> : &pick_to<std::int32_t>;
    run(epilogue, pick, count, context.arena);
  } else {
    const auto run = is_wide ? &pick_all<std::int64_t> : &pick_all<std::int32_t>;
    run(pick, op.part.data, count, context.arena);
  }
  return {};
}

}  // namespace hearth::cpu
