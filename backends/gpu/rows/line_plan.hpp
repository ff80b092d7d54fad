// Plans kernels that normalise lines (softmax, cross entropy and the like): the work of a
// workgroup, a thread and a load. A function of shapes, strides and the device. Threads: any.
#pragma once

#include <array>
#include <span>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "backends/gpu/space/axis_list.hpp"

namespace hearth::gpu {

/// A tensor that is read or written line by line.
struct LineOperand {
  const std::byte* data = nullptr;
  Strides strides{};
};

struct LinePlan {
  explicit LinePlan(int operand_count) noexcept : lines(operand_count) {}

  AxisList lines;                                            ///< All axes except the line's.
  std::int64_t length = 1;                                   ///< Elements of a line.
  std::array<std::int64_t, AxisList::kMostOperands> step{};  ///< Stride along a line, by operand.
  /// Neighbouring threads take lines that are neighbours in memory; else parts of one line.
  bool is_columns = false;
  bool wide = false;
  int pack = 1;  ///< Elements of a load.
  /// Lines begin and end anywhere, in all operands at the same distance from a multiple of `pack`.
  /// Loads begin at multiples of `pack`; the first and the last one are partial.
  bool is_ragged = false;
  int threads = 256;        ///< Threads of a workgroup.
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

/// The last operand is the result, or a stand-in for it: its memory order decides the neighbours.
/// `kept` is the number of operands that a thread keeps. Requires that the shape has elements.
[[nodiscard]] LinePlan plan_lines(const Shape& shape,
                                  int axis,
                                  DType dtype,
                                  std::span<const LineOperand> operands,
                                  int kept,
                                  const DeviceLimits& limits) noexcept;

}  // namespace hearth::gpu
