// The tensors of an attention call, as a kernel reads them. Each head of keys is one matrix, whose
// rows are the queries of all heads that share it. Values. Threads: any.
#pragma once

#include <array>
#include <cstdint>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "backends/gpu/space/axis_list.hpp"

namespace hearth::gpu {

/// Strides in elements; `head` is the stride of query heads within a group.
struct AttentionMatrix {
  std::uint64_t address = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

enum class AttentionMask : std::uint32_t { none, booleans, floats };

struct AttentionOperands {
  /// Indices of the operands in `heads` and in `matrices`.
  enum Place : std::size_t { q, k, v, mask, grad, statistics, y, kPlaces };

  /// `first` is the index of q among the inputs, `mask_place` that of the mask.
  AttentionOperands(const KernelCall& call, std::size_t first, std::size_t mask_place) noexcept;

  /// Adds an input tensor that has the axes of queries.
  void add_rows(Place place, const TensorView& view) noexcept;
  /// Lists the heads and chooses the width of indices; call after the last add_rows().
  void finish() noexcept;

  [[nodiscard]] const AttentionMatrix& matrix(Place place) const noexcept {
    return matrices[place];
  }
  [[nodiscard]] std::int64_t rows() const noexcept { return group * queries; }

  std::array<AttentionMatrix, kPlaces> matrices{};
  AxisList heads{kPlaces};  ///< Key heads of all batches.
  std::int64_t group = 1;   ///< Query heads that share a key head.
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
  std::int64_t value_width = 0;
  DType dtype = DType::f32;
  AttentionMask mask_kind = AttentionMask::none;
  bool is_causal = false;
  bool wide = false;
  double scale = 1;

 private:
  void add(Place place, const TensorView& view, const Strides& strides, bool of_queries) noexcept;

  Shape shape_;  // shape of the queries
  std::int64_t key_heads_ = 1;
  std::array<Strides, kPlaces> strides_{};
  std::array<bool, kPlaces> of_queries_{};
};

}  // namespace hearth::gpu
