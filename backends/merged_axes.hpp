// Axes that several operands walk together, slowest first, with the strides of each operand.
// Neighbouring axes are merged where all operands allow it. The index spaces of all backends use
// it. Values. Threads: any.
// Invariants: (1) the axes keep the row-major order in which they were appended; (2) no axis has
// size 1, except those of pad().
#pragma once

#include <hearth/runtime/base/shape.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth::detail {

/// Axes of up to `most_operands` operands.
template <std::size_t most_operands>
struct MergedAxes {  // NOLINT(cppcoreguidelines-pro-type-member-init)
  static constexpr std::size_t kMostOperands = most_operands;

  int rank = 0;
  std::size_t operand_count = 0;
  std::array<std::int64_t, kMaxRank> size;    ///< The first `rank` have a value.
  std::array<Strides, most_operands> stride;  ///< In elements, by operand, then by axis.

  MergedAxes() = default;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  /// strides[i] are those of operand i over `shape`, which has elements. A shape of one element has
  /// one axis, of size and stride 1.
  MergedAxes(const Shape& shape, std::span<const Strides> strides) noexcept  // NOLINT
      : operand_count(strides.size()) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      append(shape[axis], [&](std::size_t i) { return strides[i][at(axis)]; });
    }
    pad(1, 1);
  }

  /// Appends a faster axis, of stride stride_of(operand). Merges it with the last one if the
  /// strides of all operands fit. The axes below `first` stay apart. Leaves out an axis of size 1.
  template <class StrideOf>
  void append(std::int64_t length, StrideOf&& stride_of, int first = 0) noexcept {
    if (length == 1) {
      return;
    }
    bool merges = rank > first;
    for (std::size_t i = 0; merges && i < operand_count; ++i) {
      merges = stride[i][at(rank - 1)] == stride_of(i) * length;
    }
    const std::size_t to = at(merges ? rank - 1 : rank);
    size[to] = merges ? size[to] * length : length;
    for (std::size_t i = 0; i < operand_count; ++i) {
      stride[i][to] = stride_of(i);
    }
    rank += merges ? 0 : 1;
  }
  /// Appends axes of size 1 up to `least_rank`, with this stride for all operands.
  void pad(int least_rank, std::int64_t step) noexcept {
    for (; rank < least_rank; ++rank) {
      size[at(rank)] = 1;
      for (std::size_t i = 0; i < operand_count; ++i) {
        stride[i][at(rank)] = step;
      }
    }
  }

  /// Size and stride of the last axis. Requires an axis.
  [[nodiscard]] std::int64_t inner_size() const noexcept { return size[at(rank - 1)]; }
  [[nodiscard]] std::int64_t inner_stride(std::size_t operand) const noexcept {
    return stride[operand][at(rank - 1)];
  }
  /// True if axes begin … end - 1 of the operand lie in memory as those of a contiguous tensor.
  [[nodiscard]] bool is_linear(std::size_t operand, int begin, int end) const noexcept {
    std::int64_t expected = 1;
    for (int axis = end - 1; axis >= begin; --axis) {
      if (size[at(axis)] != 1 && stride[operand][at(axis)] != expected) {
        return false;
      }
      expected *= size[at(axis)];
    }
    return true;
  }
  [[nodiscard]] bool is_linear(std::size_t operand) const noexcept {
    return is_linear(operand, 0, rank);
  }
  /// True if all elements along these axes are the same element.
  [[nodiscard]] bool repeats(std::size_t operand, int begin, int end) const noexcept {
    for (int axis = begin; axis < end; ++axis) {
      if (size[at(axis)] != 1 && stride[operand][at(axis)] != 0) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool repeats(std::size_t operand) const noexcept {
    return repeats(operand, 0, rank);
  }
  /// Distance from the operand's lowest element to element [0, 0, ...]: at least 0, in elements.
  [[nodiscard]] std::int64_t reach_down(std::size_t operand) const noexcept {
    std::int64_t down = 0;
    for (int axis = 0; axis < rank; ++axis) {
      const std::int64_t way = (size[at(axis)] - 1) * stride[operand][at(axis)];
      down -= way < 0 ? way : 0;
    }
    return down;
  }
  /// Distance from the operand's lowest element to its highest, in elements.
  [[nodiscard]] std::int64_t reach(std::size_t operand) const noexcept {
    std::int64_t all = 0;
    for (int axis = 0; axis < rank; ++axis) {
      const std::int64_t way = (size[at(axis)] - 1) * stride[operand][at(axis)];
      all += way < 0 ? -way : way;
    }
    return all;
  }
  /// Largest distance from element [0, 0, ...], in elements.
  [[nodiscard]] std::int64_t reach_from_first(std::size_t operand) const noexcept {
    const std::int64_t down = reach_down(operand);
    return std::max(down, reach(operand) - down);
  }

 protected:
  [[nodiscard]] static constexpr std::size_t at(int axis) noexcept {
    return static_cast<std::size_t>(axis);
  }
};

}  // namespace hearth::detail
