#include <cstdio>

#include <hearth/hearth.hpp>

struct Classifier {
  hearth::Linear inner, outer;
  hearth::Tensor forward(const hearth::Tensor& x) const {
    return outer.forward(relu(inner.forward(flatten(x, 1))));
  }
  HEARTH_MODULE(Classifier, inner, outer)
};

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(1);
  Classifier model{.inner = {{.in = 784, .out = 128}, device, generator},
                   .outer = {{.in = 128, .out = 10}, device, generator}};
  const hearth::ImageDataset digits(hearth::make_digits({.count = 4000}));
  hearth::DataLoader loader(digits, runtime.executor(), {.batch_size = 64});
  hearth::Adam adam({.learning_rate = 1e-3});
  for (int epoch = 1; epoch <= 5; ++epoch) {
    double last_loss = 0;
    while (const auto batch = loader.next(device)) {
      auto [loss, gradients] = hearth::value_and_grad(model, [&](const Classifier& tracked) {
        return cross_entropy(tracked.forward(batch->inputs), batch->targets);
      });
      auto report = adam.step(model, std::move(gradients));  // queued; a failure would be in here
      last_loss = loss.item();
    }
    std::printf("epoch %d: loss of the last batch %.4f\n", epoch, last_loss);
  }
}
