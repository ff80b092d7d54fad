#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_submit.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <utility>

namespace hearth {
namespace {

Tensor reduce(OpKind kind, const Arg& x, std::span<const int> axes, bool keep_dims, DType dtype) {
  const TensorImpl& impl = detail::accepted_operand(kind, x);
  ReduceAttributes attributes;
  const Shape shape = detail::checked(
      rules::reduce(kind, impl.layout->shape, axes, keep_dims, &attributes), kind, x);
  if (attributes.axes == 0) {
    return dtype == impl.dtype ? detail::take(x) : cast(x, dtype);
  }
  return detail::submit({.kind = kind,
                         .location = x.location(),
                         .inputs = {&x, 1},
                         .attributes = detail::bytes_of(attributes)},
                        dtype,
                        shape);
}
Tensor reduce(OpKind kind, const Arg& x, std::span<const int> axes, bool keep_dims) {
  return reduce(kind, x, axes, keep_dims, detail::operand(kind, x).dtype);
}

Tensor position(OpKind kind, const Arg& x, int axis, bool keep_dims) {
  const TensorImpl& impl = detail::accepted_operand(kind, x);
  const Shape& from = impl.layout->shape;
  const Shape shape = detail::checked(rules::position(kind, from, axis, keep_dims), kind, x);
  const AxisAttributes attributes{.axis = axis < 0 ? axis + from.rank() : axis,
                                  .keep_dims = keep_dims ? 1 : 0};
  return detail::submit({.kind = kind,
                         .location = x.location(),
                         .inputs = {&x, 1},
                         .attributes = detail::bytes_of(attributes)},
                        DType::i64,
                        shape);
}

// Integers and bools accumulate in i64, so 300 ones of u8 sum to 300, as in PyTorch.
Tensor accumulate(OpKind kind, const Arg& x, std::span<const int> axes, bool keep_dims) {
  const DType dtype = detail::operand(kind, x).dtype;
  return reduce(kind, x, axes, keep_dims, is_float(dtype) ? dtype : DType::i64);
}

// The mean of integers and bools: their i64 sum divided by their number, in f32.
Tensor integer_mean(const Arg& x, std::span<const int> axes, bool keep_dims) {
  constexpr OpKind kKind = OpKind::reduce_mean;
  const Shape from = detail::TensorAccess::impl(x.tensor())->layout->shape;
  ReduceAttributes attributes;
  static_cast<void>(
      detail::checked(rules::reduce(kKind, from, axes, keep_dims, &attributes), kKind, x));
  double count = 1;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const bool is_folded = (attributes.axes >> static_cast<unsigned>(axis) & 1U) != 0;
    count *= is_folded ? static_cast<double>(from[axis]) : 1;
  }
  const SourceLoc loc = x.location();
  Tensor total = accumulate(OpKind::reduce_sum, x, axes, keep_dims);
  Tensor real = cast(Arg(std::move(total), loc), DType::f32);
  return div(Arg(std::move(real), loc), Arg(count, loc));
}

}  // namespace

Tensor sum(Arg x, Axes axes, ReduceOptions options) {
  return accumulate(OpKind::reduce_sum, x, axes.list(), options.keep_dims);
}
Tensor mean(Arg x, Axes axes, ReduceOptions options) {
  const bool keep_dims = options.keep_dims;
  const bool is_real = is_float(detail::operand(OpKind::reduce_mean, x).dtype);
  return is_real
             ? reduce(OpKind::reduce_mean, x, axes.list(), keep_dims)
             : detail::named_as("mean", [&] { return integer_mean(x, axes.list(), keep_dims); });
}
Tensor max(Arg x, Axes axes, ReduceOptions options) {
  return reduce(OpKind::reduce_max, x, axes.list(), options.keep_dims);
}

Tensor min(Arg x, Axes axes, ReduceOptions options) {
  return reduce(OpKind::reduce_min, x, axes.list(), options.keep_dims);
}
Tensor prod(Arg x, Axes axes, ReduceOptions options) {
  return accumulate(OpKind::reduce_prod, x, axes.list(), options.keep_dims);
}

Tensor argmax(Arg x, int axis, ReduceOptions options) {
  return position(OpKind::argmax, x, axis, options.keep_dims);
}
Tensor argmax(Arg x) {
  return detail::named_as("argmax", [&] {
    const SourceLoc loc = x.location();
    return argmax(Arg(flatten(x), loc), 0);
  });
}
Tensor argmin(Arg x, int axis, ReduceOptions options) {
  return position(OpKind::argmin, x, axis, options.keep_dims);
}
Tensor argmin(Arg x) {
  return detail::named_as("argmin", [&] {
    const SourceLoc loc = x.location();
    return argmin(Arg(flatten(x), loc), 0);
  });
}

}  // namespace hearth
