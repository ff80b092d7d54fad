// The models of the peer programs: MLP 784-512-512-10 and a CNN of two convolutions, both with
// relu. Threads: as modules.
#pragma once

#include <hearth/modules/activations.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/runtime/ops.hpp>

namespace hearth::bench {

struct Mlp {
  Linear a, b, c;

  Mlp(const Device& device, Generator& generator)
      : a({.in = 784, .out = 512}, device, generator),
        b({.in = 512, .out = 512}, device, generator),
        c({.in = 512, .out = 10}, device, generator) {}

  /// Shapes: x [n, 784] -> [n, 10].
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return c.forward(relu(b.forward(relu(a.forward(x)))));
  }
  [[nodiscard]] static Shape input_shape(std::int64_t count) { return {count, 784}; }
  HEARTH_MODULE(Mlp, a, b, c)
};

struct Cnn {
  Conv2d a, b;
  Linear c;

  Cnn(const Device& device, Generator& generator)
      : a({.in = 1, .out = 32, .padding = {1, 1}}, device, generator),
        b({.in = 32, .out = 64, .padding = {1, 1}}, device, generator),
        c({.in = 3136, .out = 10}, device, generator) {}

  /// Shapes: x [n, 1, 28, 28] -> [n, 10].
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    Tensor y = max_pool2d(relu(a.forward(x)));
    y = max_pool2d(relu(b.forward(std::move(y))));
    return c.forward(flatten(std::move(y), 1));
  }
  [[nodiscard]] static Shape input_shape(std::int64_t count) { return {count, 1, 28, 28}; }
  HEARTH_MODULE(Cnn, a, b, c)
};

}  // namespace hearth::bench
