#include "elements.hpp"
#include "evaluators.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <cstdint>

namespace hearth::reference {
namespace {

/// Calls fn(input index, weight index, output index) for every product of the convolution. Indices
/// are dense, of x [n, c, h, w], w [o, c/groups, kh, kw] and y [n, o, oh, ow]. The gradients use
/// the same products.
template <class Fn>
void visit_products(
    const Shape& x, const Shape& w, const Shape& y, const ConvAttributes& conv, const Fn& fn) {
  const std::int64_t outputs_per_group = w[0] / conv.groups;
  for (std::int64_t n = 0; n < y[0]; ++n) {
    for (std::int64_t o = 0; o < y[1]; ++o) {
      const std::int64_t first_channel = o / outputs_per_group * w[1];
      for (std::int64_t oy = 0; oy < y[2]; ++oy) {
        for (std::int64_t ox = 0; ox < y[3]; ++ox) {
          const std::int64_t out = ((n * y[1] + o) * y[2] + oy) * y[3] + ox;
          std::int64_t weight = o * w[1] * w[2] * w[3];
          for (std::int64_t c = 0; c < w[1]; ++c) {
            for (std::int64_t ky = 0; ky < w[2]; ++ky) {
              for (std::int64_t kx = 0; kx < w[3]; ++kx, ++weight) {
                const std::int64_t iy =
                    oy * conv.stride[0] - conv.padding[0] + ky * conv.dilation[0];
                const std::int64_t ix =
                    ox * conv.stride[1] - conv.padding[1] + kx * conv.dilation[1];
                if (iy >= 0 && iy < x[2] && ix >= 0 && ix < x[3]) {
                  fn(((n * x[1] + first_channel + c) * x[2] + iy) * x[3] + ix, weight, out);
                }
              }
            }
          }
        }
      }
    }
  }
}

void forward(const KernelCall& call, const ConvAttributes& conv) {
  const Shape& shape = call.outputs[0].shape();
  const Reals x = load_reals(call.inputs[0]);
  const Reals w = load_reals(call.inputs[1]);
  Reals out = filled(shape, 0.0);
  if (call.inputs.size() > 2) {
    const Reals bias = load_reals(call.inputs[2]);
    const std::int64_t plane = shape[2] * shape[3];
    for (std::int64_t i = 0; i < shape.element_count(); ++i) {
      at(out, i) = at(bias, i / plane % shape[1]);
    }
  }
  visit_products(call.inputs[0].shape(),
                 call.inputs[1].shape(),
                 shape,
                 conv,
                 [&](std::int64_t ix, std::int64_t iw, std::int64_t iy) {
                   at(out, iy) += at(x, ix) * at(w, iw);
                 });
  store(call.outputs[0], out);
}

void backward_input(const KernelCall& call, const ConvAttributes& conv) {
  const Reals grad = load_reals(call.inputs[0]);
  const Reals w = load_reals(call.inputs[1]);
  Reals out = filled(call.outputs[0].shape(), 0.0);
  visit_products(call.outputs[0].shape(),
                 call.inputs[1].shape(),
                 call.inputs[0].shape(),
                 conv,
                 [&](std::int64_t ix, std::int64_t iw, std::int64_t iy) {
                   at(out, ix) += at(grad, iy) * at(w, iw);
                 });
  store(call.outputs[0], out);
}

void backward_weight(const KernelCall& call, const ConvAttributes& conv) {
  const Reals x = load_reals(call.inputs[0]);
  const Reals grad = load_reals(call.inputs[1]);
  Reals out = filled(call.outputs[0].shape(), 0.0);
  visit_products(call.inputs[0].shape(),
                 call.outputs[0].shape(),
                 call.inputs[1].shape(),
                 conv,
                 [&](std::int64_t ix, std::int64_t iw, std::int64_t iy) {
                   at(out, iw) += at(x, ix) * at(grad, iy);
                 });
  store(call.outputs[0], out);
}

}  // namespace

Status evaluate_convolution(const KernelCall& call) {
  const auto conv = call.op.attributes<ConvAttributes>();
  if (call.op.kind() == OpKind::conv2d) {
    forward(call, conv);
  } else if (call.op.kind() == OpKind::conv2d_backward_input) {
    backward_input(call, conv);
  } else {
    backward_weight(call, conv);
  }
  return {};
}

}  // namespace hearth::reference
