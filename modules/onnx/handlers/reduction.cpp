// Reductions over axes, and running sums.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/host/host_layout.hpp"
#include "modules/onnx/host/layout_rules.hpp"

namespace hearth::onnx {
namespace reduction_ops {
namespace {

// Sums of squares, roots and logarithms of integers are computed in floats.
enum class Inside : std::uint8_t { own_type, floats };

template <class Fn>
void reduce(Call& call, Inside inside, const Fn& fn) {
  const OnnxType type = call.type(0);
  const Reduction reduction = reduction_of(call);
  Tensor x = call.take(0);
  if (reduction.axes.empty() && x.rank() > 0) {
    call.give(std::move(x), type);
    return;
  }
  if (inside == Inside::floats) {
    x = as_float(std::move(x));
  }
  if (reduction.axes.empty()) {  // Axes{} would mean all; of a scalar that is the same
    x = reshape(std::move(x), {1});
    call.give(reshape(fn(x, Axes(0), ReduceOptions{.keep_dims = false}), Shape{}), type);
    return;
  }
  call.give(fn(x, Axes(reduction.axes), ReduceOptions{.keep_dims = reduction.keeps_axes}), type);
}

void sums(Call& call) {
  reduce(call, Inside::own_type, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return sum(x, axes, options);
  });
}
void means(Call& call) {
  reduce(call, Inside::own_type, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return mean(x, axes, options);
  });
}
void largest(Call& call) {
  reduce(call, Inside::own_type, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return max(x, axes, options);
  });
}
void smallest(Call& call) {
  reduce(call, Inside::own_type, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return min(x, axes, options);
  });
}
void products(Call& call) {
  reduce(call, Inside::own_type, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return prod(x, axes, options);
  });
}
void sums_of_sizes(Call& call) {
  reduce(call, Inside::own_type, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return sum(abs(x), axes, options);
  });
}
void sums_of_squares(Call& call) {
  reduce(call, Inside::own_type, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return sum(square(x), axes, options);
  });
}
void lengths(Call& call) {
  reduce(call, Inside::floats, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return sqrt(sum(square(x), axes, options));
  });
}
void logs_of_sums(Call& call) {
  reduce(call, Inside::floats, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return log(sum(x, axes, options));
  });
}
void logs_of_sums_of_exponentials(Call& call) {
  reduce(call, Inside::floats, [](const Tensor& x, const Axes& axes, ReduceOptions options) {
    return logsumexp(x, axes, options);
  });
}

// The last of equal values is the first of the reversed axis.
template <Tensor (*kFind)(Arg, int, ReduceOptions)>
void position(Call& call) {
  const int axis = call.axis(call.node().integer("axis", 0), call.rank(0));
  const ReduceOptions options{.keep_dims = call.node().integer("keepdims", 1) != 0};
  const std::int64_t size = call.shape(0)[axis];
  Tensor x = call.take(0);
  if (call.node().integer("select_last_index", 0) == 0) {
    call.give(kFind(std::move(x), axis, options));
    return;
  }
  x = slice(std::move(x), axis, {.step = -1});
  call.give(sub(size - 1, kFind(std::move(x), axis, options)));
}

// An exclusive sum begins with 0 and leaves the last element out.
void running_sum(Call& call) {
  const OnnxType type = call.type(0);
  const int axis = call.axis(call.integer(1), call.rank(0));
  const bool is_reverse = call.node().integer("reverse", 0) != 0;
  Tensor x = call.take(0);
  if (is_reverse) {
    x = slice(std::move(x), axis, {.step = -1});
  }
  if (call.node().integer("exclusive", 0) != 0) {
    const std::int64_t size = x.size(axis);
    x = slice(pad(std::move(x), {{.axis = axis, .before = 1}}), axis, {.stop = size});
  }
  x = cumsum(std::move(x), axis);
  if (is_reverse) {
    x = slice(std::move(x), axis, {.step = -1});
  }
  call.give(0, wrapped(std::move(x), type), type);
}

// From opset 13 (ReduceSum) or 18 the axes are input 1; reduction_of() takes either.
constexpr OpRow kRows[] = {
    {.op = "ReduceSum", .run = sums, .on_host = reduce_sum_on_host, .host_inputs = inputs(1)},
    {.op = "ReduceMean", .run = means, .host_inputs = inputs(1)},
    {.op = "ReduceMax", .run = largest, .on_host = reduce_max_on_host, .host_inputs = inputs(1)},
    {.op = "ReduceMin", .run = smallest, .on_host = reduce_min_on_host, .host_inputs = inputs(1)},
    {.op = "ReduceProd", .run = products, .on_host = reduce_prod_on_host, .host_inputs = inputs(1)},
    {.op = "ReduceL1", .run = sums_of_sizes, .host_inputs = inputs(1)},
    {.op = "ReduceL2", .run = lengths, .host_inputs = inputs(1)},
    {.op = "ReduceSumSquare", .run = sums_of_squares, .host_inputs = inputs(1)},
    {.op = "ReduceLogSum", .run = logs_of_sums, .host_inputs = inputs(1)},
    {.op = "ReduceLogSumExp", .run = logs_of_sums_of_exponentials, .host_inputs = inputs(1)},
    {.op = "ArgMax", .run = position<argmax>},
    {.op = "ArgMin", .run = position<argmin>},
    {.op = "CumSum",
     .since = 11,
     .run = running_sum,
     .on_host = cum_sum_on_host,
     .host_inputs = inputs(1)},
};

}  // namespace
}  // namespace reduction_ops

std::span<const OpRow> reduction_rows() {
  return reduction_ops::kRows;
}

}  // namespace hearth::onnx
