// A physics-informed network: it learns a solution of the heat equation u_t = u_xx from the
// equation alone. The loss contains derivatives of the network by its inputs, so its gradient by
// the weights is a gradient of gradients. Paper: Raissi et al., J. Comput. Phys. 378 (2019).
#include <cstdio>
#include <numbers>
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

using hearth::Tensor;
using Tensors = std::vector<Tensor>;

/// u(x, t), with u(x, 0) = sin(pi x) and u(0, t) = u(1, t) = 0 for all weights.
struct Solution {
  hearth::Linear first, second, last;
  [[nodiscard]] Tensor forward(const Tensor& x, const Tensor& t) const {
    const Tensor hidden = tanh(second.forward(tanh(first.forward(hearth::concat({x, t}, 1)))));
    return sin(std::numbers::pi * x) * (1 + 10 * t * last.forward(hidden));
  }
  HEARTH_MODULE(Solution, first, second, last)
};

/// u_t - u_xx at each point: the exact solution has 0 everywhere.
Tensor residual(const Solution& u, const Tensor& x, const Tensor& t) {
  // A point's value depends on no other point, so the gradient of the sum has every slope.
  const auto slopes = [&](const Tensors& points) {
    return hearth::grad([&](const Tensors& in) { return sum(u.forward(in[0], in[1])); }, points);
  };
  const Tensor u_t = slopes({x, t})[1];
  const Tensor u_xx = hearth::grad(
      [&](const Tensors& in) {
        return sum(slopes({in[0], t})[0]);
      },
      {x})[0];
  return u_t - u_xx;
}

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(1);
  Solution u{.first = {{.in = 2, .out = 24}, device, generator},
             .second = {{.in = 24, .out = 24}, device, generator},
             .last = {{.in = 24, .out = 1}, device, generator}};
  hearth::Adam adam({.learning_rate = 1e-2});
  for (int step = 0; step <= 600; ++step) {
    const Tensor x = hearth::random_uniform(device, {128, 1}, generator, 0, 1);
    const Tensor t = hearth::random_uniform(device, {128, 1}, generator, 0, 0.3);
    auto [loss, gradients] = hearth::value_and_grad(u, [&](const Solution& tracked) {
      return hearth::mean(hearth::square(residual(tracked, x, t)));
    });
    const auto report = adam.step(u, std::move(gradients));
    if (step % 200 == 0) {
      std::printf("step %d: mean squared residual %.5f\n", step, loss.item());
    }
  }

  const Tensor x = hearth::reshape(hearth::arange(device, 0, 1.01, 0.05), {-1, 1});
  const Tensor t = hearth::full(device, x.shape(), 0.2);
  const double decay = -std::numbers::pi * std::numbers::pi;
  const Tensor exact = exp(decay * t) * sin(std::numbers::pi * x);
  std::printf("largest error at t = 0.2: %.3f\n",
              hearth::max(hearth::abs(u.forward(x, t) - exact)).item());
}
