// The vector loops of convolutions with few channels a group: copies of planes, sums over windows,
// and the gradients of their weights. Built once per instruction set. Threads: any; pure functions
// on memory that the caller owns.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <hearth/runtime/base/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Copies of a block of rows of consecutive planes, in the type of the sum. Each row of the copy is
/// `phases` runs of phase_columns columns: run p holds columns first_column + p, + p + phases, ….
/// Outside the plane the copy holds 0.
struct PlaneCopy {
  const std::byte* from = nullptr;  ///< Element (0, 0) of the first plane.
  DType dtype = DType::f32;
  std::int64_t plane_step = 0;  ///< In elements, as the other steps.
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t planes = 0;
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
  std::int64_t rows = 0;
  std::int64_t phase_columns = 0;
  std::int64_t phases = 1;
};

/// y[i][j] = start + Σ_k x[i·x_row_step + j + offsets[k]]·w[places[k]] for i < rows, j < columns.
/// Computes some planes, which have the given steps. A sum runs in the order of k from 0 on, and
/// the start is added last, as in a tile. Reads a vector's length beyond the last column, and
/// writes nothing else.
template <class T>
struct WindowSum {
  const T* x = nullptr;
  std::int64_t x_row_step = 0;
  const std::int64_t* offsets = nullptr;
  const T* w = nullptr;
  const std::int64_t* places = nullptr;
  std::int64_t depth = 0;
  const T* start = nullptr;  ///< A number for each plane; nullptr: none.
  T* y = nullptr;
  std::int64_t y_row_step = 0;
  std::int64_t planes = 1;
  std::int64_t x_plane_step = 0;
  std::int64_t w_plane_step = 0;
  std::int64_t start_step = 0;
  std::int64_t y_plane_step = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  /// Set if the offsets are a grid: offsets[a·grid_columns + b] = offsets[b] + a·grid_step. Rows of
  /// x then serve several rows of y.
  std::int64_t grid_columns = 0;
  std::int64_t grid_step = 0;
};

/// totals[t] += Σ_{i, j} x[i·x_row_step + j + offsets[t]]·grad[i·grad_row_step + j] for t < taps,
/// in each of some planes. Reads a vector's length beyond the last column, but of grad only without
/// reads_exactly. A vector lane adds at most kMostLaneTerms products in T before they go to the
/// totals.
template <class T>
struct WindowDots {
  const T* x = nullptr;
  std::int64_t x_row_step = 0;
  const std::int64_t* offsets = nullptr;
  std::int64_t taps = 0;
  const T* grad = nullptr;
  std::int64_t grad_row_step = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t grid_columns = 0;  ///< Grid as in WindowSum.
  std::int64_t grid_step = 0;
  std::int64_t planes = 1;
  std::int64_t x_plane_step = 0;
  std::int64_t grad_plane_step = 0;
  std::int64_t all_taps = 0;  ///< Sums between those of two planes.
  /// Sums not yet in the totals, a vector for each tap; zeros at first.
  T* lanes = nullptr;
  double* totals = nullptr;
};
inline constexpr std::int64_t kMostLaneTerms = 512;

/// Rows whose even and odd columns lie apart.
template <class T>
struct Interleave {
  const T* even = nullptr;
  std::int64_t even_step = 0;  ///< Between rows.
  const T* odd = nullptr;
  std::int64_t odd_step = 0;
  T* to = nullptr;
  std::int64_t to_step = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// The loops for sums in T (f32 or f64).
template <class T>
struct WindowLoops {
  int vector_columns;  ///< Lanes of one vector.
  bool reads_exactly;  ///< Whether dots reads no element behind the last column of grad.
  void (*copy)(const PlaneCopy& planes, T* to);
  /// to[i·step] = from[i]
  void (*spread)(const T* from, T* to, std::int64_t step, std::int64_t count);
  /// Columns of two phases in turns: to[2·j] = even[j], to[2·j + 1] = odd[j], for rows of `columns`
  /// columns. Reads a vector's length beyond the columns of both.
  void (*interleave)(const Interleave<T>& rows);
  void (*sum)(const WindowSum<T>& sum);
  /// Returns the number of terms that each lane holds now; `terms`: of that number before.
  std::int64_t (*dots)(const WindowDots<T>& dots, std::int64_t terms);
  /// Adds the lanes to the totals, and clears them.
  void (*finish_dots)(T* lanes, std::int64_t taps, double* totals);
};

HEARTH_CPU_ISA_TABLE(WindowLoops<float>, float_windows);
HEARTH_CPU_ISA_TABLE(WindowLoops<double>, double_windows);

/// The loops for an instruction set that this machine has. T: float or double.
template <class T>
[[nodiscard]] const WindowLoops<T>& window_loops(IsaLevel isa) noexcept {
  if constexpr (sizeof(T) == sizeof(float)) {
    return float_windows(isa);
  } else {
    return double_windows(isa);
  }
}

}  // namespace hearth::cpu
