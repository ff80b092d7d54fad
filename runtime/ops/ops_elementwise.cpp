#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_submit.hpp"
#include "random_draw.hpp"

#include <hearth/runtime/base/philox.hpp>

#include <fmt/format.h>

namespace hearth {
namespace {

Tensor unary(OpKind kind, const Arg& x) {
  const TensorImpl& impl = detail::accepted_operand(kind, x);
  return detail::submit(
      {.kind = kind, .location = x.location(), .inputs = {&x, 1}}, impl.dtype, impl.layout->shape);
}

}  // namespace

Tensor cast(Arg x, DType dtype) {
  const TensorImpl& impl = detail::operand(OpKind::cast, x);
  if (impl.dtype == dtype) {
    return detail::take(x);
  }
  return detail::submit({.kind = OpKind::cast, .location = x.location(), .inputs = {&x, 1}},
                        dtype,
                        impl.layout->shape);
}

Tensor neg(Arg x) {
  return unary(OpKind::neg, x);
}
Tensor abs(Arg x) {
  return unary(OpKind::abs, x);
}
Tensor exp(Arg x) {
  return unary(OpKind::exp, x);
}
Tensor log(Arg x) {
  return unary(OpKind::log, x);
}
Tensor sqrt(Arg x) {
  return unary(OpKind::sqrt, x);
}
Tensor rsqrt(Arg x) {
  return unary(OpKind::rsqrt, x);
}
Tensor square(Arg x) {
  return unary(OpKind::square, x);
}
Tensor sin(Arg x) {
  return unary(OpKind::sin, x);
}
Tensor cos(Arg x) {
  return unary(OpKind::cos, x);
}
Tensor tanh(Arg x) {
  return unary(OpKind::tanh, x);
}
Tensor erf(Arg x) {
  return unary(OpKind::erf, x);
}
Tensor atan(Arg x) {
  return unary(OpKind::atan, x);
}
Tensor sigmoid(Arg x) {
  return unary(OpKind::sigmoid, x);
}
Tensor recip(Arg x) {
  return unary(OpKind::recip, x);
}
Tensor relu(Arg x) {
  return unary(OpKind::relu, x);
}
Tensor log1p(Arg x) {
  return unary(OpKind::log1p, x);
}
Tensor expm1(Arg x) {
  return unary(OpKind::expm1, x);
}

Tensor dropout(Arg x, double p, Generator& generator) {
  const TensorImpl& impl = detail::accepted_operand(OpKind::dropout, x);
  if (!(p >= 0 && p <= 1)) {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           OpKind::dropout,
                           fmt::format("the probability {} is not in 0 to 1", p),
                           x);
  }
  if (p == 0) {
    return detail::take(x);
  }
  const Shape& shape = impl.layout->shape;
  detail::RandomDraw draw(generator, philox::block_count(shape.element_count(), false));
  const RandomAttributes attributes{.seed = draw.seed(), .counter = draw.counter(), .a = p, .b = 0};
  Tensor result = detail::submit({.kind = OpKind::dropout,
                                  .location = x.location(),
                                  .inputs = {&x, 1},
                                  .attributes = detail::bytes_of(attributes)},
                                 impl.dtype,
                                 shape);
  draw.take();
  return result;
}

}  // namespace hearth
