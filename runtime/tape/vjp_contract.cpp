#include "vjp_table.hpp"

namespace hearth::vjp {
namespace {

// A stack of matrices as one tall matrix.
Tensor as_rows(const Arg& stack) {
  const Shape& shape = stack.tensor().shape();
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) {
    rows *= shape[axis];
  }
  return reshape(stack, {rows, shape[shape.rank() - 1]});
}

// d/db of a·b. If one matrix b serves a whole batch, one matmul over all rows sums the batch,
// instead of a batch of products and a sum. A transposed weight (Linear's) gets a transposed
// gradient, which optimizers read contiguously: a strided one made Adam three times as slow (bench:
// BM_TrainStep_Mlp, 1.2 to 0.4 ms).
Tensor matmul_rhs(const VjpNode& node, const Tensor& gradient) {
  Tensor a = node.last_operand(0).tensor();
  Tensor flat = gradient;
  if (node.shape(1).rank() == 2 && node.shape(0).rank() > 2) {
    a = as_rows(node.at(std::move(a)));
    flat = as_rows(node.at(std::move(flat)));
  }
  if (node.is_permuted(1)) {
    return transpose(node.at(
        hearth::matmul(node.at(transpose(node.at(std::move(flat)))), node.at(std::move(a)))));
  }
  return hearth::matmul(node.at(transpose(node.at(std::move(a)))), node.at(std::move(flat)));
}

Tensor submit_convolution(
    const VjpNode& node, OpKind kind, const Arg& a, const Arg& b, int operand) {
  const std::array inputs{a, b};
  return detail::submit({.kind = kind,
                         .location = node.location(),
                         .inputs = inputs,
                         .attributes = node.attribute_bytes()},
                        node.dtype(operand),
                        node.shape(operand));
}

void pool(const VjpNode& node, OpKind kind, std::span<const Arg> inputs) {
  node.give(0,
            detail::submit({.kind = kind,
                            .location = node.location(),
                            .inputs = inputs,
                            .attributes = node.attribute_bytes()},
                           node.dtype(0),
                           node.shape(0)));
}

bool has_bias(const VjpNode& node) noexcept {
  return node.operand_count() > 2 && node.needs(2);
}

}  // namespace

void matmul(const VjpNode& node, Tensor gradient) {
  if (has_bias(node)) {
    node.give(2, gradient);  // give() sums over rows and batches
  }
  if (node.needs(1)) {
    node.give(1, matmul_rhs(node, gradient));
  }
  if (node.needs(0)) {
    node.give(
        0, hearth::matmul(node.at(std::move(gradient)), node.at(transpose(node.last_operand(1)))));
  }
}

void convolution(const VjpNode& node, Tensor gradient) {
  if (has_bias(node)) {
    node.give(2, sum(node.at(gradient), {0, 2, 3}));
  }
  if (node.needs(1)) {
    node.give(1,
              submit_convolution(node,
                                 OpKind::conv2d_backward_weight,
                                 node.last_operand(0),
                                 node.at(std::as_const(gradient)),
                                 1));
  }
  if (node.needs(0)) {
    node.give(0,
              submit_convolution(node,
                                 OpKind::conv2d_backward_input,
                                 node.at(std::move(gradient)),
                                 node.last_operand(1),
                                 0));
  }
}

// The gradient of the input of a convolution, as conv_transpose2d computes it: linear in both.
void transposed_convolution(const VjpNode& node, Tensor gradient) {
  if (node.needs(1)) {
    node.give(1,
              submit_convolution(node,
                                 OpKind::conv2d_backward_weight,
                                 node.at(std::as_const(gradient)),
                                 node.last_operand(0),
                                 1));
  }
  if (node.needs(0)) {
    node.give(0,
              submit_convolution(
                  node, OpKind::conv2d, node.at(std::move(gradient)), node.last_operand(1), 0));
  }
}

// (x, grad) -> the gradient of the weight: linear in both, like the convolution.
void weight_gradient(const VjpNode& node, Tensor gradient) {
  if (node.needs(0)) {
    node.give(0,
              submit_convolution(node,
                                 OpKind::conv2d_backward_input,
                                 node.last_operand(1),
                                 node.at(std::as_const(gradient)),
                                 0));
  }
  if (node.needs(1)) {
    node.give(1,
              submit_convolution(
                  node, OpKind::conv2d, node.last_operand(0), node.at(std::move(gradient)), 1));
  }
}

void max_pool(const VjpNode& node, Tensor gradient) {
  const std::array inputs{node.at(std::move(gradient)), node.last_output(1)};
  pool(node, OpKind::max_pool2d_backward, inputs);
}

void average_pool(const VjpNode& node, Tensor gradient) {
  const Arg input = node.at(std::move(gradient));
  pool(node, OpKind::avg_pool2d_backward, {&input, 1});
}

// Picks the elements at the positions of the maxima, which count within a plane.
void max_pool_gradient(const VjpNode& node, Tensor gradient) {
  const Shape windows = node.shape(0);
  const Shape planes = gradient.shape();
  Tensor places = reshape(node.last_operand(1), {windows[0], windows[1], windows[2] * windows[3]});
  Tensor flat =
      reshape(node.at(std::move(gradient)), {planes[0], planes[1], planes[2] * planes[3]});
  Tensor picked = gather(node.at(std::move(flat)), 2, node.at(std::move(places)));
  node.give(0, reshape(node.at(std::move(picked)), windows));
}

void average_pool_gradient(const VjpNode& node, Tensor gradient) {
  const Arg input = node.at(std::move(gradient));
  pool(node, OpKind::avg_pool2d, {&input, 1});
}

}  // namespace hearth::vjp
