// Axes that a shader walks together, with the strides of several operands along each, and the GLSL
// that maps an index to offsets. Neighbouring axes are merged where all operands allow it. Values.
// Threads: any. Invariants: (1) no axis has size 1, except those of pad(); (2) the last axis is the
// fastest; (3) divisions by sizes are multiplications, unless indices are wide.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <hearth/runtime/base/shape.hpp>

#include "backends/gpu/encoder/parameter_block.hpp"
#include "strided.hpp"

namespace hearth::gpu {

class AxisList final {
 public:
  static constexpr int kMostOperands = 8;

  explicit AxisList(int operand_count) noexcept : operand_count_(operand_count) {}

  /// Appends a faster axis; merges it with the last one if the strides of all operands fit.
  void push(std::int64_t size, std::span<const std::int64_t> strides) noexcept;
  /// Appends axes of size 1 up to `rank`, so that lower ranks share a shader.
  void pad(int rank) noexcept;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int operand_count() const noexcept { return operand_count_; }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] std::int64_t size(int axis) const noexcept {
    return size_[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] std::int64_t stride(int axis, int operand) const noexcept {
    return stride_[static_cast<std::size_t>(axis)][static_cast<std::size_t>(operand)];
  }
  /// Size of the last axis, and its stride; 1 and 0 without axes.
  [[nodiscard]] std::int64_t inner_size() const noexcept { return rank_ > 0 ? size(rank_ - 1) : 1; }
  [[nodiscard]] std::int64_t inner_stride(int operand) const noexcept {
    return rank_ > 0 ? stride(rank_ - 1, operand) : 0;
  }
  /// Largest distance of the operand's elements from element 0.
  [[nodiscard]] std::int64_t reach(int operand) const noexcept;
  /// True if `pack` elements along the last axis are contiguous in this operand, and all other
  /// strides are multiples of `pack`.
  [[nodiscard]] bool has_packs(int operand, std::int64_t pack) const noexcept;
  /// True if all strides are multiples of `pack`.
  [[nodiscard]] bool steps_packs(int operand, std::int64_t pack) const noexcept;

  /// Adds the members of glsl_members(), in their order.
  void add_to(ParameterBlock& parameters, bool wide) const noexcept;
  /// "int NAME_n1; ..." for glsl_parameters().
  [[nodiscard]] std::string glsl_members(std::string_view name, bool wide) const;
  /// Declares `void NAME_places(INDEX i, out INDEX o0, ...)`, an offset for each operand. Needs
  /// glsl_divide().
  [[nodiscard]] std::string glsl_places(std::string_view name, bool wide) const;

 private:
  int rank_ = 0;
  int operand_count_ = 0;
  std::int64_t count_ = 1;
  std::array<std::int64_t, kMaxRank> size_;  // of rank_ axes; the others have no value
  std::array<std::array<std::int64_t, kMostOperands>, kMaxRank> stride_;
};

/// Adds an index as the prelude's INDEX.
inline void add_index(ParameterBlock& parameters, bool wide, std::int64_t value) noexcept {
  if (wide) {
    parameters.add(value);
  } else {
    parameters.add(static_cast<std::int32_t>(value));
  }
}

}  // namespace hearth::gpu
