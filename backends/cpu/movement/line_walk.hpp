// Walks each element of a source to the place that its index names along an axis: for the adjoints
// of picks and for scatter. Lines along the axis are independent of one another; one thread walks a
// line, in the order of the index. Private to backends/cpu. Threads: owner only; forks and joins.
#pragma once

#include "backends/cpu/machine/collapse.hpp"
#include "indexing.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace hearth::cpu {

inline constexpr std::int64_t kScatteredGrain = std::int64_t{1} << 15;  // steps to random places
inline constexpr std::int64_t kMostTerms = 1024;  // of an f32 sum; longer ones continue in f64

/// Adds the term to the sum; integers wrap.
struct AddTo {
  template <class T>
  static void apply(T& sum, T term) noexcept {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      sum = static_cast<T>(static_cast<U>(static_cast<U>(sum) + static_cast<U>(term)));
    } else {
      sum += term;
    }
  }
};

template <class Sum, class T>
Sum term_of(T x) noexcept {
  if constexpr (std::is_same_v<Sum, T>) {
    return x;
  } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return static_cast<Sum>(static_cast<float>(x));
  } else {
    return static_cast<Sum>(x);
  }
}

/// Distance between neighbouring elements along an axis, for each operand.
struct LineSteps {
  std::int64_t count = 0;
  std::int64_t out = 0;
  std::int64_t source = 0;
  std::int64_t index = 0;
};

/// The lines of a call, with contiguous results in the whole's shape.
struct Lines {
  Lines(const Indexing& of, void* to) noexcept : op(of), results(to), starts(of.part.shape()) {
    starts.set(op.axis, 1);
    const auto axis = static_cast<std::size_t>(op.axis);
    const Strides strides[] = {
        contiguous_strides(op.whole.shape()), op.part.strides(), op.index_strides()};
    space = Collapsed(starts, strides);
    along = {.count = op.part.shape()[op.axis],
             .out = 0,
             .source = strides[1][axis],
             .index = strides[2][axis]};
    out_step = strides[0][axis];
  }

  const Indexing& op;
  void* results;
  Shape starts;               // of the lines
  Collapsed space;            // line starts; operand 0: results, 1: source, 2: index
  LineSteps along;            // the axis
  std::int64_t out_step = 0;  // between results along the axis
};

/// Both loop orders change each element in line order.
template <class Change, class Sum, class T, class I>
void change_block(Sum* results,
                  const T* source,
                  const I* index,
                  const LineSteps& outside,
                  const LineSteps& inside,
                  std::int64_t out_step) {
  for (std::int64_t i = 0; i < outside.count; ++i) {
    Sum* const to = results + i * outside.out;
    const T* const from = source + i * outside.source;
    const I* const places = index + i * outside.index;
    if (inside.index == 0 && inside.out == 1 && inside.source == 1) {  // a row has one place
      Sum* const row = to + static_cast<std::int64_t>(places[0]) * out_step;
      for (std::int64_t j = 0; j < inside.count; ++j) {
        Change::apply(row[j], term_of<Sum>(from[j]));
      }
      continue;
    }
    for (std::int64_t j = 0; j < inside.count; ++j) {
      const auto place = static_cast<std::int64_t>(places[j * inside.index]);
      Change::apply(to[j * inside.out + place * out_step], term_of<Sum>(from[j * inside.source]));
    }
  }
}

template <class Change, class Sum, class T, class I>
void change_lines(const Lines& lines, KernelContext& context) {
  const std::int64_t inner = lines.space.inner_size();
  const std::int64_t grain =
      std::max<std::int64_t>(1, kScatteredGrain / std::max<std::int64_t>(1, lines.along.count));
  const std::int64_t line_count = lines.starts.element_count();
  context.arena.parallel_for(line_count, grain, [&](std::int64_t begin, std::int64_t end) {
    Place place(lines.space, begin / inner);
    std::int64_t column = begin % inner;
    while (begin < end) {
      const LineSteps across{.count = std::min(inner - column, end - begin),
                             .out = lines.space.inner_stride(0),
                             .source = lines.space.inner_stride(1),
                             .index = lines.space.inner_stride(2)};
      Sum* const to = static_cast<Sum*>(lines.results) + place.offset[0] + column * across.out;
      const T* const from =
          reinterpret_cast<const T*>(lines.op.part.data) + place.offset[1] + column * across.source;
      const I* const index = lines.op.index.as<const I>() + place.offset[2] + column * across.index;
      // The operand with the smaller step selects the inner loop.
      if (across.out < lines.out_step) {
        change_block<Change>(to, from, index, lines.along, across, lines.out_step);
      } else {
        change_block<Change>(to, from, index, across, lines.along, lines.out_step);
      }
      begin += across.count;
      column = 0;
      place.advance();
    }
  });
}

/// Changes results of type Sum by a source of type T. Requires a source with elements.
template <class Change, class Sum, class T>
void change_lines_of(const Lines& lines, KernelContext& context) {
  if (lines.op.index.dtype == DType::i64) {
    change_lines<Change, Sum, T, std::int64_t>(lines, context);
  } else {
    change_lines<Change, Sum, T, std::int32_t>(lines, context);
  }
}

}  // namespace hearth::cpu
