#include "elements.hpp"
#include "evaluators.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace hearth::reference {
namespace {

/// Calls fn(output index, plane's first input index, place in the plane) for every input element of
/// every window. Goes window by window, each in row-major order. x is the shape of the input [n, c,
/// h, w], y that of the output.
template <class Fn>
void visit_windows(const Shape& x, const Shape& y, const PoolAttributes& pool, const Fn& fn) {
  std::int64_t out = 0;
  for (std::int64_t plane = 0; plane < y[0] * y[1]; ++plane) {
    for (std::int64_t oy = 0; oy < y[2]; ++oy) {
      for (std::int64_t ox = 0; ox < y[3]; ++ox, ++out) {
        for (std::int64_t ky = 0; ky < pool.kernel[0]; ++ky) {
          for (std::int64_t kx = 0; kx < pool.kernel[1]; ++kx) {
            const std::int64_t iy = oy * pool.stride[0] - pool.padding[0] + ky;
            const std::int64_t ix = ox * pool.stride[1] - pool.padding[1] + kx;
            if (iy >= 0 && iy < x[2] && ix >= 0 && ix < x[3]) {
              fn(out, plane * x[2] * x[3], iy * x[3] + ix);
            }
          }
        }
      }
    }
  }
}

void max_forward(const KernelCall& call, const PoolAttributes& pool) {
  const TensorView& input = call.inputs[0];
  const Shape& shape = call.outputs[0].shape();
  const Reals x = load_reals(input);
  Reals out = filled(shape, -std::numeric_limits<double>::infinity());
  Integers positions = filled(shape, std::int64_t{-1});
  visit_windows(
      input.shape(), shape, pool, [&](std::int64_t i, std::int64_t plane, std::int64_t place) {
        const double value = at(x, plane + place);
        const double best = at(out, i);
        if (at(positions, i) < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
          at(out, i) = value;
          at(positions, i) = place;
        }
      });
  store(call.outputs[0], out);
  if (call.outputs.size() > 1) {
    store(call.outputs[1], positions);
  }
}

Status max_backward(const KernelCall& call) {
  const TensorView& result = call.outputs[0];
  const Shape& grad_shape = call.inputs[0].shape();
  const Reals grad = load_reals(call.inputs[0]);
  const Integers positions = load_integers(call.inputs[1]);
  const std::int64_t plane_size = result.shape()[2] * result.shape()[3];
  const std::int64_t window_count = grad_shape[2] * grad_shape[3];
  Reals out = filled(result.shape(), 0.0);
  for (std::int64_t i = 0; i < grad_shape.element_count(); ++i) {
    const std::int64_t place = at(positions, i);
    if (place < 0 || place >= plane_size) {
      return Error{
          .code = ErrorCode::out_of_range,
          .text = fmt::format("max_pool2d_backward: position {} is outside a plane of {} elements",
                              place,
                              plane_size),
          .op = "max_pool2d_backward"};
    }
    at(out, i / window_count * plane_size + place) += at(grad, i);
  }
  store(result, out);
  return {};
}

/// Returns the divisor of each window's sum.
Reals window_sizes(const Shape& x, const Shape& y, const PoolAttributes& pool) {
  if (pool.count_include_pad != 0) {
    return filled(y, static_cast<double>(pool.kernel[0] * pool.kernel[1]));
  }
  Reals sizes = filled(y, 0.0);
  visit_windows(
      x, y, pool, [&](std::int64_t i, std::int64_t, std::int64_t) { at(sizes, i) += 1.0; });
  return sizes;
}

void avg_forward(const KernelCall& call, const PoolAttributes& pool) {
  const Shape& in = call.inputs[0].shape();
  const Shape& shape = call.outputs[0].shape();
  const Reals x = load_reals(call.inputs[0]);
  const Reals sizes = window_sizes(in, shape, pool);
  Reals out = filled(shape, 0.0);
  visit_windows(in, shape, pool, [&](std::int64_t i, std::int64_t plane, std::int64_t place) {
    at(out, i) += at(x, plane + place);
  });
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] /= sizes[i];
  }
  store(call.outputs[0], out);
}

void avg_backward(const KernelCall& call, const PoolAttributes& pool) {
  const Shape& in = call.outputs[0].shape();
  const Shape& shape = call.inputs[0].shape();
  const Reals grad = load_reals(call.inputs[0]);
  const Reals sizes = window_sizes(in, shape, pool);
  Reals out = filled(in, 0.0);
  visit_windows(in, shape, pool, [&](std::int64_t i, std::int64_t plane, std::int64_t place) {
    at(out, plane + place) += at(grad, i) / at(sizes, i);
  });
  store(call.outputs[0], out);
}

}  // namespace

Status evaluate_pooling(const KernelCall& call) {
  const auto pool = call.op.attributes<PoolAttributes>();
  switch (call.op.kind()) {
    case OpKind::max_pool2d:
      max_forward(call, pool);
      return {};
    case OpKind::max_pool2d_backward:
      return max_backward(call);
    case OpKind::avg_pool2d:
      avg_forward(call, pool);
      return {};
    default:
      avg_backward(call, pool);
      return {};
  }
}

}  // namespace hearth::reference
