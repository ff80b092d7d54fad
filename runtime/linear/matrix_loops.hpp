// Loops over the matrices of a host kernel's call. Private to runtime. Threads: the one that runs
// the kernel, and the device's cores.
#pragma once

#include <hearth/runtime/base/custom_code.hpp>

#include "host_op.hpp"

#include <cblas.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hearth::detail {

/// From this size on, a factorisation shares its blocks between the cores; smaller ones run one
/// matrix on each core. Decided by size alone, so that a matrix gives the same bits in any batch.
inline constexpr std::int64_t kBlockedSize = 256;

/// Sizes of matrices [..., rows, columns].
struct MatrixSizes {
  std::int64_t count = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  explicit MatrixSizes(const Shape& shape) : rows(shape[-2]), columns(shape[-1]) {
    for (int axis = 0; axis + 2 < shape.rank(); ++axis) {
      count *= shape[axis];
    }
  }
  [[nodiscard]] std::int64_t elements() const noexcept { return rows * columns; }
};

/// Calls fn(T{}) for the element type of the first input, f32 or f64.
template <class Fn>
void for_real_type(const HostKernelCall& call, const Fn& fn) {
  if (call.input_dtype(0) == DType::f64) {
    fn(double{});
  } else {
    fn(float{});
  }
}

/// Calls fn(begin, end) on the cores, for ranges of matrices of `flops` operations each.
template <class Fn>
void for_matrices(const HostKernelCall& call,
                  std::int64_t count,
                  std::int64_t flops,
                  const Fn& fn) {
  constexpr std::int64_t kRangeFlops = 50'000;
  call.parallel_for(count, kRangeFlops / std::max<std::int64_t>(flops, 1) + 1, fn);
}

/// Copies a [rows, columns] with these steps into its transpose, in blocks that fit the cache.
template <class T>
void copy_transposed(const T* from,
                     std::int64_t from_step,
                     T* to,
                     std::int64_t to_step,
                     std::int64_t rows,
                     std::int64_t columns) {
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t row = 0; row < rows; row += kBlock) {
    for (std::int64_t column = 0; column < columns; column += kBlock) {
      const std::int64_t row_end = std::min(row + kBlock, rows);
      const std::int64_t column_end = std::min(column + kBlock, columns);
      for (std::int64_t i = row; i < row_end; ++i) {
        for (std::int64_t j = column; j < column_end; ++j) {
          to[j * to_step + i] = from[i * from_step + j];
        }
      }
    }
  }
}

/// The results of LAPACK for each matrix.
class MatrixFailures {
 public:
  explicit MatrixFailures(std::int64_t count) : infos_(static_cast<std::size_t>(count), 0) {}
  void set(std::int64_t matrix, blasint info) { infos_[static_cast<std::size_t>(matrix)] = info; }
  [[nodiscard]] bool is_fine(std::int64_t matrix) const {
    return infos_[static_cast<std::size_t>(matrix)] == 0;
  }
  /// Calls text(name, info) for the first matrix that failed, and throws its text as the op's.
  template <class Text>
  void throw_first(std::string_view op, const Shape& shape, const Text& text) const {
    const auto first = std::ranges::find_if(infos_, [](blasint info) { return info != 0; });
    if (first != infos_.end()) {
      throw_kernel_failure(op, text(matrix_name(shape, first - infos_.begin()), *first));
    }
  }

 private:
  std::vector<blasint> infos_;
};

}  // namespace hearth::detail
