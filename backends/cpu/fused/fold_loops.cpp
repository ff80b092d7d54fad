#include "fold_loops.hpp"

#include <limits>

namespace hearth::cpu {

namespace {

template <class T>
T neutral(OpKind kind) noexcept {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
    case OpKind::reduce_max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::min();
    case OpKind::reduce_min:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case OpKind::reduce_prod:
      return T{1};
    default:
      return T{0};
  }
}

}  // namespace

FoldLoops fold_loops(OpKind kind, DType type, DType slot, IsaLevel isa) noexcept {
  const ReduceLoops& loops = reduce_loops(isa);
  const auto of = [&](const auto& rows, const auto& columns) {
    return FoldLoops{ReduceLoops::at(rows, type),
                     ReduceLoops::at(columns, type),
                     ReduceLoops::at(columns, slot)};
  };
  switch (kind) {
    case OpKind::reduce_max:
      return of(loops.max_row, loops.max_columns);
    case OpKind::reduce_min:
      return of(loops.min_row, loops.min_columns);
    case OpKind::reduce_prod:
      return of(loops.product_row, loops.product_columns);
    default:
      return of(loops.sum_row, loops.sum_columns);
  }
}

Accumulator fold_start(OpKind kind, DType slot) noexcept {
  Accumulator start{};
  if (slot == DType::f64) {
    start.real = neutral<double>(kind);
  } else {
    start.integer = neutral<std::int64_t>(kind);
  }
  return start;
}

}  // namespace hearth::cpu
