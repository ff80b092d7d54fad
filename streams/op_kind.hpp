// The kinds of op records. op_table has the facts of a kind; its implementations are in the tables
// of reference, cpu and vjp.
#pragma once

#include <cstdint>

namespace hearth {

// Numbers are fixed for ever, because trace files store them. A new kind takes the next free
// number, at the end; the number of a removed kind is never reused.
enum class OpKind : std::uint16_t {
  // creation
  fill = 0,              // out = value
  arange = 1,            // out[i] = start + i*step
  random_uniform = 2,    // out in [low, high)
  random_normal = 3,     // mean, standard deviation
  random_bernoulli = 4,  // 1 with probability p, else 0
  // one input, element by element
  cast = 5,
  neg = 6,
  abs = 7,
  exp = 8,
  log = 9,
  sqrt = 10,
  rsqrt = 11,
  square = 12,
  sin = 13,
  cos = 14,
  tanh = 15,
  erf = 16,
  sigmoid = 17,
  recip = 18,
  relu = 19,
  dropout = 20,  // x * mask / (1 - p), mask from (seed, counter)
  // two inputs, numpy broadcasting; either may be an immediate (RecordFlag::scalar_lhs, scalar_rhs)
  add = 21,
  sub = 22,
  mul = 23,
  div = 24,
  pow = 25,
  min = 26,
  max = 27,
  equal = 28,
  not_equal = 29,
  less = 30,
  less_equal = 31,
  greater = 32,
  greater_equal = 33,
  relu_backward = 34,  // (grad, y): 0 where y <= 0, else grad
  // three inputs
  where = 35,  // (condition bool, a, b)
  // views: metadata only where the strides allow it
  reshape = 36,
  permute = 37,
  slice = 38,
  expand = 39,
  // data movement
  copy = 40,           // same values, contiguous
  concat = 41,         // n inputs along one axis
  slice_scatter = 42,  // (grad): zeros, with grad written at the slice; the adjoint of slice
  // reductions
  reduce_sum = 43,
  reduce_mean = 44,
  reduce_max = 45,
  argmax = 46,  // i64 positions along one axis; the first of equal values
  // contractions
  matmul = 47,                  // (a[..., m, k], b[..., k, n], optional bias[n])
  conv2d = 48,                  // (x[n, c, h, w], w[o, c/groups, kh, kw], optional bias[o])
  conv2d_backward_input = 49,   // (grad, w) -> shape of x
  conv2d_backward_weight = 50,  // (x, grad) -> shape of w
  // pooling over the last two axes of [n, c, h, w]
  max_pool2d = 51,           // output y; optional second: i32 positions h*W + w in x's plane
  max_pool2d_backward = 52,  // (grad, positions) -> shape of x
  avg_pool2d = 53,
  avg_pool2d_backward = 54,  // (grad) -> shape of x
  // rows
  softmax = 55,
  log_softmax = 56,
  softmax_backward = 57,      // (grad, y)
  log_softmax_backward = 58,  // (grad, y)
  cross_entropy = 59,  // (logits[n, c], targets i32/i64[n]) -> losses[n], probabilities[n, c]
  cross_entropy_backward = 60,  // (grad[n], probabilities, targets) -> [n, c]
  // optimizer updates; inputs parameter, gradient, state...; outputs parameter, state...
  sgd_step = 61,   // (p, g) -> p, or (p, g, momentum) -> p, momentum
  adam_step = 62,  // (p, g, m, v) -> p, m, v
  // records that move data or lifetimes; they never reach a kernel
  upload = 63,       // host bytes -> tensor
  readback = 64,     // tensor -> host bytes, fulfils a Pending
  lend = 65,         // a tensor's bytes are lent to a client until it returns them
  drop = 66,         // the last handle of a tensor is gone
  publish = 67,      // flush point: earlier results may be used by other lanes
  adopt = 68,        // the tensor's home is this lane from here on
  group_begin = 69,  // an update group: all or nothing
  group_end = 70,
  sync = 71,   // fulfils a Pending when all earlier records in the lane are done
  limit = 72,  // following records in the lane are abandoned at this deadline or stop
  // an elementwise function that the program captured: kernel/expression.hpp
  expression = 73,  // (inputs...) -> outputs; an update is (parameter, gradient, state...)
  // along one axis, at the positions in an i32 or i64 index
  gather = 74,        // (x, index of x's rank) -> values in index's shape
  index_select = 75,  // (x, index[n]) -> x's shape with n along the axis
  scatter_add = 76,   // (source, index): zeros, with source added; the adjoint of gather
  index_add = 77,     // (source, index): zeros, with source added; the adjoint of index_select
  // one input, element by element
  log1p = 78,
  expm1 = 79,
  // reductions
  reduce_min = 80,
  reduce_prod = 81,
  argmin = 82,  // i64 positions along one axis; the first of equal values
  // scans
  cumsum = 83,  // sums from the start of an axis, or from its end
  // attention
  attention = 84,           // (q, k, v, optional mask) -> y; optional second: statistics
  attention_backward = 85,  // (grad, q, k, v, y, statistics, optional mask) -> gradients of q, k, v
  // the largest or smallest along one axis
  topk = 86,  // (x) -> values in order, i64 positions
  // one input, element by element: to whole numbers
  floor = 87,
  ceil = 88,
  round = 89,  // halves to even
  trunc = 90,
  // a program's own kernel: runtime/base/threads/custom_code.hpp
  custom = 91,  // (inputs...) -> outputs, by the program's rule
  // angles
  atan = 92,   // one input, element by element
  atan2 = 93,  // (y, x), numpy broadcasting
  // along one axis, at the positions in an i32 or i64 index
  scatter = 94,  // (x, index of x's rank, updates) -> x, with the updates written at the index
  // scans, from the start of an axis or from its end
  cumprod = 95,
  cummax = 96,
  cummin = 97,
  // two inputs, numpy broadcasting: the bits of integers
  bitwise_and = 98,
  bitwise_or = 99,
  bitwise_xor = 100,
  shift_left = 101,
  shift_right = 102,
};
inline constexpr int kOpKindCount = static_cast<int>(OpKind::shift_right) + 1;

}  // namespace hearth
