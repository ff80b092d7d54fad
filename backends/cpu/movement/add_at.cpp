// The adjoints of gather and index_select. Each element of the result is the sum of the source
// elements that the index maps to it, in index order. One thread computes it, so the bits do not
// depend on the cores. 16-bit types are summed in f32 and rounded once. At most kMostTerms elements
// are added in f32; longer sums continue in f64. There are two algorithms, with equal bits where no
// place has more than kMostTerms terms:
// - rows: the source consists of contiguous rows, each added to one place. The rows are sorted by
// place; then each row of the result is written once: its sum, or zeros.
// - lines: the result is cleared; then each line along the axis is added on its own.
#include "backends/cpu/elementwise/binary_loops.hpp"
#include "backends/cpu/elementwise/cast_loops.hpp"
#include "backends/cpu/elementwise/move_loops.hpp"
#include "indexing.hpp"
#include "line_walk.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kAddGrainBytes = std::int64_t{1} << 19;
constexpr std::int64_t kLeastRowBytes = 64;  // shorter rows are not worth sorting
// elements of a row per step, where sums have a buffer of their own
constexpr std::int64_t kAddStrip = 1024;

bool is_narrow(DType dtype) noexcept {
  return dtype == DType::f16 || dtype == DType::bf16;
}

// Writes zeros past the caches, from a block that stays in them. A fence makes them visible to
// other threads.
void stream_zeros(const MoveLoops& loops, std::byte* to, std::int64_t bytes) {
  alignas(64) static constexpr std::array<std::byte, 4096> kZeros{};
  for (std::int64_t at = 0; at < bytes; at += std::int64_t{kZeros.size()}) {
    loops.stream(to + at, kZeros.data(), std::min(bytes - at, std::int64_t{kZeros.size()}));
  }
}

void write_zeros(const MoveLoops& loops, bool streams, std::byte* to, std::int64_t bytes) {
  if (streams) {
    stream_zeros(loops, to, bytes);
  } else {
    std::memset(to, 0, static_cast<std::size_t>(bytes));
  }
}

void write_zeros(std::byte* to, std::int64_t bytes, KernelContext& context) {
  const MoveLoops& loops = move_loops(context.isa);
  const bool streams = bytes >= MoveLoops::kStreamBytes;
  context.arena.parallel_for(bytes, 2 * kAddGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    write_zeros(loops, streams, to + begin, end - begin);
    loops.fence();
  });
}

// ---- rows ----

// The result is [outer, length, width], the source [outer, count, width].
struct Rows {
  const std::byte* source = nullptr;
  std::byte* out = nullptr;
  DType dtype = DType::f32;
  std::int64_t outer = 1;
  std::int64_t length = 0;
  std::int64_t width = 1;
  std::int64_t count = 0;
  std::int64_t* ends = nullptr;   // end of each place's part of `order`
  std::int64_t* order = nullptr;  // source rows sorted by place, then by number
  bool streams = false;

  [[nodiscard]] std::int64_t row_bytes() const noexcept { return width * size_bytes(dtype); }
  [[nodiscard]] std::int64_t first(std::int64_t place) const noexcept {
    return place == 0 ? 0 : ends[place - 1];
  }
};

template <class I>
void sort_places(const Rows& rows, const I* index, std::int64_t step) {
  std::fill_n(rows.ends, rows.length, 0);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    ++rows.ends[index[i * step]];
  }
  std::int64_t before = 0;
  for (std::int64_t place = 0; place < rows.length; ++place) {
    before += std::exchange(rows.ends[place], before);
  }
  for (std::int64_t i = 0; i < rows.count; ++i) {
    rows.order[rows.ends[index[i * step]]++] = i;
  }
}

// Writes the sum of the source rows order[first] … order[last - 1].
void write_sum(const Rows& rows,
               std::int64_t outer,
               std::int64_t first,
               std::int64_t last,
               std::byte* to,
               const KernelContext& context) {
  const DType type = compute_dtype(rows.dtype);
  const BinaryLoop add = binary_loops(context.isa).at(OpKind::add, type)[0];
  const auto source = [&](std::int64_t i, std::int64_t column) {
    return rows.source + (outer * rows.count + rows.order[i]) * rows.row_bytes() +
           column * size_bytes(rows.dtype);
  };
  const bool is_long = last - first > kMostTerms && type == DType::f32;
  if (!is_narrow(rows.dtype) && !is_long) {
    std::memset(to, 0, static_cast<std::size_t>(rows.row_bytes()));
    for (std::int64_t i = first; i < last; ++i) {
      add(to, to, source(i, 0), rows.width);
    }
    return;
  }
  const CastLoop widen = cast_loops(context.isa).at(rows.dtype, type);
  const CastLoop round = cast_loops(context.isa).at(type, rows.dtype);
  alignas(64) float sum[kAddStrip];
  alignas(64) float term[kAddStrip];
  alignas(64) double total[kAddStrip];  // of a long sum
  for (std::int64_t column = 0; column < rows.width; column += kAddStrip) {
    const std::int64_t count = std::min(kAddStrip, rows.width - column);
    std::fill_n(total, is_long ? count : 0, 0.0);
    for (std::int64_t begin = first; begin < last; begin += kMostTerms) {
      std::fill_n(sum, count, 0.0F);
      for (std::int64_t i = begin; i < std::min(last, begin + kMostTerms); ++i) {
        widen(term, source(i, column), count);
        add(sum, sum, term, count);
      }
      for (std::int64_t c = 0; is_long && c < count; ++c) {
        total[c] += static_cast<double>(sum[c]);
      }
    }
    for (std::int64_t c = 0; is_long && c < count; ++c) {
      sum[c] = static_cast<float>(total[c]);
    }
    round(to + column * size_bytes(rows.dtype), sum, count);
  }
}

void write_rows(const Rows& rows, KernelContext& context) {
  const MoveLoops& loops = move_loops(context.isa);
  const std::int64_t row_bytes = rows.row_bytes();
  const std::int64_t grain = std::max<std::int64_t>(1, 2 * kAddGrainBytes / row_bytes);
  context.arena.parallel_for(
      rows.outer * rows.length, grain, [&](std::int64_t begin, std::int64_t end) {
        std::int64_t place = begin % rows.length;
        std::int64_t empty = 0;  // rows without a source, directly before this one
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t first = rows.first(place);
          const std::int64_t last = rows.ends[place];
          place = place + 1 == rows.length ? 0 : place + 1;
          if (first == last) {
            ++empty;
            continue;
          }
          std::byte* const to = rows.out + row * row_bytes;
          write_zeros(loops, rows.streams, to - empty * row_bytes, empty * row_bytes);
          empty = 0;
          write_sum(rows, row / rows.length, first, last, to, context);
        }
        write_zeros(loops, rows.streams, rows.out + (end - empty) * row_bytes, empty * row_bytes);
        loops.fence();
      });
}

// Whether each row of the source has a single index value and is long enough to sort.
bool goes_by_rows(const Indexing& op) {
  if (!op.part.layout->contiguous) {
    return false;
  }
  std::int64_t width = size_bytes(op.part.dtype);
  const Strides strides = op.index_strides();
  for (int axis = 0; axis < op.part.shape().rank(); ++axis) {
    const std::int64_t size = op.part.shape()[axis];
    const bool is_same = strides[static_cast<std::size_t>(axis)] == 0 || size == 1;
    if (axis != op.axis && (!is_same || size != op.whole.shape()[axis])) {
      return false;
    }
    width *= axis > op.axis ? size : 1;
  }
  return width >= kLeastRowBytes;
}

Status add_rows(const Indexing& op, KernelContext& context) {
  const Shape& whole = op.whole.shape();
  Rows rows{
      .source = op.part.data,
      .out = op.whole.data,
      .dtype = op.part.dtype,
      .length = op.axis_size(),
      .count = op.part.shape()[op.axis],
      .ends = nullptr,
      .order = nullptr,
      .streams = whole.element_count() * size_bytes(op.part.dtype) >= MoveLoops::kStreamBytes};
  for (int axis = 0; axis < whole.rank(); ++axis) {
    rows.outer *= axis < op.axis ? whole[axis] : 1;
    rows.width *= axis > op.axis ? whole[axis] : 1;
  }
  constexpr auto kEntryBytes = static_cast<std::int64_t>(sizeof(std::int64_t));
  HEARTH_TRY(std::byte* const scratch,
             context.scratch.take_all((rows.length + rows.count) * kEntryBytes));
  rows.ends = reinterpret_cast<std::int64_t*>(scratch);
  rows.order = rows.ends + rows.length;
  const std::int64_t step = op.index_strides()[static_cast<std::size_t>(op.axis)];
  if (op.index.dtype == DType::i64) {
    sort_places(rows, op.index.as<const std::int64_t>(), step);
  } else {
    sort_places(rows, op.index.as<const std::int32_t>(), step);
  }
  write_rows(rows, context);
  return {};
}

// ---- lines ----

Status add_by_lines(const Indexing& op, KernelContext& context) {
  const DType dtype = op.whole.dtype;
  const bool is_long = compute_dtype(dtype) == DType::f32 && op.part.shape()[op.axis] > kMostTerms;
  const DType sum_type = is_long ? DType::f64 : compute_dtype(dtype);
  const bool is_rounded = sum_type != dtype;
  const std::int64_t count = op.whole.element_count();
  const std::int64_t sum_bytes = count * size_bytes(sum_type);
  std::byte* sums = op.whole.data;
  if (is_rounded) {
    HEARTH_TRY(sums, context.scratch.take_all(sum_bytes));
  }
  write_zeros(sums, sum_bytes, context);
  if (op.part.element_count() != 0) {
    const Lines lines(op, sums);
    visit_dtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, float>) {
        if (is_long) {
          change_lines_of<AddTo, double, T>(lines, context);
        } else {
          change_lines_of<AddTo, float, T>(lines, context);
        }
      } else if constexpr (!std::is_same_v<T, bool>) {
        change_lines_of<AddTo, T, T>(lines, context);
      }
    });
  }
  if (is_rounded) {
    const CastLoop round = cast_loops(context.isa).at(sum_type, dtype);
    context.arena.parallel_for(
        count, kAddGrainBytes / size_bytes(dtype), [&](std::int64_t begin, std::int64_t end) {
          round(op.whole.data + begin * size_bytes(dtype),
                sums + begin * size_bytes(sum_type),
                end - begin);
        });
  }
  return {};
}

}  // namespace

Status run_add_at(const KernelCall& call, KernelContext& context) {
  const Indexing op(call);
  HEARTH_TRY_STATUS(check_index(call, op, context));
  if (op.whole.element_count() == 0) {
    return {};
  }
  return goes_by_rows(op) ? add_rows(op, context) : add_by_lines(op, context);
}

}  // namespace hearth::cpu
