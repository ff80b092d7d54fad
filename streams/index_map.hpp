// Index maps: which elements of an input an element of a result is made of, as arithmetic on
// indices. Planners get from them which axes are one axis, which ops may be one loop, and how each
// operand is read. Plain values and pure functions. Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <hearth/streams/op_facts.hpp>

namespace hearth {

/// step * (index / divisor % modulus), with the index along one axis; a modulus of 0 leaves it out.
struct IndexTerm {
  int axis = 0;
  std::int64_t step = 1;
  std::int64_t divisor = 1;
  std::int64_t modulus = 0;
  friend bool operator==(const IndexTerm&, const IndexTerm&) noexcept = default;
};

/// start + the sum of its terms.
struct AffineIndex {
  std::int64_t start = 0;
  std::vector<IndexTerm> terms = {};

  [[nodiscard]] std::int64_t at(std::span<const std::int64_t> index) const noexcept;
  /// Whether it is the index along one axis, as it is.
  [[nodiscard]] bool is_plain() const noexcept;
  friend bool operator==(const AffineIndex&, const AffineIndex&) = default;
};

/// One axis of an input, as seen from an element of the result. It is read at index + k*reach_step
/// for each k below reach; what lies outside the axis is padding.
struct AxisLink {
  AffineIndex index = {};  ///< Of the result's axes; when is_inverse, of the input's own.
  std::int64_t reach = 1;
  std::int64_t reach_step = 1;
  /// The other way round: a result whose index along this axis is index + k*reach_step reads the
  /// element.
  int inverse_of = -1;
  /// Axes of one class have equal sizes in every call of the kind: numbers below the result's rank
  /// are its axes, the others are axes that inputs alone share. -1: in no class.
  int size_class = -1;
};

/// How an input is read for a result.
struct IndexMap {
  bool is_independent = false;      ///< No element of the result needs this input.
  bool is_row_major = false;        ///< The same place in row-major order; `axes` is empty.
  std::vector<AxisLink> axes = {};  ///< One for each axis of the input.
};

/// The map of an op's input for one of its results, by the rule. Requires operands that passed the
/// shape rules, of a kind whose rule is not `none`.
[[nodiscard]] IndexMap index_map(IndexRule rule,
                                 const OpView& op,
                                 std::span<const TensorSpec> inputs,
                                 std::span<const TensorSpec> outputs,
                                 int input,
                                 int output);
/// By the rule of the op's kind.
[[nodiscard]] IndexMap index_map(const OpView& op,
                                 std::span<const TensorSpec> inputs,
                                 std::span<const TensorSpec> outputs,
                                 int input,
                                 int output);

/// Whether the map lets the result's element read the input's. The indices lie in the shapes.
[[nodiscard]] bool reads(const IndexMap& map,
                         const Shape& input,
                         const Shape& output,
                         std::span<const std::int64_t> input_index,
                         std::span<const std::int64_t> output_index);

}  // namespace hearth
