// A small network, eight examples, and the losses of training on them, for the tests of Vulkan
// devices. Threads: values.
#pragma once

#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hearth::testing {

struct Net {
  Linear inner, outer;
  Net(const Device& device, Generator& generator)
      : inner({.in = 6, .out = 16}, device, generator),
        outer({.in = 16, .out = 3}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return outer.forward(gelu(inner.forward(x)));
  }
  HEARTH_MODULE(Net, inner, outer)
};

inline Tensor inputs_on(const Device& device) {
  std::vector<float> values(8 * 6);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i) * 1.7));
  }
  return Tensor::from(device, values, {8, 6});
}
/// `last`: the class of the last example.
inline Tensor targets_on(const Device& device, std::int64_t last = 1) {
  return Tensor::from(device, std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0, last}, {8});
}

/// The loss before each of `steps` steps.
inline std::vector<double> losses_on(const Device& device, int steps) {
  Generator generator(3);
  Net net(device, generator);
  Adam adam({.learning_rate = 0.02});
  const Tensor x = inputs_on(device);
  const Tensor y = targets_on(device);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    auto [loss, gradients] = value_and_grad(
        net, [&](const Net& tracked) { return cross_entropy(tracked.forward(x), y); });
    adam.step(net, std::move(gradients)).get();
    losses.push_back(loss.item());
  }
  return losses;
}

}  // namespace hearth::testing
