// The kinds of op records. What a kind is stands in op_table; what it does, in the tables of
// reference, cpu and vjp.
#pragma once

#include <cstdint>

namespace hearth {

enum class OpKind : std::uint16_t {
  // creation
  fill,              // out = value
  arange,            // out[i] = start + i*step
  random_uniform,    // out in [low, high)
  random_normal,     // mean, standard deviation
  random_bernoulli,  // 1 with probability p, else 0
  // one input, element by element
  cast,
  neg,
  abs,
  exp,
  log,
  sqrt,
  rsqrt,
  square,
  sin,
  cos,
  tanh,
  erf,
  sigmoid,
  recip,
  relu,
  dropout,  // x * mask / (1 - p), mask from (seed, counter)
  // two inputs, numpy broadcasting; either may be an immediate (RecordFlag::scalar_lhs, scalar_rhs)
  add,
  sub,
  mul,
  div,
  pow,
  min,
  max,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  relu_backward,  // (grad, y): grad where y > 0, else 0
  // three inputs
  where,  // (condition bool, a, b)
  // views: metadata only where the strides allow it
  reshape,
  permute,
  slice,
  expand,
  // data movement
  copy,           // same values, contiguous
  concat,         // n inputs along one axis
  slice_scatter,  // (grad): zeros, with grad written at the slice; the adjoint of slice
  // reductions
  reduce_sum,
  reduce_mean,
  reduce_max,
  argmax,  // i64 positions along one axis; ties take the first
  // contractions
  matmul,                  // (a[..., m, k], b[..., k, n], optional bias[n])
  conv2d,                  // (x[n, c, h, w], w[o, c/groups, kh, kw], optional bias[o])
  conv2d_backward_input,   // (grad, w) -> shape of x
  conv2d_backward_weight,  // (x, grad) -> shape of w
  // pooling over the last two axes of [n, c, h, w]
  max_pool2d,           // output y; the second, if asked for: i32 positions h*W + w in x's plane
  max_pool2d_backward,  // (grad, positions) -> shape of x
  avg_pool2d,
  avg_pool2d_backward,  // (grad) -> shape of x
  // rows
  softmax,
  log_softmax,
  softmax_backward,        // (grad, y)
  log_softmax_backward,    // (grad, y)
  cross_entropy,           // (logits[n, c], targets i32/i64[n]) -> losses[n], probabilities[n, c]
  cross_entropy_backward,  // (grad[n], probabilities, targets) -> [n, c]
  // optimizer updates; inputs parameter, gradient, state...; outputs parameter, state...
  sgd_step,   // (p, g) -> p, or (p, g, momentum) -> p, momentum
  adam_step,  // (p, g, m, v) -> p, m, v
  // records that move data or lifetimes; they never reach a kernel
  upload,       // host bytes -> tensor
  readback,     // tensor -> host bytes, fulfils a Pending
  lend,         // a tensor's bytes are lent to a client until it says done
  drop,         // the last name of a tensor is gone
  publish,      // flush point: what came before may be used by other lanes
  adopt,        // the tensor's home is this lane from here on
  group_begin,  // an update group: all or nothing
  group_end,
  sync,   // fulfils a Pending when all before it in the lane is done
  limit,  // what follows in the lane is given up at this deadline, or on this stop
};
inline constexpr int kOpKindCount = static_cast<int>(OpKind::limit) + 1;

}  // namespace hearth
