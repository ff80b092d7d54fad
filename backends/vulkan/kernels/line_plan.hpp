// How kernels that normalise lines (softmax, cross entropy and the like) are cut: what a workgroup,
// a thread and a load take. A function of shapes, strides and the device. Threads: any.
#pragma once

#include "axis_list.hpp"
#include "backends/vulkan/kernel_encoder.hpp"

#include <array>
#include <span>

namespace hearth::vulkan {

/// A tensor that is read or written line by line.
struct LineOperand {
  const std::byte* data = nullptr;
  Strides strides{};
};

struct LinePlan {
  explicit LinePlan(int operand_count) noexcept : lines(operand_count) {}

  AxisList lines;                                            ///< All axes but the one of the line.
  std::int64_t length = 1;                                   ///< Of a line.
  std::array<std::int64_t, AxisList::kMostOperands> step{};  ///< Along a line.
  /// Threads side by side take lines that are neighbours in memory; else parts of one line.
  bool is_columns = false;
  bool wide = false;
  int pack = 1;  ///< Elements of a load.
  /// Lines begin and end anywhere, in all operands at the same distance from a whole pack: a load
  /// begins at a multiple of `pack` in memory, and the first and the last one are parts.
  bool is_ragged = false;
  int threads = 256;        ///< Of a workgroup.
  int lanes = 1;            ///< Threads that share a line; a power of two.
  int rounds = 0;           ///< Loads that a thread keeps in registers; 0: it reads twice.
  std::int64_t splits = 1;  ///< Workgroups that share a line.
  std::int64_t chunk = 0;   ///< Elements of a line in a split.

  /// Lines of a thread.
  [[nodiscard]] int columns() const noexcept { return is_columns ? pack : 1; }
  [[nodiscard]] std::int64_t group_lines() const noexcept {
    return std::int64_t{threads} / lanes * columns();
  }
  [[nodiscard]] std::int64_t groups() const noexcept {
    return (lines.count() + group_lines() - 1) / group_lines() * splits;
  }
};

/// The last operand is the result, or stands for it, as the one whose neighbours matter most.
/// `kept` is how many of the operands a thread keeps. The shape has elements.
[[nodiscard]] LinePlan plan_lines(const Shape& shape,
                                  int axis,
                                  DType dtype,
                                  std::span<const LineOperand> operands,
                                  int kept,
                                  const DeviceLimits& limits) noexcept;

}  // namespace hearth::vulkan
