#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_submit.hpp"

namespace hearth {
namespace {

Tensor reduce(OpKind kind, const Arg& x, std::span<const int> axes, bool keep_dims) {
  const TensorImpl& impl = detail::accepted_operand(kind, x);
  ReduceAttributes attributes;
  const Shape shape = detail::checked(
      rules::reduce(kind, impl.layout->shape, axes, keep_dims, &attributes), kind, x);
  if (attributes.axes == 0) {
    return detail::take(x);
  }
  return detail::submit({.kind = kind,
                         .location = x.location(),
                         .inputs = {&x, 1},
                         .attributes = detail::bytes_of(attributes)},
                        impl.dtype,
                        shape);
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

}  // namespace

Tensor sum(Arg x, Axes axes, ReduceOptions options) {
  return reduce(OpKind::reduce_sum, x, axes.list(), options.keep_dims);
}
Tensor mean(Arg x, Axes axes, ReduceOptions options) {
  return reduce(OpKind::reduce_mean, x, axes.list(), options.keep_dims);
}
Tensor max(Arg x, Axes axes, ReduceOptions options) {
  return reduce(OpKind::reduce_max, x, axes.list(), options.keep_dims);
}

Tensor min(Arg x, Axes axes, ReduceOptions options) {
  return reduce(OpKind::reduce_min, x, axes.list(), options.keep_dims);
}
Tensor prod(Arg x, Axes axes, ReduceOptions options) {
  return reduce(OpKind::reduce_prod, x, axes.list(), options.keep_dims);
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
