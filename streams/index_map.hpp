// Index maps: which elements of an input contribute to an element of a result, as arithmetic on
// indices. Planners derive from them which axes can be merged, which ops can share a loop, and how
// each operand is read. Plain values and pure functions. Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <hearth/streams/op_facts.hpp>

namespace hearth {

/// The term step * (index / divisor % modulus), with the index along one axis. A modulus of 0
/// leaves out the %.
struct IndexTerm {
  int axis = 0;
  std::int64_t step = 1;
  std::int64_t divisor = 1;
  std::int64_t modulus = 0;
  friend bool operator==(const IndexTerm&, const IndexTerm&) noexcept = default;
};

/// An index: start + the sum of the terms.
struct AffineIndex {
  std::int64_t start = 0;
  std::vector<IndexTerm> terms = {};

  [[nodiscard]] std::int64_t at(std::span<const std::int64_t> index) const noexcept;
  /// Returns whether it is exactly the index along one axis.
  [[nodiscard]] bool is_plain() const noexcept;
  friend bool operator==(const AffineIndex&, const AffineIndex&) = default;
};

/// One axis of an input, for one element of the result. The axis is read at index + k*reach_step
/// for each k below reach. Positions outside the axis are padding.
struct AxisLink {
  AffineIndex index = {};  ///< Over the result's axes; of an inverse link, over the input's.
  std::int64_t reach = 1;
  std::int64_t reach_step = 1;
  /// Axis of the result for an inverse link, else -1. The input element is read by the results
  /// whose index along this axis is index + k*reach_step.
  int inverse_of = -1;
  /// Class of axes with equal sizes in every call of the kind. Numbers below the result's rank are
  /// its axes; the others are axes that only inputs share. -1: in no class.
  int size_class = -1;
};

/// How an input is read for a result.
struct IndexMap {
  bool is_independent = false;      ///< No element of the result needs this input.
  bool is_row_major = false;        ///< Read at the result's row-major position; `axes` is empty.
  std::vector<AxisLink> axes = {};  ///< One for each axis of the input.
};

/// Returns the map of an op's input for one of its results, by the rule. Requires operands that
/// passed the shape rules, of a kind whose rule is not `none`.
[[nodiscard]] IndexMap index_map(IndexRule rule,
                                 const OpView& op,
                                 std::span<const TensorSpec> inputs,
                                 std::span<const TensorSpec> outputs,
                                 int input,
                                 int output);
/// Returns the map by the rule of the op's kind.
[[nodiscard]] IndexMap index_map(const OpView& op,
                                 std::span<const TensorSpec> inputs,
                                 std::span<const TensorSpec> outputs,
                                 int input,
                                 int output);

/// Returns whether the map lets the result's element read the input's. The indices are inside the
/// shapes.
[[nodiscard]] bool reads(const IndexMap& map,
                         const Shape& input,
                         const Shape& output,
                         std::span<const std::int64_t> input_index,
                         std::span<const std::int64_t> output_index);

}  // namespace hearth
