// Ops of kind `expression`: from an expression, tensors and scalars to a record. Private to
// runtime. Threads: any; works on the calling thread's current stream of the operands' device.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <hearth/streams/kernel/expression.hpp>

#include "op_submit.hpp"

namespace hearth::detail {

/// The parameters of an op, as its blob has them: floats rounded to their types.
class ParameterBits {
 public:
  /// Requires as many scalars as the expression has parameters, each with its `integer` where the
  /// parameter is an integer or a bool, else with its `real`.
  ParameterBits(const Expression& expression, std::span<const ScalarAttributes> scalars) noexcept;
  /// The same of an update's numbers: its bools, and integers, take the value without its fraction.
  ParameterBits(const Expression& expression, std::span<const double> scalars) noexcept;
  /// Bits as another record has them.
  explicit ParameterBits(std::span<const std::uint64_t> bits) noexcept;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::as_bytes(std::span(bits_).first(count_));
  }
  [[nodiscard]] std::uint64_t operator[](std::size_t i) const noexcept { return bits_[i]; }

 private:
  std::array<std::uint64_t, kMostExpressionParameters> bits_{};
  std::size_t count_;
};

struct ExpressionOp {
  const ExpressionRef& expression;
  std::span<const Arg> inputs;
  ParameterBits parameters;
  SourceLoc location;
  std::uint16_t flags = 0;  ///< RecordFlag bits
};

/// Submits it; `results` has one for each of the expression's. Errors: ShapeError, DtypeError when
/// the inputs do not fit, DeviceMismatch, naming the expression and the line.
void submit(const ExpressionOp& op, std::span<Tensor> results);

}  // namespace hearth::detail
