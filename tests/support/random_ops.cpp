#include "random_ops.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace hearth::testing {
namespace {

using Call = OpCall;
using Family = RandomOp::Family;
using For = RandomOp::For;

constexpr std::int64_t kMostElements = 600;
constexpr std::int64_t kMostOfAPair = 4096;

/// |x| + offset, an operand for logarithms, roots and quotients.
Tensor positive(Call& in, double offset) {
  return add(in.of(abs(in(0))), in.number(offset));
}

Tensor scaled(Call& in, Tensor x, double factor) {
  return mul(in.of(std::move(x)), in.number(factor));
}

// An operand's last use comes in a separate statement after its other uses, because the compiler
// chooses the order of a call's arguments.
constexpr std::array kMaps{
    RandomOp{"neg", Family::map, For::both, [](Call& in) { return neg(in(0)); }},
    RandomOp{"abs", Family::map, For::both, [](Call& in) { return abs(in(0)); }},
    RandomOp{"relu",
             Family::map,
             For::both,
             [](Call& in) { return is_float(in.dtype()) ? relu(in(0)) : abs(in(0)); }},
    RandomOp{"twice",
             Family::map,
             For::both,
             [](Call& in) {
               return in.pick(2) == 0 ? sub(in.number(3), in(0)) : mul(in(0), in.number(2));
             }},
    RandomOp{"square", Family::map, For::exact, [](Call& in) { return square(in(0)); }},
    RandomOp{
        "cast",
        Family::map,
        For::exact,
        [](Call& in) {
          constexpr std::array kTypes{
              DType::f32, DType::f64, DType::i32, DType::bf16, DType::f16, DType::i64, DType::i8};
          return cast(in(0), kTypes.at(static_cast<std::size_t>(in.pick(7))));
        }},
    RandomOp{"cast to f64 and back",
             Family::map,
             For::smooth,
             [](Call& in) {
               Tensor wide = scaled(in, cast(in(0), DType::f64), 0.75);
               return in.pick(4) == 0 ? wide : cast(in.of(std::move(wide)), DType::f32);
             }},
    RandomOp{"exp", Family::map, For::smooth, [](Call& in) { return exp(in.of(tanh(in(0)))); }},
    RandomOp{
        "log", Family::map, For::smooth, [](Call& in) { return log(in.of(positive(in, 0.5))); }},
    RandomOp{
        "sqrt", Family::map, For::smooth, [](Call& in) { return sqrt(in.of(positive(in, 0.25))); }},
    RandomOp{"rsqrt",
             Family::map,
             For::smooth,
             [](Call& in) { return rsqrt(in.of(positive(in, 0.5))); }},
    RandomOp{"square of tanh",
             Family::map,
             For::smooth,
             [](Call& in) { return square(in.of(tanh(in(0)))); }},
    RandomOp{"sin", Family::map, For::smooth, [](Call& in) { return sin(in(0)); }},
    RandomOp{"cos", Family::map, For::smooth, [](Call& in) { return cos(in(0)); }},
    RandomOp{"tanh", Family::map, For::smooth, [](Call& in) { return tanh(in(0)); }},
    RandomOp{"erf", Family::map, For::smooth, [](Call& in) { return erf(in(0)); }},
    RandomOp{"atan", Family::map, For::smooth, [](Call& in) { return atan(in(0)); }},
    RandomOp{"sigmoid", Family::map, For::smooth, [](Call& in) { return sigmoid(in(0)); }},
    RandomOp{"log1p", Family::map, For::smooth, [](Call& in) { return log1p(in.of(abs(in(0)))); }},
    RandomOp{"expm1", Family::map, For::smooth, [](Call& in) { return expm1(in.of(tanh(in(0)))); }},
    RandomOp{"recip",
             Family::map,
             For::smooth,
             [](Call& in) { return recip(in.of(positive(in, 0.5))); }},
    RandomOp{
        "pow",
        Family::map,
        For::smooth,
        [](Call& in) { return scaled(in, pow(in.of(positive(in, 0.5)), in.number(1.5)), 0.25); }},
    RandomOp{"where above",
             Family::map,
             For::smooth,
             [](Call& in) {
               Tensor is_above = greater(in.keep(0), in.number(0.123));
               Tensor twice = mul(in.keep(0), in.number(2));
               return where(in.of(std::move(is_above)),
                            in.of(std::move(twice)),
                            in.of(sub(in(0), in.number(1))));
             }},
    RandomOp{"where below",
             Family::map,
             For::smooth,
             [](Call& in) {
               Tensor is_below = less_equal(in.keep(0), in.number(-0.321));
               Tensor none = zeros_like(in.tensor(0), in.loc());
               return where(in.of(std::move(is_below)), in.of(std::move(none)), in(0));
             }},
};

/// Bits of both in one integer type; shifts also by too many places.
Tensor exact_bits(Call& in) {
  const DType type = is_integer(in.dtype()) ? in.dtype() : DType::i32;
  in.convert(0, type);
  in.convert(1, type);
  switch (in.pick(5)) {
    case 0:
      return bitwise_and(in(0), in(1));
    case 1:
      return bitwise_or(in(0), in(1));
    case 2:
      return bitwise_xor(in(0), in(1));
    case 3:
      return shift_left(in(0), in(1));
    default:
      return shift_right(in(0), in(1));
  }
}

/// Away from the origin and from the jump of the angle.
Tensor smooth_angle(Call& in) {
  Tensor side = add(in.of(abs(in(1))), in.number(0.5));
  return atan2(in(0), in.of(std::move(side)));
}

constexpr std::array kPairs{
    RandomOp{"add", Family::pair, For::both, [](Call& in) { return add(in(0), in(1)); }, 2},
    RandomOp{"sub", Family::pair, For::both, [](Call& in) { return sub(in(0), in(1)); }, 2},
    RandomOp{"minimum", Family::pair, For::both, [](Call& in) { return minimum(in(0), in(1)); }, 2},
    RandomOp{"maximum", Family::pair, For::both, [](Call& in) { return maximum(in(0), in(1)); }, 2},
    RandomOp{"mul", Family::pair, For::exact, [](Call& in) { return mul(in(0), in(1)); }, 2},
    RandomOp{"bits", Family::pair, For::exact, exact_bits, 2},
    RandomOp{
        "greater", Family::pair, For::exact, [](Call& in) { return greater(in(0), in(1)); }, 2},
    RandomOp{"atan2", Family::pair, For::smooth, smooth_angle, 2},
    RandomOp{"mul of tanh",
             Family::pair,
             For::smooth,
             [](Call& in) { return mul(in.of(tanh(in(0))), in(1)); },
             2},
    RandomOp{"div",
             Family::pair,
             For::smooth,
             [](Call& in) { return div(in(0), in.of(add(in.of(abs(in(1))), in.number(1)))); },
             2},
    RandomOp{"where",
             Family::pair,
             For::both,
             [](Call& in) {
               Tensor is_greater = greater(in.keep(0), in.keep(1));
               return where(in.of(std::move(is_greater)), in(0), in(1));
             },
             2},
};

Tensor permuted(Call& in) {
  std::vector<int> axes;
  for (int i = 0; i < in.rank(); ++i) {
    axes.insert(axes.begin() + (i < 3 ? in.pick(i + 1) : 0), i);
  }
  return permute(in(0), axes);
}

Tensor sliced(Call& in) {
  constexpr std::array<std::int64_t, 4> kSteps{1, 2, -1, -2};
  if (in.rank() == 0) {
    return contiguous(in(0));
  }
  const int axis = in.pick(in.rank());
  const std::int64_t step = kSteps.at(static_cast<std::size_t>(in.pick(4)));
  // A start inside, so that the slice need not begin where its storage does.
  return in.pick(3) == 0 ? slice(in(0), axis, {.start = step > 0 ? 1 : -2, .step = step})
                         : slice(in(0), axis, {.step = step});
}

Tensor expanded(Call& in) {
  if (in.rank() > 4) {
    return contiguous(in(0));
  }
  Shape wide{2};
  for (const std::int64_t size : in.shape().dims()) {
    wide.push_back(size);
  }
  return expand(in(0), wide);
}

Tensor joined(Call& in) {
  if (in.rank() == 0 || in.rank() > 4) {
    return contiguous(in(0));
  }
  const std::array both{in.tensor(0), neg(in.keep(0))};
  return in.pick(3) == 0 ? stack(both, 0, in.loc()) : concat(both, in.pick(in.rank()), in.loc());
}

Tensor turned(Call& in) {
  std::vector<std::int64_t> sizes(in.shape().dims().begin(), in.shape().dims().end());
  std::ranges::reverse(sizes);
  return reshape(in(0), sizes);
}

/// An axis of x, which must have one.
int any_axis(Call& in) {
  return in.pick(in.rank());
}

/// Some elements along an axis from the last to the first, some of them twice.
Tensor picked(Call& in) {
  if (in.shape().element_count() == 0 || in.rank() == 0) {
    return contiguous(in(0));
  }
  const int axis = any_axis(in);
  const std::int64_t size = in.shape()[axis];
  const Tensor steps =
      arange(in.tensor(0).device(), 0, static_cast<double>(size + 1), 1, DType::i64, in.loc());
  Tensor places = sub(in.number(size), in.of(maximum({steps, in.loc()}, in.number(1))));
  return index_select(in(0), axis, in.of(std::move(places)));
}

constexpr std::array kViews{
    RandomOp{"flatten", Family::view, For::both, [](Call& in) { return flatten(in(0)); }},
    RandomOp{"permute", Family::view, For::both, permuted},
    RandomOp{"transpose",
             Family::view,
             For::both,
             [](Call& in) { return in.rank() < 2 ? unsqueeze(in(0), 0) : transpose(in(0)); }},
    RandomOp{"reshape", Family::view, For::both, turned},
    RandomOp{"slice", Family::view, For::both, sliced},
    RandomOp{"expand", Family::view, For::both, expanded},
    RandomOp{"concat", Family::view, For::both, joined},
    RandomOp{"contiguous", Family::view, For::both, [](Call& in) { return contiguous(in(0)); }},
    RandomOp{"some along an axis", Family::view, For::both, picked},
};

/// x times its own transpose.
Tensor own_product(Call& in) {
  if (in.rank() < 2) {
    return neg(in(0));
  }
  Tensor other = in.pick(2) == 0 ? transpose(in.of(tanh(in.keep(0))))
                                 : transpose(in.of(mul(in.keep(0), in.number(0.25))));
  return scaled(in, matmul(in(0), in.of(std::move(other))), 0.2);
}

Tensor own_attention(Call& in) {
  if (in.rank() < 2) {
    return neg(in(0));
  }
  Tensor keys = tanh(in.keep(0));
  return attention(in.keep(0), in.of(std::move(keys)), in(0), {.causal = in.pick(2) == 0});
}

/// The elements in reverse at places of which two are equal.
Tensor scattered(Call& in) {
  const int axis = any_axis(in);
  const Shape shape = in.shape();
  const double last = static_cast<double>(shape[axis] - 1);
  Tensor places =
      arange(in.tensor(0).device(), 0, static_cast<double>(shape[axis]), 1, DType::i64, in.loc());
  places = maximum(in.of(std::move(places)), in.number(last > 0 ? 1 : 0));
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(shape.rank()), 1);
  sizes[static_cast<std::size_t>(axis)] = shape[axis];
  places = expand(in.of(reshape(in.of(std::move(places)), sizes)), shape);
  constexpr std::array kModes{
      ScatterMode::set, ScatterMode::min, ScatterMode::max, ScatterMode::add};
  const int count = in.dtype() == DType::boolean ? 3 : 4;
  const ScatterMode mode = kModes.at(static_cast<std::size_t>(in.pick(count)));
  Tensor updates = slice(in.keep(0), axis, {.step = -1});
  return scatter(in(0), axis, in.of(std::move(places)), in.of(std::move(updates)), {.mode = mode});
}

/// The largest elements along an axis, gathered by their indices.
Tensor picked_largest(Call& in) {
  const int axis = any_axis(in);
  Tensor places = unsqueeze(in.of(argmax(in.keep(0), axis)), axis);
  return gather(in(0), axis, in.of(std::move(places)));
}

/// Pools planes of the last two axes.
Tensor pooled(Call& in, Tensor (*pool)(Arg, Pool2dOptions)) {
  if (in.rank() < 2) {
    return neg(in(0));
  }
  const std::int64_t height = in.shape()[in.rank() - 2];
  const std::int64_t width = in.shape()[in.rank() - 1];
  Tensor planes = reshape(in(0), {1, -1, height, width});
  return pool(in.of(std::move(planes)),
              {.kernel = {std::min<std::int64_t>(height, 2), std::min<std::int64_t>(width, 2)},
               .stride = Size2d{1 + in.pick(2), 2}});
}

/// Only floats have the gradient of a maximum, and pools.
Tensor exact_pool(Call& in) {
  in.convert(0, in.pick(2) == 0 ? DType::f32 : DType::f16);
  return pooled(in, max_pool2d);
}

Tensor exact_product(Call& in) {
  in.convert(0, in.pick(2) == 0 ? DType::f32 : DType::f64);
  if (in.rank() < 2) {
    const Tensor row = reshape(in(0), {1, -1});
    return matmul({row, in.loc()}, in.of(transpose({row, in.loc()})));
  }
  Tensor other = transpose(in.keep(0));
  return matmul(in(0), in.of(std::move(other)));
}

/// A sum of narrow floats may need more bits than they have.
Tensor exact_sum(Call& in) {
  if (in.dtype() == DType::f16 || in.dtype() == DType::bf16) {
    in.convert(0, DType::f32);
  }
  return sum(in(0), {any_axis(in)});
}

// Products of i8 are i32.
Tensor exact_matmul(Call& in) {
  const DType type = in.dtype() == DType::i8 ? DType::i8 : DType::f32;
  in.convert(0, type);
  in.convert(1, type);
  return matmul(in(0), in(1));
}

constexpr std::array kFolds{
    RandomOp{"sum", Family::fold, For::exact, exact_sum},
    RandomOp{
        "argmax", Family::fold, For::exact, [](Call& in) { return argmax(in(0), any_axis(in)); }},
    RandomOp{"product with itself", Family::fold, For::exact, exact_product},
    RandomOp{"matmul", Family::fold, For::exact, exact_matmul, 2},
    RandomOp{"the largest by place", Family::fold, For::both, picked_largest},
    RandomOp{"max_pool2d", Family::fold, For::exact, exact_pool},
    RandomOp{"max of windows",
             Family::fold,
             For::smooth,
             [](Call& in) { return pooled(in, max_pool2d); }},
    RandomOp{"mean of windows",
             Family::fold,
             For::smooth,
             [](Call& in) { return pooled(in, avg_pool2d); }},
    RandomOp{"max",
             Family::fold,
             For::both,
             [](Call& in) { return max(in(0), {any_axis(in)}, {.keep_dims = true}); }},
    RandomOp{"min",
             Family::fold,
             For::both,
             [](Call& in) { return min(in(0), {any_axis(in)}, {.keep_dims = true}); }},
    RandomOp{
        "argmin", Family::fold, For::exact, [](Call& in) { return argmin(in(0), any_axis(in)); }},
    RandomOp{"scaled cumsum",
             Family::fold,
             For::smooth,
             [](Call& in) { return scaled(in, cumsum(in(0), any_axis(in)), 0.3); }},
    RandomOp{"cumprod of tanh",
             Family::fold,
             For::smooth,
             [](Call& in) {
               const int axis = any_axis(in);  // before the operand is moved from
               return cumprod(in.of(tanh(in(0))), axis);
             }},
    RandomOp{"running extreme",
             Family::fold,
             For::both,
             [](Call& in) {
               return in.pick(2) == 0 ? cummax(in(0), any_axis(in)) : cummin(in(0), any_axis(in));
             }},
    RandomOp{"scatter", Family::fold, For::both, scattered},
    RandomOp{"scaled sum",
             Family::fold,
             For::smooth,
             [](Call& in) { return scaled(in, sum(in(0), {any_axis(in)}), 0.3); }},
    RandomOp{"mean",
             Family::fold,
             For::smooth,
             [](Call& in) { return mean(in(0), {any_axis(in)}, {.keep_dims = in.pick(2) == 0}); }},
    RandomOp{"softmax",
             Family::fold,
             For::smooth,
             [](Call& in) { return softmax(in(0), any_axis(in)); }},
    RandomOp{"log_softmax",
             Family::fold,
             For::smooth,
             [](Call& in) { return scaled(in, log_softmax(in(0), any_axis(in)), 0.3); }},
    RandomOp{"attention to itself", Family::fold, For::smooth, own_attention},
    RandomOp{"scaled product with itself", Family::fold, For::smooth, own_product},
    RandomOp{"scaled matmul",
             Family::fold,
             For::smooth,
             [](Call& in) { return scaled(in, matmul(in(0), in(1)), 0.2); },
             2},
};

std::vector<const RandomOp*> all_ops() {
  std::vector<const RandomOp*> all;
  const auto add_rows = [&](const auto& rows) {
    for (const RandomOp& row : rows) {
      all.push_back(&row);
    }
  };
  add_rows(kMaps);
  add_rows(kPairs);
  add_rows(kViews);
  add_rows(kFolds);
  return all;
}

std::vector<const RandomOp*> rows_of(Family family, Values values) {
  std::vector<const RandomOp*> rows = all_ops();
  const For other = values == Values::exact ? For::smooth : For::exact;
  std::erase_if(rows,
                [&](const RandomOp* row) { return row->family != family || row->values == other; });
  return rows;
}

}  // namespace

void OpCall::convert(std::size_t i, DType dtype) {
  if (tensors_[i].dtype() != dtype) {
    tensors_[i] = cast((*this)(i), dtype);
  }
}

const std::vector<const RandomOp*>& random_ops(RandomOp::Family family, Values values) {
  static const std::array kRows{
      std::array{rows_of(Family::map, Values::exact), rows_of(Family::map, Values::smooth)},
      std::array{rows_of(Family::pair, Values::exact), rows_of(Family::pair, Values::smooth)},
      std::array{rows_of(Family::view, Values::exact), rows_of(Family::view, Values::smooth)},
      std::array{rows_of(Family::fold, Values::exact), rows_of(Family::fold, Values::smooth)}};
  return kRows.at(static_cast<std::size_t>(family)).at(static_cast<std::size_t>(values));
}

const RandomOp& random_op(std::string_view name) {
  const std::vector<const RandomOp*> all = all_ops();
  const auto found = std::ranges::find(all, name, &RandomOp::name);
  if (found == all.end()) {
    throw std::out_of_range("no random op " + std::string(name));
  }
  return **found;
}

bool may_pair(const RandomOp& op, const Tensor& a, const Tensor& b) {
  if (op.family == Family::fold) {
    return a.rank() == 2 && b.rank() == 2;
  }
  const Result<Shape> shape = broadcast(a.shape(), b.shape());
  return !shape.has_value() || shape.value().element_count() <= kMostOfAPair;
}

bool must_take(const RandomOp& op, const Tensor& a, const Tensor& b) {
  if (a.device() != b.device()) {
    return false;
  }
  return op.family == Family::fold ? a.size(1) == b.size(0)
                                   : broadcast(a.shape(), b.shape()).has_value();
}

Tensor run_op(const RandomOp& op, OpCall call, Values values) {
  const SourceLoc loc = call.loc();
  if (op.family != Family::view || op.name == "concat") {
    // Arithmetic needs two numbers of one type; bools are converted.
    call.convert(0, call.dtype() == DType::boolean ? DType::f32 : call.dtype());
    if (op.arity == 2) {
      call.convert(1, call.dtype());
    }
  }
  const bool has_no_axis =
      op.family == Family::fold && (call.rank() == 0 || call.shape().element_count() == 0);
  Tensor made = has_no_axis && op.arity == 1 ? add(call(0), call.number(1)) : op.make(call);
  if (made.element_count() > kMostElements) {
    made = slice({flatten({std::move(made), loc}), loc}, 0, {.stop = 7});
  }
  return values == Values::exact && op.family != Family::view ? tame(std::move(made), loc)
                                                              : std::move(made);
}

Tensor tame(Tensor x, SourceLoc loc) {
  if (x.dtype() == DType::boolean) {
    return x;
  }
  return minimum({maximum({std::move(x), loc}, {-4, loc}), loc}, {4, loc});
}

}  // namespace hearth::testing
