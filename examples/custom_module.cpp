// A module of your own: a plain struct that owns its layers and names them once. This one is the
// position-wise feed-forward block of a transformer, trained briefly to become the identity. Paper:
// Vaswani et al., Attention is all you need, arXiv:1706.03762, section 3.3.
#include <iostream>

#include <hearth/hearth.hpp>

using hearth::Tensor;

struct PositionWiseFeedForward {
  hearth::Linear inner, outer;
  hearth::Dropout dropout;

  PositionWiseFeedForward(std::int64_t width,
                          std::int64_t hidden,
                          const hearth::Device& device,
                          hearth::Generator& generator)
      : inner({.in = width, .out = hidden}, device, generator),
        outer({.in = hidden, .out = width}, device, generator),
        dropout({.p = 0.1}) {}

  /// Shapes: x [..., width]; result like x.
  [[nodiscard]] Tensor forward(const Tensor& x,
                               hearth::Mode mode,
                               hearth::Generator& generator) const {
    return outer.forward(
        dropout.forward(hearth::Gelu{}.forward(inner.forward(x)), mode, generator));
  }
  HEARTH_MODULE(PositionWiseFeedForward, inner, outer, dropout)
};

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(7);
  PositionWiseFeedForward block(16, 64, device, generator);
  std::cout << hearth::parameter_count(block) << " parameters:\n";
  block.visit("", [](const std::string& path, const Tensor& tensor) {
    std::cout << "  " << path << " " << hearth::describe(tensor.dtype(), tensor.shape()) << "\n";
  });

  hearth::Adam adam({.learning_rate = 1e-2});
  const Tensor x = hearth::random_normal(device, {8, 10, 16}, generator);  // batch, position, width
  for (int step = 0; step <= 100; ++step) {
    auto [loss,
          gradients] = hearth::value_and_grad(block, [&](const PositionWiseFeedForward& tracked) {
      return hearth::mean(hearth::square(tracked.forward(x, hearth::Mode::train, generator) - x));
    });
    const hearth::Pending<hearth::StepReport> report = adam.step(block, std::move(gradients));
    if (step % 25 == 0) {
      std::cout << "step " << step << ": loss " << loss.item() << "\n";
    }
  }
  return 0;
}
