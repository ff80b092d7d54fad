// The operands of attention, one head at a time, in the computing type. The queries of all heads
// that share a key head form one matrix: row j*queries + i is query i of head j among them. Private
// to backends/cpu. Threads: any; reads the tensors of one call, which outlives it.
#pragma once

#include "backends/cpu/products/gemm.hpp"

#include <hearth/backends/kernel.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Sizes of a call, derived from the shapes of queries, keys and values.
struct AttentionSizes {
  std::int64_t batches = 1;
  std::int64_t key_heads = 1;
  std::int64_t heads_per_key_head = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
  std::int64_t value_width = 0;
  double scale = 1;
  bool is_causal = false;

  /// first_input: index of the queries.
  AttentionSizes(const KernelCall& call, std::size_t first_input);

  /// Number of independent units: a head of keys and values with the queries that see it.
  [[nodiscard]] std::int64_t unit_count() const noexcept { return batches * key_heads; }
  /// Rows of a unit.
  [[nodiscard]] std::int64_t rows() const noexcept { return heads_per_key_head * queries; }
  /// Number of leading keys that the causal mask lets a row see.
  [[nodiscard]] std::int64_t visible_keys(std::int64_t row) const noexcept;
  /// The maximum of that number over rows [first, first + count).
  [[nodiscard]] std::int64_t visible_keys(std::int64_t first, std::int64_t count) const noexcept;
};

/// A tensor [..., heads, rows, columns] of any strides, including broadcast axes.
class HeadTensor {
 public:
  HeadTensor() = default;
  /// Aligned from the right with `queries`; without columns the tensor lacks the last axis.
  HeadTensor(const TensorView& view, const Shape& queries, bool has_columns) noexcept;

  [[nodiscard]] bool exists() const noexcept { return data_ != nullptr; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  /// Returns the steps of each head's matrix. Valid without data.
  [[nodiscard]] GemmOperand layout() const noexcept {
    return {nullptr, dtype_, row_step_, column_step_};
  }
  /// Returns the matrix of one head.
  [[nodiscard]] GemmOperand head(std::int64_t batch, std::int64_t head) const noexcept;
  /// Returns row `row` of a unit; each head of the unit has as many rows as queries.
  [[nodiscard]] GemmOperand row(const AttentionSizes& sizes,
                                std::int64_t unit,
                                std::int64_t row) const noexcept;
  /// Calls body(i, rows, n) for runs of rows [first + i, first + i + n) that lie in one head, until
  /// i + n is count.
  template <class Body>
  void each_run(const AttentionSizes& sizes,
                std::int64_t unit,
                std::int64_t first,
                std::int64_t count,
                const Body& body) const {
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t of_head = sizes.queries - (first + i) % sizes.queries;
      const std::int64_t n = std::min(count - i, of_head);
      body(i, row(sizes, unit, first + i), n);
      i += n;
    }
  }

 private:
  std::byte* data_ = nullptr;
  DType dtype_ = DType::f32;
  int batch_axes_ = 0;
  std::array<std::int64_t, kMaxRank> batch_sizes_{};
  std::array<std::int64_t, kMaxRank> batch_steps_{};
  std::int64_t head_step_ = 0;
  std::int64_t row_step_ = 0;
  std::int64_t column_step_ = 0;
};

/// Loads `count` rows of `columns` elements as T, contiguously into `to`.
template <class T>
void load_rows(const GemmOperand& rows,
               std::int64_t count,
               std::int64_t columns,
               const TileKernels<T>& kernels,
               T* to);

/// Returns the mask to add to a row's scores of keys [first, first + count); nullptr: no mask. The
/// mask is in place, or converted into `to`, with minus infinity where a bool mask is false.
template <class T>
[[nodiscard]] const T* mask_row(const HeadTensor& mask,
                                const AttentionSizes& sizes,
                                std::int64_t unit,
                                std::int64_t row,
                                std::int64_t first,
                                std::int64_t count,
                                const TileKernels<T>& kernels,
                                T* to);

}  // namespace hearth::cpu
