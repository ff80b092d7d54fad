#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

double element_count_along(const Shape& shape, std::uint32_t axes) noexcept {
  double count = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    count *= (axes >> static_cast<unsigned>(axis) & 1U) != 0 ? static_cast<double>(shape[axis]) : 1;
  }
  return count;
}

struct ReducedOperand {
  DType dtype = DType::f32;
  Shape from;
  Shape to;
  double count = 0;  ///< elements of `from` for each element of `to`
};

// The checked operand of a reduction over floats.
ReducedOperand reduced_operand(const Arg& x, const Axes& axes, bool keep_dims) {
  constexpr OpKind kKind = OpKind::reduce_mean;
  const TensorImpl& impl = detail::accepted_operand(kKind, x);
  const Shape& from = impl.layout->shape;
  ReduceAttributes attributes;
  const Shape to =
      detail::checked(rules::reduce(kKind, from, axes.list(), keep_dims, &attributes), kKind, x);
  return {impl.dtype, from, to, element_count_along(from, attributes.axes)};
}

// In two passes, mean first and then squared differences, to avoid cancellation.
Tensor variance(Tensor value, const Axes& axes, bool keep_dims, double divisor, SourceLoc loc) {
  Tensor middle = mean(Arg(value, loc), axes, {.keep_dims = true});
  Tensor difference = sub(Arg(std::move(value), loc), Arg(std::move(middle), loc));
  Tensor squares =
      sum(Arg(square(Arg(std::move(difference), loc)), loc), axes, {.keep_dims = keep_dims});
  return div(Arg(std::move(squares), loc), Arg(divisor, loc));
}

}  // namespace

Tensor var(Arg x, Axes axes, VarianceOptions options) {
  return detail::named_as("var", [&] {
    const ReducedOperand of = reduced_operand(x, axes, options.keep_dims);
    const SourceLoc loc = x.location();
    Tensor result = variance(detail::wide(x),
                             axes,
                             options.keep_dims,
                             std::max(0.0, of.count - options.correction),
                             loc);
    return cast(Arg(std::move(result), loc), of.dtype);
  });
}

Tensor stddev(Arg x, Axes axes, VarianceOptions options) {
  return detail::named_as("stddev", [&] {
    const ReducedOperand of = reduced_operand(x, axes, options.keep_dims);
    const SourceLoc loc = x.location();
    const Tensor squared = variance(detail::wide(x),
                                    axes,
                                    options.keep_dims,
                                    std::max(0.0, of.count - options.correction),
                                    loc);
    // The square root has no slope at 0; if all values are equal the gradient is 0, as in PyTorch.
    const Tensor is_zero = equal(Arg(squared, loc), Arg(0.0, loc));
    Tensor safe = where(Arg(is_zero, loc), Arg(1.0, loc), Arg(squared, loc));
    Tensor root = sqrt(Arg(std::move(safe), loc));
    Tensor result = where(Arg(is_zero, loc), Arg(0.0, loc), Arg(std::move(root), loc));
    return cast(Arg(std::move(result), loc), of.dtype);
  });
}

Tensor logsumexp(Arg x, Axes axes, ReduceOptions options) {
  return detail::named_as("logsumexp", [&] {
    const ReducedOperand of = reduced_operand(x, axes, options.keep_dims);
    const SourceLoc loc = x.location();
    Tensor value = detail::wide(x);
    if (of.from.element_count() == 0) {
      Tensor none = sum(Arg(exp(Arg(std::move(value), loc)), loc), axes, options);
      return cast(Arg(log(Arg(std::move(none), loc)), loc), of.dtype);
    }
    // The largest value cancels out of the result, so it needs no gradient. An infinite one would
    // give inf - inf.
    const Tensor largest = max(Arg(value.detach(), loc), axes, {.keep_dims = true});
    const Tensor is_usable = is_finite(Arg(largest, loc));
    const Tensor shift = where(Arg(is_usable, loc), Arg(largest, loc), Arg(0.0, loc));
    Tensor shifted = sub(Arg(std::move(value), loc), Arg(shift, loc));
    Tensor total = sum(Arg(exp(Arg(std::move(shifted), loc)), loc), axes, {.keep_dims = true});
    Tensor logarithm = log(Arg(std::move(total), loc));
    Tensor kept = add(Arg(std::move(logarithm), loc), Arg(shift, loc));
    Tensor result = reshape(Arg(std::move(kept), loc), of.to.dims());
    return cast(Arg(std::move(result), loc), of.dtype);
  });
}

}  // namespace hearth
