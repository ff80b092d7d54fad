// The attributes of each kind: one plain struct, stored in the record (up to 16 bytes) or in its
// blob. Values, any thread. Unused entries are zero, so that equal attributes have equal bytes.
#pragma once

#include <array>
#include <cstdint>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/scatter_mode.hpp>

namespace hearth {

/// fill, and the immediate of a binary op with a scalar. `real` for float dtypes, `integer` for the
/// others.
struct ScalarAttributes {
  double real = 0;
  std::int64_t integer = 0;
};
/// arange. Integer dtypes use the values rounded toward zero.
struct ArangeAttributes {
  double start = 0;
  double step = 1;
};
/// random_uniform (a = low, b = high), random_normal (a = mean, b = standard deviation),
/// random_bernoulli (a = p), dropout (a = p). Element i of an op uses word i%4 of Philox4x32-10
/// block counter + i/4 under key seed. normal and f64 need two words each, see
/// runtime/base/values/philox.hpp.
struct RandomAttributes {
  std::uint64_t seed = 0;
  std::uint64_t counter = 0;
  double a = 0;
  double b = 1;
};
/// reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod: bit i of axes = axis i is reduced.
struct ReduceAttributes {
  std::uint32_t axes = 0;
  std::uint32_t keep_dims = 0;
};
/// argmax, argmin, concat, softmax, log_softmax and their backward kinds; gather, index_select and
/// their adjoints.
struct AxisAttributes {
  std::int32_t axis = 0;
  std::int32_t keep_dims = 0;
};
/// scatter.
struct ScatterAttributes {
  std::int32_t axis = 0;
  ScatterMode mode = ScatterMode::set;
};
/// cumsum, cumprod, cummax, cummin: element i along the axis joins the elements up to i, or, with
/// reverse = 1, from i on.
struct ScanAttributes {
  std::int32_t axis = 0;
  std::int32_t reverse = 0;
};
/// topk. The result's size along the axis is the requested count.
struct TopkAttributes {
  std::int32_t axis = 0;
  std::int32_t smallest = 0;  ///< 1: the smallest instead of the largest.
};
/// attention and its backward kind. With causal = 1, query i of n attends to the keys up to i + key
/// count - n: the queries are the last positions.
struct AttentionAttributes {
  double scale = 1;  ///< Factor of the products of queries and keys.
  std::int64_t causal = 0;
};
/// permute: axis i of the result is axis axes[i] of the input.
struct PermuteAttributes {
  std::array<std::uint8_t, 8> axes{};
};
/// slice and slice_scatter: result index j along axis i is input index start[i] + j*step[i]. The
/// lengths are those of the slice's shape.
struct SliceAttributes {
  std::array<std::int64_t, 8> start{};
  std::array<std::int64_t, 8> step{};
};
/// conv2d and its backward kinds; [0] = height, [1] = width.
struct ConvAttributes {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
};
/// max_pool2d, avg_pool2d and their backward kinds. Padding counts as -infinity (max) or is
/// excluded from the mean (avg), unless count_include_pad is 1.
struct PoolAttributes {
  std::array<std::int64_t, 2> kernel{2, 2};
  std::array<std::int64_t, 2> stride{2, 2};
  std::array<std::int64_t, 2> padding{0, 0};
  std::int64_t count_include_pad = 0;
};
/// sgd_step as in PyTorch: g += weight_decay*p; m = first ? g : momentum*m + (1-dampening)*g; g =
/// nesterov ? g + momentum*m : m; p -= learning_rate*g. `first` is 1 for the first update of a
/// parameter.
struct SgdAttributes {
  double learning_rate = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  std::int64_t nesterov = 0;
  std::int64_t first = 0;
};
/// adam_step: m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g²; p -= lr * (m/(1-b1^step)) /
/// (sqrt(v/(1-b2^step)) + epsilon). Weight decay comes first: p *= 1 - lr*weight_decay if
/// decoupled, else g += weight_decay*p.
///
/// Paper: Kingma, Ba, Adam, arXiv:1412.6980, algorithm 1; decoupled = 1: Loshchilov, Hutter, AdamW,
/// arXiv:1711.05101.
struct AdamAttributes {
  double learning_rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  std::int64_t decoupled = 0;
  std::int64_t step = 1;
};
/// expression. Its parameters, 8 bytes each, end the record's blob: the bits of an f64 if the
/// kernel's parameter is a float, else of an i64.
struct ExpressionAttributes {
  std::uint32_t expression = 0;  ///< ExprId; in a trace, the index in its table.
  std::uint32_t parameter_count = 0;
  std::uint32_t flops = 0;  ///< Flops per element of a result, as counted by op_cost.
  std::uint32_t row_axes =
      0;  ///< Number of trailing axes that form a row of a row kernel; 0: pointwise.
};
/// custom. Its numbers, 8 bytes each, end the record's blob: the bits of an f64.
struct CustomAttributes {
  std::uint32_t custom = 0;  ///< Number in its runtime's table.
  std::uint32_t number_count = 0;
};
/// upload, readback, lend, sync: a pointer to the client's ticket, valid until the ticket is
/// fulfilled.
struct TicketAttributes {
  void* ticket = nullptr;
  std::uint64_t offset_bytes = 0;
};
/// limit: deadline after which the following records are abandoned, and a pointer to the stop
/// token, or null.
struct LimitAttributes {
  Deadline deadline = Deadline::never();
  void* stop = nullptr;
};

}  // namespace hearth
