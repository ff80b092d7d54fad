// The ops of random programs, one row each. Threads: any; a row is a pure function of its operands
// and of its choices, so that the reference can repeat it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth::testing {

/// The kind of values of a program's tensors.
enum class Values : std::uint8_t {
  exact,   ///< Small integers of every dtype, and ops that are exact on them: devices agree.
  smooth,  ///< f32 and f64, and functions that round.
};

/// The operands inside an op, each with the line of the program's node.
class OpCall final {
 public:
  using Choices = std::array<std::uint8_t, 4>;

  /// `moves`: bit i moves operand i in, so that its bytes may be reused.
  OpCall(std::vector<Tensor> operands, SourceLoc loc, unsigned moves, const Choices& choices)
      : tensors_(std::move(operands)), loc_(loc), moves_(moves), choices_(choices) {}

  /// The operand; its last use, if it is moved in.
  [[nodiscard]] Arg operator()(std::size_t i) {
    return (moves_ >> i & 1U) != 0 ? Arg(std::move(tensors_[i]), loc_) : keep(i);
  }
  /// The operand, for a use that is not the last.
  [[nodiscard]] Arg keep(std::size_t i) const { return {tensors_[i], loc_}; }
  /// An intermediate result of the op.
  [[nodiscard]] Arg of(Tensor&& tensor) const { return {std::move(tensor), loc_}; }
  template <class Number>
  [[nodiscard]] Arg number(Number value) const {
    return {value, loc_};
  }
  [[nodiscard]] const Tensor& tensor(std::size_t i) const { return tensors_[i]; }
  [[nodiscard]] const Shape& shape(std::size_t i = 0) const { return tensors_[i].shape(); }
  [[nodiscard]] int rank() const { return shape().rank(); }
  [[nodiscard]] DType dtype(std::size_t i = 0) const { return tensors_[i].dtype(); }
  [[nodiscard]] SourceLoc loc() const { return loc_; }
  /// Converts operand i to this type before the op.
  void convert(std::size_t i, DType dtype);
  /// A number below `count`; equal in each run of the op.
  [[nodiscard]] int pick(int count) { return choices_.at(next_++) % count; }

 private:
  std::vector<Tensor> tensors_;
  SourceLoc loc_;
  unsigned moves_;
  Choices choices_;
  std::size_t next_ = 0;
};

struct RandomOp {
  enum class Family : std::uint8_t { map, pair, view, fold };
  enum class For : std::uint8_t { exact, smooth, both };

  std::string_view name;
  Family family;
  For values;
  Tensor (*make)(OpCall& call);
  int arity = 1;
};

/// The rows of a family that support such values.
[[nodiscard]] const std::vector<const RandomOp*>& random_ops(RandomOp::Family family,
                                                             Values values);
/// The row of this name. Errors: std::out_of_range.
[[nodiscard]] const RandomOp& random_op(std::string_view name);

/// Whether the two may be tried as operands of the op: the result is small.
[[nodiscard]] bool may_pair(const RandomOp& op, const Tensor& a, const Tensor& b);
/// Whether the op must accept the two; otherwise it must refuse them.
[[nodiscard]] bool must_take(const RandomOp& op, const Tensor& a, const Tensor& b);

/// Makes the op's result. Large results are clipped; exact values become small integers again.
[[nodiscard]] Tensor run_op(const RandomOp& op, OpCall call, Values values);
/// Converts x to small integers; a bool stays.
[[nodiscard]] Tensor tame(Tensor x, SourceLoc loc);

}  // namespace hearth::testing
