// Submits ops of kind `expression`: turns an expression, tensors and scalars into a record. Private
// to runtime. Threads: any; uses the calling thread's current stream of the operands' device.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <hearth/streams/kernel/expression.hpp>

#include "op_submit.hpp"

namespace hearth::detail {

/// The parameters of an op in the form of its blob: floats are rounded to their types.
class ParameterBits {
 public:
  /// Requires one scalar for each parameter of the expression. Integer and bool parameters use its
  /// `integer`, others its `real`.
  ParameterBits(const Expression& expression, std::span<const ScalarAttributes> scalars) noexcept;
  /// Converts an update's numbers; integer and bool parameters get the truncated value.
  ParameterBits(const Expression& expression, std::span<const double> scalars) noexcept;
  /// Copies the bits of another record.
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

/// Submits the op; `results` has one entry for each result of the expression. Errors: ShapeError,
/// DtypeError if the inputs do not fit, DeviceMismatch, naming the expression and the line.
void submit(const ExpressionOp& op, std::span<Tensor> results);

}  // namespace hearth::detail
