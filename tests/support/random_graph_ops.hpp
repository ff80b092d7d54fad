// The ops of random graphs (random_graph.hpp): members of groups, and the ops between groups.
// Threads: any; a row is a pure function of the values so far and of the bytes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor.hpp>

#include "tests/support/random_bytes.hpp"

namespace hearth::testing {

/// An op under construction: the values so far, and the remaining choices.
class GraphDraft final {
 public:
  GraphDraft(ByteReader& bytes, const std::vector<Tensor>& values, SourceLoc loc) noexcept
      : bytes_(&bytes), values_(&values), loc_(loc) {}

  [[nodiscard]] int pick(int count) { return bytes_->pick(count); }
  [[nodiscard]] bool chance(int of) { return pick(of) == 1; }
  [[nodiscard]] SourceLoc loc() const noexcept { return loc_; }
  [[nodiscard]] Arg of(const Tensor& tensor) const { return {tensor, loc_}; }
  /// An intermediate result of the op, at its last use.
  [[nodiscard]] Arg of(Tensor&& tensor) const { return {std::move(tensor), loc_}; }
  template <class Number>
  [[nodiscard]] Arg number(Number value) const {
    return {value, loc_};
  }
  /// A value that broadcasts with x, in the type of x; x itself if there is none.
  [[nodiscard]] Tensor other(const Tensor& x);
  /// Axes of x: the last, the last two, all, or any. x must have one.
  [[nodiscard]] std::vector<int> axes(const Tensor& x);

 private:
  ByteReader* bytes_;
  const std::vector<Tensor>* values_;
  SourceLoc loc_;
};

struct GraphOp {
  /// Required type of the operand, which otherwise is cast or gets an axis before the op.
  enum class Takes : std::uint8_t { floats, numbers, bools, any };

  std::string_view name;
  Takes takes;
  /// Returns an empty tensor if the operand's shape does not fit.
  Tensor (*make)(GraphDraft& draft, const Tensor& x);
  /// Some values make it fail.
  bool may_fail = false;
};

/// All ops; some values make the last one fail.
[[nodiscard]] std::span<const GraphOp> graph_ops() noexcept;

/// Makes the op of a tensor, which is cast if necessary.
[[nodiscard]] Tensor make_graph_op(const GraphOp& op, GraphDraft& draft, const Tensor& given);

/// A loss of the float tensor x. Most losses are plain, so that the incoming gradient is one number
/// for all elements.
[[nodiscard]] Tensor graph_loss(GraphDraft& draft, const Tensor& x);

}  // namespace hearth::testing
