#include "random_graph_ops.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <hearth/runtime/custom_op.hpp>
#include <hearth/runtime/losses.hpp>

namespace hearth::testing {
namespace {

using Draft = GraphDraft;
using Takes = GraphOp::Takes;

constexpr std::int64_t kMostElements = 6000;

// ---- one element ----

Tensor bounded(Draft& d, const Tensor& x) {
  switch (d.pick(8)) {
    case 0:
      return tanh(d.of(x));
    case 1:
      return sigmoid(d.of(x));
    case 2:
      return exp(d.of(tanh(d.of(x))));
    case 3:
      return relu(d.of(x));
    case 4:
      return rsqrt(d.of(add(d.of(abs(d.of(x))), d.number(0.5))));
    case 5:
      return erf(d.of(x));
    case 6:
      return mul(d.of(x), d.number(0.5));
    default:
      return x;
  }
}

Tensor unary(Draft& d, const Tensor& x) {
  switch (d.pick(21)) {
    case 0:
      return neg(d.of(x));
    case 1:
      return sqrt(d.of(add(d.of(abs(d.of(x))), d.number(0.25))));
    case 2:
      return log(d.of(add(d.of(square(d.of(x))), d.number(1))));
    case 3:
      return sin(d.of(x));
    case 4:
      return cos(d.of(x));
    case 5:
      return gelu(d.of(x), d.pick(2) == 0 ? GeluForm::erf : GeluForm::tanh);
    case 6:
      return silu(d.of(x));
    case 7:
      return leaky_relu(d.of(x), 0.1);
    case 8:
      return recip(d.of(add(d.of(abs(d.of(x))), d.number(1))));
    case 9:
      return clamp(d.of(x), d.number(-0.75), d.number(1.25));
    case 10:
      return log1p(d.of(abs(d.of(x))));
    case 11:
      return expm1(d.of(tanh(d.of(x))));
    case 12:
      return pow(d.of(add(d.of(abs(d.of(x))), d.number(0.5))), d.number(1.5));
    case 13:
      return sign(d.of(x));
    case 14:
      return d.pick(2) == 0 ? floor(d.of(x)) : round(d.of(x));
    case 15:
      return square(d.of(tanh(d.of(x))));
    case 16: {
      Generator generator(static_cast<std::uint64_t>(d.pick(256)));
      return dropout(d.of(x), 0.25, generator);
    }
    default:
      return bounded(d, x);
  }
}

Tensor scalar(Draft& d, const Tensor& x) {
  switch (d.pick(6)) {
    case 0:
      return add(d.of(x), d.number(0.375));
    case 1:
      return sub(d.number(1.5), d.of(x));
    case 2:
      return mul(d.number(-0.625), d.of(x));
    case 3:
      return div(d.of(x), d.number(3));
    case 4:
      return maximum(d.of(x), d.number(0.1));
    default:
      return where(d.of(greater(d.of(x), d.number(0.25))), d.of(x), d.number(-1));
  }
}

Tensor pair(Draft& d, const Tensor& x) {
  const Tensor y = d.other(x);
  switch (d.pick(8)) {
    case 0:
      return add(d.of(x), d.of(y));
    case 1:
      return sub(d.of(y), d.of(x));
    case 2:
      return mul(d.of(x), d.of(tanh(d.of(y))));
    case 3:
      return div(d.of(x), d.of(add(d.of(abs(d.of(y))), d.number(1))));
    case 4:
      return minimum(d.of(x), d.of(y));
    case 5:
      return maximum(d.of(y), d.of(x));
    case 6:
      return where(d.of(less(d.of(x), d.of(y))), d.of(x), d.of(y));
    default:
      return mul(d.of(bounded(d, x)), d.of(y));
  }
}

// ---- rows ----

Tensor fold(Draft& d, const Tensor& x, const std::vector<int>& axes, bool keeps) {
  const ReduceOptions options{.keep_dims = keeps};
  switch (d.pick(9)) {
    case 0:
    case 1:
      return mean(d.of(x), axes, options);
    case 2:
      return mul(d.of(sum(d.of(x), axes, options)), d.number(0.25));
    case 3:
      return max(d.of(x), axes, options);
    case 4:
      return min(d.of(x), axes, options);
    case 5:
      return prod(
          d.of(add(d.of(mul(d.of(tanh(d.of(x))), d.number(0.0625))), d.number(1))), axes, options);
    case 6:
      return rsqrt(d.of(add(d.of(mean(d.of(square(d.of(x))), axes, options)), d.number(0.01))));
    case 7:
      return var(d.of(x), axes, {.keep_dims = keeps, .correction = 0});
    default:
      return logsumexp(d.of(x), axes, options);
  }
}

Tensor statistic(Draft& d, const Tensor& x) {
  const bool keeps = d.pick(4) != 0;
  return bounded(d, fold(d, x, d.axes(x), keeps));
}

// The pattern of a former bug of plain losses: x and a function of a statistic of its rows.
Tensor by_statistic(Draft& d, const Tensor& x) {
  const Tensor s = bounded(d, fold(d, x, d.axes(x), true));
  switch (d.pick(6)) {
    case 0:
      return sub(d.of(x), d.of(s));
    case 1:
    case 2:
      return mul(d.of(x), d.of(s));
    case 3:
      return expand(d.of(s), x.shape());
    case 4:
      return add(d.of(zeros_like(x, d.loc())), d.of(s));
    default:
      return mul(d.of(bounded(d, x)), d.of(expand(d.of(s), x.shape())));
  }
}

Tensor row(Draft& d, const Tensor& x) {
  const int last = x.rank() - 1;
  switch (d.pick(6)) {
    case 0:
      return softmax(d.of(x), d.pick(3) == 0 ? d.pick(x.rank()) : last);
    case 1:
      return log_softmax(d.of(x), d.pick(3) == 0 ? d.pick(x.rank()) : last);
    case 2:
      return layer_norm(d.of(x), {.axis_count = 1 + d.pick(std::min(2, x.rank()))});
    case 3:
      return rms_norm(d.of(x), {.axis_count = 1 + d.pick(std::min(2, x.rank()))});
    case 4: {
      const Tensor shifted =
          exp(d.of(sub(d.of(x), d.of(max(d.of(x), {last}, {.keep_dims = true})))));
      return div(d.of(shifted), d.of(sum(d.of(shifted), {last}, {.keep_dims = true})));
    }
    default:
      return mul(d.of(cumsum(d.of(x), d.pick(x.rank()))), d.number(0.25));
  }
}

// ---- values without elements of their own ----

Tensor filled(Draft& d, const Tensor& x) {
  const Device device = x.device();
  const DType dtype = x.dtype();
  const double value = 0.25 + d.pick(4);
  Shape kept = x.shape();
  kept.set(x.rank() - 1, 1);
  switch (d.pick(9)) {
    case 0:
      return full(device, x.shape(), value, dtype, d.loc());
    case 1:
      return full(device, {}, value, dtype, d.loc());
    case 2:
      return full(device, kept, value, dtype, d.loc());
    case 3:
      return mul(d.of(full(device, kept, value, dtype, d.loc())), d.of(x));
    case 4:
      return sub(d.of(full(device, {}, value, dtype, d.loc())), d.of(zeros_like(x, d.loc())));
    case 5:
      return add(d.of(expand(d.of(full(device, {1}, value, dtype, d.loc())), x.shape())),
                 d.of(full(device, {}, 0.5, dtype, d.loc())));
    case 6:
      return mul(d.of(ones_like(x, d.loc())), d.of(fold(d, x, {x.rank() - 1}, true)));
    case 7:
      return tanh(d.of(full(device, kept, value, dtype, d.loc())));
    default:
      return mul(d.of(sum(d.of(x), {}, {})), d.of(full(device, kept, 0.125, dtype, d.loc())));
  }
}

// ---- views ----

Tensor sliced(Draft& d, const Tensor& x) {
  const int axis = d.pick(x.rank());
  const std::int64_t size = x.shape()[axis];
  if (size < 2) {
    return transpose(d.of(unsqueeze(d.of(x), 0)), 0, x.rank());
  }
  switch (d.pick(6)) {
    case 0:
      return slice(d.of(x), axis, {.start = 1});
    case 1:
      return slice(d.of(x), axis, {.step = 2});
    case 2:
      return slice(d.of(x), axis, {.step = -1});
    case 3:
      return slice(d.of(x), axis, {.start = -2, .step = -2});
    case 4:
      return expand(d.of(slice(d.of(x), axis, {.stop = 1})), x.shape());
    default:
      return slice(d.of(x), axis, {.stop = size / 2});
  }
}

Tensor permuted(Draft& d, const Tensor& x) {
  std::vector<int> axes;
  for (int i = 0; i < x.rank(); ++i) {
    axes.insert(axes.begin() + d.pick(i + 1), i);
  }
  return permute(d.of(x), axes);
}

Tensor viewed(Draft& d, const Tensor& x) {
  const std::int64_t last = x.shape()[x.rank() - 1];
  switch (d.pick(9)) {
    case 0:
      return x.rank() < 2 ? unsqueeze(d.of(x), d.pick(2)) : transpose(d.of(x));
    case 1:
      return permuted(d, x);
    case 2:
      return flatten(d.of(x));
    case 3:
      return reshape(d.of(x), {std::int64_t{-1}, last});
    case 4:
      return reshape(d.of(x), {last, std::int64_t{-1}});
    case 5: {
      Shape wide{2};
      for (const std::int64_t size : x.shape().dims()) {
        wide.push_back(size);
      }
      return x.rank() > 3 ? contiguous(d.of(x)) : expand(d.of(x), wide);
    }
    case 6:
      return x.rank() > 4 ? contiguous(d.of(x)) : unsqueeze(d.of(x), d.pick(x.rank() + 1));
    default:
      return sliced(d, x);
  }
}

// ---- ops of the program ----

Tensor own(Draft& d, const Tensor& x) {
  static const CustomOp kHalf =
      custom_op("half_tanh", [](const Tensor& a) { return tanh(a) * 0.5 + a * 0.25; });
  static const CustomOp kGate =
      custom_op("gate", [](const Tensor& a, const Tensor& b) { return a * sigmoid(b) - 0.125; });
  static const CustomOp kBlend =
      custom_op("blend", [](const Tensor& a, const Tensor& b, const Tensor& c) {
        return where(a > b, a * c, exp(tanh(b)) - c);
      });
  const Tensor y = d.other(x);
  switch (d.pick(5)) {
    case 0:
      return kHalf(d.of(x));
    case 1:
      return kGate(d.of(x), d.of(y));
    case 2:
      return kGate(d.of(y), d.number(0.75));
    case 3:
      return kBlend(d.of(x), d.of(y), d.of(d.pick(2) == 0 ? x : y));
    default:
      return kBlend(d.of(x), d.number(0.5), d.of(y));
  }
}

// ---- types ----

Tensor floats_cast(Draft& d, const Tensor& x) {
  constexpr std::array kTypes{DType::f32, DType::f64, DType::f16, DType::bf16};
  return cast(d.of(x), kTypes.at(static_cast<std::size_t>(d.pick(4))));
}

Tensor to_integers(Draft& d, const Tensor& x) {
  constexpr std::array kTypes{DType::i32, DType::i64, DType::i8, DType::u8};
  const DType type = kTypes.at(static_cast<std::size_t>(d.pick(4)));
  const double offset = type == DType::u8 ? 5 : 0;
  return cast(d.of(add(d.of(mul(d.of(tanh(d.of(x))), d.number(4))), d.number(offset))), type);
}

Tensor integers(Draft& d, const Tensor& given) {
  const Tensor x = is_float(given.dtype()) ? to_integers(d, given) : given;
  const Tensor y = d.other(x);
  switch (d.pick(9)) {
    case 0:
      return add(d.of(x), d.of(y));
    case 1:
      return mul(d.of(x), d.number(3));
    case 2:
      return minimum(d.of(x), d.of(y));
    case 3:
      return sub(d.of(x), d.number(1));
    case 4:
      return remainder(d.of(x), d.number(3));
    case 5:
      return sum(d.of(x), {x.rank() - 1}, {.keep_dims = true});
    case 6:
      return floor_divide(d.of(x), d.number(2));
    case 7:
      return max(d.of(x), {x.rank() - 1}, {.keep_dims = true});
    default:
      return mul(d.of(x), d.of(y));
  }
}

Tensor compared(Draft& d, const Tensor& x) {
  const Tensor y = d.other(x);
  switch (d.pick(4)) {
    case 0:
      return greater(d.of(x), d.of(y));
    case 1:
      return less_equal(d.of(x), d.number(0));
    case 2:
      return equal(d.of(x), d.of(y));
    default:
      return not_equal(d.of(x), d.number(1));
  }
}

Tensor bools(Draft& d, const Tensor& x) {
  const Tensor y = d.other(x);
  switch (d.pick(6)) {
    case 0:
      return logical_and(d.of(x), d.of(y));
    case 1:
      return logical_xor(d.of(x), d.of(y));
    case 2:
      return logical_not(d.of(x));
    case 3:
      return any(d.of(x), {x.rank() - 1}, {.keep_dims = true});
    case 4:
      return where(d.of(x), d.of(cast(d.of(y), DType::f32)), d.number(-2));
    default:
      return cast(d.of(x), DType::f32);
  }
}

// ---- anchors of groups, and ops between them ----

Tensor planes_of(Draft& d, const Tensor& x) {
  return reshape(
      d.of(x),
      {std::int64_t{1}, std::int64_t{-1}, x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]});
}

Tensor product(Draft& d, const Tensor& x) {
  if (x.rank() < 2) {
    return {};
  }
  const std::int64_t last = x.shape()[x.rank() - 1];
  const Tensor weight = transpose(d.of(
      x.rank() > 2 && d.pick(2) == 0 ? reshape(d.of(x), {std::int64_t{-1}, last}) : tanh(d.of(x))));
  const Tensor made = mul(d.of(matmul(d.of(x), d.of(weight))), d.number(0.125));
  return made.element_count() > kMostElements ? mean(d.of(made), {-1}, {.keep_dims = true}) : made;
}

Tensor anchored(Draft& d, const Tensor& x) {
  const std::int64_t last = x.rank() > 0 ? x.shape()[x.rank() - 1] : 0;
  if (x.rank() < 2) {
    return {};
  }
  const std::int64_t height = x.shape()[x.rank() - 2];
  switch (d.pick(6)) {
    case 0:
      return avg_pool2d(
          d.of(planes_of(d, x)),
          {.kernel = {std::min<std::int64_t>(height, 2), std::min<std::int64_t>(last, 2)}});
    case 1:
      return max_pool2d(
          d.of(planes_of(d, x)),
          {.kernel = {std::min<std::int64_t>(height, 2), std::min<std::int64_t>(last, 2)}});
    case 2:
      return attention(d.of(x), d.of(tanh(d.of(x))), d.of(x), {.causal = d.pick(2) == 0});
    case 3: {
      const Tensor weight = full(x.device(), {1, 1, 1, 1}, 0.75, x.dtype(), d.loc());
      return conv2d(d.of(reshape(d.of(x), {std::int64_t{-1}, std::int64_t{1}, height, last})),
                    d.of(weight));
    }
    case 4: {
      const int axis = d.pick(x.rank());
      return gather(d.of(x), axis, d.of(unsqueeze(d.of(argmax(d.of(x), axis)), axis)));
    }
    default: {
      const int axis = d.pick(x.rank());
      const Tensor steps =
          arange(x.device(), 0, static_cast<double>(x.shape()[axis]), 1, DType::i64, d.loc());
      return index_select(
          d.of(x),
          axis,
          d.of(remainder(d.of(mul(d.of(steps), d.number(2))), d.number(x.shape()[axis]))));
    }
  }
}

Tensor joined(Draft& d, const Tensor& x) {
  const std::array both{x, neg(d.of(x))};
  return concat(both, d.pick(x.rank()), d.loc());
}

// ---- ops that fail for some values ----

Tensor failing(Draft& d, const Tensor& x) {
  const Tensor count = to_integers(d, x);
  const Tensor whole = cast(d.of(count), DType::i32);
  switch (d.pick(4)) {
    case 0:
      return div(d.of(whole), d.of(whole));
    case 1:
      return floor_divide(d.of(add(d.of(whole), d.number(1))),
                          d.of(maximum(d.of(whole), d.number(0))));
    case 2:
      return index_select(d.of(x), x.rank() - 1, d.of(flatten(d.of(abs(d.of(whole))))));
    default:
      return gather(d.of(x), x.rank() - 1, d.of(abs(d.of(whole))));
  }
}

constexpr std::array kOps{
    GraphOp{"unary", Takes::floats, unary},
    GraphOp{"unary", Takes::floats, unary},
    GraphOp{"scalar", Takes::floats, scalar},
    GraphOp{"pair", Takes::floats, pair},
    GraphOp{"pair", Takes::floats, pair},
    GraphOp{"pair", Takes::floats, pair},
    GraphOp{"statistic", Takes::floats, statistic},
    GraphOp{"by statistic", Takes::floats, by_statistic},
    GraphOp{"by statistic", Takes::floats, by_statistic},
    GraphOp{"row", Takes::floats, row},
    GraphOp{"fill", Takes::floats, filled},
    GraphOp{"view", Takes::any, viewed},
    GraphOp{"view", Takes::any, viewed},
    GraphOp{"own", Takes::floats, own},
    GraphOp{"cast", Takes::floats, floats_cast},
    GraphOp{"integers", Takes::numbers, integers},
    GraphOp{"compare", Takes::numbers, compared},
    GraphOp{"bools", Takes::bools, bools},
    GraphOp{"product", Takes::floats, product},
    GraphOp{"anchor", Takes::floats, anchored},
    GraphOp{"join", Takes::floats, joined},
    GraphOp{"failing", Takes::floats, failing, true},
};

}  // namespace

Tensor GraphDraft::other(const Tensor& x) {
  std::vector<const Tensor*> found;
  for (const Tensor& each : *values_) {
    const Result<Shape> shape = broadcast(x.shape(), each.shape());
    if (shape.has_value() && shape.value().element_count() <= kMostElements &&
        each.element_count() > 0) {
      found.push_back(&each);
    }
  }
  if (found.empty()) {
    return x;
  }
  const Tensor& one = *found[static_cast<std::size_t>(pick(static_cast<int>(found.size())))];
  return one.dtype() == x.dtype() ? one : cast(of(one), x.dtype());
}

std::vector<int> GraphDraft::axes(const Tensor& x) {
  const int rank = x.rank();
  std::vector<int> all(static_cast<std::size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  switch (pick(8)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return {rank - 1};
    case 4:
      return rank > 1 ? std::vector<int>{rank - 2, rank - 1} : all;
    case 5:
      return all;
    case 6:
      return {0};
    default:
      return {pick(rank)};
  }
}

std::span<const GraphOp> graph_ops() noexcept {
  return kOps;
}

Tensor make_graph_op(const GraphOp& op, GraphDraft& draft, const Tensor& given) {
  Tensor x = given.rank() == 0 ? reshape(draft.of(given), {1}) : given;
  const bool fits = op.takes == Takes::any || (op.takes == Takes::floats && is_float(x.dtype())) ||
                    (op.takes == Takes::numbers && x.dtype() != DType::boolean) ||
                    (op.takes == Takes::bools && x.dtype() == DType::boolean);
  if (!fits) {
    x = op.takes == Takes::bools ? greater(draft.of(x), draft.number(0))
                                 : cast(draft.of(x), DType::f32);
  }
  Tensor made = op.make(draft, x);
  if (made.is_valid() && made.element_count() > kMostElements) {
    made = slice(draft.of(flatten(draft.of(made))), 0, {.stop = 100});
  }
  return made;
}

Tensor graph_loss(GraphDraft& draft, const Tensor& x) {
  Draft& d = draft;
  switch (d.pick(8)) {
    case 0:
      return sum(d.of(x));
    case 1:
    case 2:
      return mean(d.of(x));
    case 3:
      return mean(d.of(square(d.of(x))));
    case 4: {
      const std::int64_t classes = x.rank() == 0 ? 1 : x.shape()[x.rank() - 1];
      const Tensor logits = reshape(d.of(x), {std::int64_t{-1}, classes});
      const Tensor steps =
          arange(x.device(), 0, static_cast<double>(logits.size(0)), 1, DType::i64, d.loc());
      const Tensor targets = remainder(d.of(steps), d.number(classes));
      return cross_entropy(
          d.of(logits), d.of(targets), {.label_smoothing = d.pick(2) == 0 ? 0.0 : 0.25});
    }
    case 5:
      return x.rank() == 0 ? sum(d.of(x)) : sum(d.of(mean(d.of(x), {x.rank() - 1})));
    case 6:
      return x.rank() == 0 ? mean(d.of(x)) : mean(d.of(max(d.of(x), {x.rank() - 1})));
    default:
      return sum(d.of(mul(d.of(x), d.of(d.other(x)))));
  }
}

}  // namespace hearth::testing
