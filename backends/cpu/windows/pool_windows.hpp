// Pooling windows over one plane in the type of the sum: the rows and columns that they cover,
// their maxima and means. Private to backends/cpu. Pure functions. Threads: any.
#pragma once

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace hearth::cpu {

/// The input rows (or columns) that the window at one output position covers.
struct PoolWindow {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  PoolWindow(std::int64_t place, std::int64_t size, const PoolAttributes& pool, std::size_t axis) {
    const std::int64_t first = place * pool.stride[axis] - pool.padding[axis];
    begin = std::max<std::int64_t>(first, 0);
    end = std::min(first + pool.kernel[axis], size);
  }
};

struct PoolSizes {
  std::int64_t planes;
  std::int64_t height;
  std::int64_t width;
  std::int64_t rows;
  std::int64_t columns;

  [[nodiscard]] std::int64_t plane() const { return height * width; }
  [[nodiscard]] std::int64_t window_count() const { return rows * columns; }
};

/// Returns the sizes from the shapes of the input (`large`) and the output (`small`).
[[nodiscard]] inline PoolSizes sizes_of(const Shape& large, const Shape& small) {
  return {small[0] * small[1], large[2], large[3], small[2], small[3]};
}

[[nodiscard]] inline bool is_pairs(const PoolAttributes& pool) {
  return pool.kernel == std::array<std::int64_t, 2>{2, 2} && pool.stride == pool.kernel &&
         pool.padding == std::array<std::int64_t, 2>{0, 0};
}

template <class T>
void max_windows(
    const PoolSizes& sizes, const PoolAttributes& pool, const T* x, T* y, std::int32_t* positions) {
  for (std::int64_t i = 0; i < sizes.rows; ++i) {
    const PoolWindow rows(i, sizes.height, pool, 0);
    for (std::int64_t j = 0; j < sizes.columns; ++j) {
      const PoolWindow columns(j, sizes.width, pool, 1);
      std::int64_t place = rows.begin * sizes.width + columns.begin;
      T best = x[place];
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        for (std::int64_t column = columns.begin; column < columns.end; ++column) {
          const T value = x[row * sizes.width + column];
          if (value > best || (std::isnan(value) && !std::isnan(best))) {
            best = value;
            place = row * sizes.width + column;
          }
        }
      }
      *y++ = best;
      if (positions != nullptr) {
        *positions++ = static_cast<std::int32_t>(place);
      }
    }
  }
}

template <class T>
T window_size(const PoolWindow& rows, const PoolWindow& columns, const PoolAttributes& pool) {
  return static_cast<T>(pool.count_include_pad != 0
                            ? pool.kernel[0] * pool.kernel[1]
                            : (rows.end - rows.begin) * (columns.end - columns.begin));
}

template <class T>
void mean_windows(const PoolSizes& sizes, const PoolAttributes& pool, const T* x, T* y) {
  for (std::int64_t i = 0; i < sizes.rows; ++i) {
    const PoolWindow rows(i, sizes.height, pool, 0);
    for (std::int64_t j = 0; j < sizes.columns; ++j) {
      const PoolWindow columns(j, sizes.width, pool, 1);
      double sum = 0;
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        for (std::int64_t column = columns.begin; column < columns.end; ++column) {
          sum += static_cast<double>(x[row * sizes.width + column]);
        }
      }
      *y++ = static_cast<T>(sum / window_size<double>(rows, columns, pool));
    }
  }
}

}  // namespace hearth::cpu
