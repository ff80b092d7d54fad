// Writes updates at the places of an index: sets, adds, multiplies, or keeps the smaller or larger
// one. The operand is copied unless the result lies in its bytes. A thread walks a line along the
// axis in the order of the index. So the last update wins, and the bits do not depend on the cores.
// Sums and products of 16-bit types are kept in f32, in memory of their own, and rounded once.
// Those of lines with more than kMostTerms updates are kept in f64.
#include "backends/cpu/elementwise/binary_loops.hpp"
#include "backends/cpu/elementwise/cast_loops.hpp"
#include "backends/cpu/elementwise/elementwise.hpp"
#include "indexing.hpp"
#include "line_walk.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <cstdint>
#include <type_traits>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kCastGrain = std::int64_t{1} << 17;  // elements worth a fork

struct SetTo {
  template <class T>
  static void apply(T& value, T update) noexcept {
    value = update;
  }
};
struct MultiplyBy {
  template <class T>
  static void apply(T& value, T update) noexcept {
    if constexpr (std::is_integral_v<T>) {
      using U = std::conditional_t<(sizeof(T) < 8), std::uint32_t, std::uint64_t>;
      value = static_cast<T>(static_cast<U>(value) * static_cast<U>(update));
    } else {
      value *= update;
    }
  }
};

template <class T>
auto comparable(T x) noexcept {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return static_cast<float>(x);
  } else {
    return x;
  }
}
// A NaN on either side is the result.
struct KeepSmaller {
  template <class T>
  static void apply(T& value, T update) noexcept {
    const auto x = comparable(update);
    value = x < comparable(value) || x != x ? update : value;
  }
};
struct KeepLarger {
  template <class T>
  static void apply(T& value, T update) noexcept {
    const auto x = comparable(update);
    value = x > comparable(value) || x != x ? update : value;
  }
};

void set(const Lines& lines, KernelContext& context) {
  switch (size_bytes(lines.op.whole.dtype)) {
    case 1:
      change_lines_of<SetTo, std::uint8_t, std::uint8_t>(lines, context);
      break;
    case 2:
      change_lines_of<SetTo, std::uint16_t, std::uint16_t>(lines, context);
      break;
    case 4:
      change_lines_of<SetTo, std::uint32_t, std::uint32_t>(lines, context);
      break;
    default:
      change_lines_of<SetTo, std::uint64_t, std::uint64_t>(lines, context);
      break;
  }
}

template <class Change>
void keep(const Lines& lines, KernelContext& context) {
  visit_dtype(lines.op.whole.dtype, [&](auto zero) {
    using T =
        std::conditional_t<std::is_same_v<decltype(zero), bool>, std::uint8_t, decltype(zero)>;
    change_lines_of<Change, T, T>(lines, context);
  });
}

// Sums or products in `type`, which is the elements' or a wider one.
template <class Change>
void accumulate(const Lines& lines, DType type, KernelContext& context) {
  visit_dtype(lines.op.whole.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, float>) {
      if (type == DType::f64) {
        change_lines_of<Change, double, T>(lines, context);
      } else {
        change_lines_of<Change, float, T>(lines, context);
      }
    } else if constexpr (!std::is_same_v<T, bool>) {
      change_lines_of<Change, T, T>(lines, context);
    }
  });
}

void change(const Lines& lines, ScatterMode mode, DType type, KernelContext& context) {
  switch (mode) {
    case ScatterMode::set:
      return set(lines, context);
    case ScatterMode::add:
      return accumulate<AddTo>(lines, type, context);
    case ScatterMode::mul:
      return accumulate<MultiplyBy>(lines, type, context);
    case ScatterMode::min:
      return keep<KeepSmaller>(lines, context);
    case ScatterMode::max:
      return keep<KeepLarger>(lines, context);
  }
}

// The type in which the results are kept while they change.
DType kept_type(const Indexing& op, ScatterMode mode) noexcept {
  const DType dtype = op.whole.dtype;
  if (mode != ScatterMode::add && mode != ScatterMode::mul) {
    return dtype;
  }
  const bool is_long = compute_dtype(dtype) == DType::f32 && op.part.shape()[op.axis] > kMostTerms;
  return is_long ? DType::f64 : compute_dtype(dtype);
}

void convert(std::byte* to,
             DType to_type,
             const std::byte* from,
             DType from_type,
             std::int64_t count,
             KernelContext& context) {
  const CastLoop loop = cast_loops(context.isa).at(from_type, to_type);
  context.arena.parallel_for(count, kCastGrain, [&](std::int64_t begin, std::int64_t end) {
    loop(to + begin * size_bytes(to_type), from + begin * size_bytes(from_type), end - begin);
  });
}

}  // namespace

// Phases: the check of all indices; memory; the copy of the operand; the changes.
Status run_scatter(const KernelCall& call, KernelContext& context) {
  const Indexing op(call);
  HEARTH_TRY_STATUS(check_index(call, op, context));
  const std::int64_t count = op.whole.element_count();
  if (count == 0) {
    return {};
  }
  const ScatterMode mode = call.op.attributes<ScatterAttributes>().mode;
  const DType dtype = op.whole.dtype;
  const DType type = kept_type(op, mode);
  const bool is_widened = type != dtype && op.part.element_count() != 0;
  std::byte* results = op.whole.data;
  if (is_widened) {
    HEARTH_TRY(results, context.scratch.take_all(count * size_bytes(type)));
  }
  HEARTH_TRY_STATUS(run_copy(call, context));
  if (op.part.element_count() == 0) {
    return {};
  }
  if (is_widened) {
    convert(results, type, op.whole.data, dtype, count, context);
  }
  change(Lines(op, results), mode, type, context);
  if (is_widened) {
    convert(op.whole.data, dtype, results, type, count, context);
  }
  return {};
}

}  // namespace hearth::cpu
