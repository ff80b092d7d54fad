// The ops of random graphs (random_graph.hpp): what groups of ops are made of, and what stands
// between them. Threads: any; a row is a pure function of the values so far and of the bytes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor.hpp>

#include "tests/support/random_bytes.hpp"

namespace hearth::testing {

/// One op that is being made: the values so far, and the choices that are left.
class GraphDraft final {
 public:
  GraphDraft(ByteReader& bytes, const std::vector<Tensor>& values, SourceLoc loc) noexcept
      : bytes_(&bytes), values_(&values), loc_(loc) {}

  [[nodiscard]] int pick(int count) { return bytes_->pick(count); }
  [[nodiscard]] bool chance(int of) { return pick(of) == 1; }
  [[nodiscard]] SourceLoc loc() const noexcept { return loc_; }
  [[nodiscard]] Arg of(const Tensor& tensor) const { return {tensor, loc_}; }
  /// What a part of the op made: its last use.
  [[nodiscard]] Arg of(Tensor&& tensor) const { return {std::move(tensor), loc_}; }
  template <class Number>
  [[nodiscard]] Arg number(Number value) const {
    return {value, loc_};
  }
  /// A value that x broadcasts with, in its type; x itself where there is no other.
  [[nodiscard]] Tensor other(const Tensor& x);
  /// Axes of x: the last, the last two, all, or any. x has one.
  [[nodiscard]] std::vector<int> axes(const Tensor& x);

 private:
  ByteReader* bytes_;
  const std::vector<Tensor>* values_;
  SourceLoc loc_;
};

struct GraphOp {
  /// What its operand has to be; else it is cast before, or given an axis.
  enum class Takes : std::uint8_t { floats, numbers, bools, any };

  std::string_view name;
  Takes takes;
  /// Nothing where the operand's shape does not do.
  Tensor (*make)(GraphDraft& draft, const Tensor& x);
  /// It may fail for its values.
  bool may_fail = false;
};

/// The last one may fail for its values.
[[nodiscard]] std::span<const GraphOp> graph_ops() noexcept;

/// Makes the op of a tensor, which is cast where it must be.
[[nodiscard]] Tensor make_graph_op(const GraphOp& op, GraphDraft& draft, const Tensor& given);

/// A loss of x, a float: most of them plain, so that the gradient that comes in is a number
/// everywhere.
[[nodiscard]] Tensor graph_loss(GraphDraft& draft, const Tensor& x);

}  // namespace hearth::testing
