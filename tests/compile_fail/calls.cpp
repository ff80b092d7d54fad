// Common mistakes in calls, each of which fails with one sentence.
#include <array>
#include <span>
#include <utility>

#include <hearth/hearth.hpp>

struct Pair {
  hearth::Linear inner;
  [[nodiscard]] hearth::Tensor forward(const hearth::Tensor& x, const hearth::Tensor& y) const {
    return inner.forward(x) + y;
  }
  HEARTH_MODULE(Pair, inner)
};

void train(const hearth::Runtime& runtime,
           const hearth::Linear& model,
           const hearth::Dataset& data) {
  hearth::Trainer trainer(runtime, model, hearth::CrossEntropyLoss(), {.epochs = 2});
#ifdef HEARTH_FIT_LOADER
  hearth::DataLoader loader(data, runtime.executor(), {});
  trainer.fit(loader);
#endif
#ifdef HEARTH_EVALUATE_LOADER
  hearth::DataLoader loader(data, runtime.executor(), {});
  static_cast<void>(trainer.evaluate(loader));
#endif
  trainer.fit(data);
}

void train_pair(const hearth::Runtime& runtime, const Pair& model) {
#ifdef HEARTH_FORWARD_OF_TWO
  hearth::Trainer trainer(runtime, model, hearth::CrossEntropyLoss(), {.epochs = 2});
#else
  const auto loss = [](const Pair& pair, hearth::Batch& batch, const hearth::LossContext&) {
    return mse_loss(pair.forward(batch.inputs, batch.inputs), batch.targets);
  };
  hearth::Trainer trainer(runtime, model, loss, {.epochs = 2});
#endif
}

hearth::Tensor run(const hearth::Linear& linear, const hearth::Tensor& x) {
  const hearth::Sequential layers(linear, hearth::Dropout({.p = 0.1}));
#ifdef HEARTH_WITHOUT_MODE
  return layers.forward(x);
#else
  return layers.forward(x, hearth::Mode::eval);
#endif
}

#ifdef HEARTH_SEQUENTIAL_OF_TWO
hearth::Sequential<hearth::Linear, Pair> in_line(const hearth::Linear& linear, const Pair& pair) {
  return hearth::Sequential(linear, pair);
}
#endif

void step(hearth::Adam& adam, hearth::Linear& model, hearth::Gradients gradients) {
#ifdef HEARTH_STEP_COPIES
  static_cast<void>(adam.step(model, gradients));
#else
  static_cast<void>(adam.step(model, std::move(gradients)));
#endif
}

hearth::Device first(const hearth::Runtime& runtime) {
#ifdef HEARTH_DEVICE_NUMBER
  return runtime.device(0);
#else
  return runtime.device("cpu:0");
#endif
}
