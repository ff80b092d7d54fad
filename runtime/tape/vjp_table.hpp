// The VJP table: for each kind of op, the values that its gradient needs and the function that
// emits it. A row's function emits ops through the public functions, so a backward pass consists of
// records like any other work. Private to runtime.
// Threads: any; read-only data.
#pragma once

#include <array>
#include <cstdint>

#include "vjp_node.hpp"

namespace hearth {

/// The values that one operand's gradient needs: bit i of `operands` is operand i, bit i of
/// `outputs` is output i.
struct VjpNeeds {
  std::uint8_t operands = 0;
  std::uint8_t outputs = 0;
};

/// Takes the gradient of the op's first output and gives those of the needed operands.
using VjpFunction = void (*)(const VjpNode& node, Tensor gradient);

struct VjpRow {
  VjpFunction emit =
      nullptr;  ///< nullptr: the op passes on no gradient, and its results are untracked
  std::array<VjpNeeds, 8> needs = {};  ///< by operand; later operands need nothing
};

/// The row of a kind.
[[nodiscard]] const VjpRow& vjp_row(OpKind kind) noexcept;
/// The row of an op with these attributes, whose gradient may need more values than other ops of
/// the kind.
[[nodiscard]] const VjpRow& vjp_row(OpKind kind, std::span<const std::byte> attributes) noexcept;

/// 0, 1, … along the axis of a shape, in i64.
[[nodiscard]] Tensor places_along(const VjpNode& node,
                                  const Device& device,
                                  const Shape& shape,
                                  int axis);

/// bool[n, n], true on the diagonal.
[[nodiscard]] Tensor diagonal_mask(const VjpNode& node, const Device& device, std::int64_t n);

// Rules named *_gradient are those of backward kinds, for gradients of gradients.
namespace vjp {

// Elementwise, one operand.
void negation(const VjpNode& node, Tensor gradient);
void absolute(const VjpNode& node, Tensor gradient);
void exponential(const VjpNode& node, Tensor gradient);
void logarithm(const VjpNode& node, Tensor gradient);
void square_root(const VjpNode& node, Tensor gradient);
void inverse_square_root(const VjpNode& node, Tensor gradient);
void square(const VjpNode& node, Tensor gradient);
void sine(const VjpNode& node, Tensor gradient);
void cosine(const VjpNode& node, Tensor gradient);
void hyperbolic_tangent(const VjpNode& node, Tensor gradient);
void error_function(const VjpNode& node, Tensor gradient);
void arc_tangent(const VjpNode& node, Tensor gradient);
void sigmoid(const VjpNode& node, Tensor gradient);
void reciprocal(const VjpNode& node, Tensor gradient);
void logarithm_of_one_more(const VjpNode& node, Tensor gradient);
void exponential_less_one(const VjpNode& node, Tensor gradient);
void relu(const VjpNode& node, Tensor gradient);
void relu_gradient(const VjpNode& node, Tensor gradient);
void dropout(const VjpNode& node, Tensor gradient);
void cast(const VjpNode& node, Tensor gradient);
// Two and three operands.
void addition(const VjpNode& node, Tensor gradient);
void subtraction(const VjpNode& node, Tensor gradient);
void multiplication(const VjpNode& node, Tensor gradient);
void division(const VjpNode& node, Tensor gradient);
void power(const VjpNode& node, Tensor gradient);
/// min and max: at a tie each side gets half, as in PyTorch.
void extremum(const VjpNode& node, Tensor gradient);
/// atan2.
void angle(const VjpNode& node, Tensor gradient);
void selection(const VjpNode& node, Tensor gradient);
/// A custom op.
void expression(const VjpNode& node, Tensor gradient);
/// A custom kernel.
void custom(const VjpNode& node, Tensor gradient);
// Views and movement.
/// reshape, copy and expand: the gradient in the shape of the operand.
void same_values(const VjpNode& node, Tensor gradient);
void permutation(const VjpNode& node, Tensor gradient);
void slice(const VjpNode& node, Tensor gradient);
void slice_gradient(const VjpNode& node, Tensor gradient);
void concatenation(const VjpNode& node, Tensor gradient);
void transfer(const VjpNode& node, Tensor gradient);
// Reductions.
void summation(const VjpNode& node, Tensor gradient);
void average(const VjpNode& node, Tensor gradient);
/// Ties share the gradient equally.
void reduced_extremum(const VjpNode& node, Tensor gradient);
void product(const VjpNode& node, Tensor gradient);
// Contractions and pools.
void matmul(const VjpNode& node, Tensor gradient);
void convolution(const VjpNode& node, Tensor gradient);
void transposed_convolution(const VjpNode& node, Tensor gradient);
void weight_gradient(const VjpNode& node, Tensor gradient);
void max_pool(const VjpNode& node, Tensor gradient);
void average_pool(const VjpNode& node, Tensor gradient);
void max_pool_gradient(const VjpNode& node, Tensor gradient);
void average_pool_gradient(const VjpNode& node, Tensor gradient);
// Rows.
/// softmax and log_softmax.
void row_softmax(const VjpNode& node, Tensor gradient);
void softmax_gradient(const VjpNode& node, Tensor gradient);
void log_softmax_gradient(const VjpNode& node, Tensor gradient);
/// The running sum from the other end.
void running_sum(const VjpNode& node, Tensor gradient);
/// Right also for elements that are 0.
void running_product(const VjpNode& node, Tensor gradient);
/// cummax and cummin: to the last of equal values.
void running_extremum(const VjpNode& node, Tensor gradient);
void cross_entropy(const VjpNode& node, Tensor gradient);
void attention(const VjpNode& node, Tensor gradient);
/// gather, index_select and their adjoints, which are each other's gradients.
void indexing(const VjpNode& node, Tensor gradient);
void topk(const VjpNode& node, Tensor gradient);
/// scatter, by its mode.
void scattering(const VjpNode& node, Tensor gradient);

}  // namespace vjp

}  // namespace hearth
