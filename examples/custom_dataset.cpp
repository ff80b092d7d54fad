// A data set of your own: a class that returns examples by their numbers, with any named arrays. It
// is split, transformed and read by a loader's threads. Its exceptions keep their text.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <utility>

#include <hearth/hearth.hpp>

/// Points on two spirals, which are the classes. Points near the middle lie close to both spirals
/// and have less weight.
class Spirals final : public hearth::Dataset {
 public:
  explicit Spirals(std::int64_t count) : count_(count) {}
  [[nodiscard]] std::int64_t size() const override { return count_; }

  /// Called by several threads at once; changes nothing.
  [[nodiscard]] hearth::Examples read(std::span<const std::int64_t> indices) const override {
    const auto rows = static_cast<std::int64_t>(indices.size());
    hearth::Examples examples{hearth::HostArray(hearth::DType::f32, {rows, 2}),
                              hearth::HostArray(hearth::DType::i64, {rows}),
                              {{"weight", hearth::HostArray(hearth::DType::f32, {rows})}}};
    const auto points = examples.inputs.values<float>();
    const auto spirals = examples.targets.values<std::int64_t>();
    const auto weights = examples.at("weight").values<float>();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t spiral = indices[i] % 2;
      const double way = static_cast<double>(indices[i]) / static_cast<double>(count_);
      const double angle = 6 * way + 3.14159 * static_cast<double>(spiral);
      points[2 * i] = static_cast<float>(way * std::cos(angle));
      points[2 * i + 1] = static_cast<float>(way * std::sin(angle));
      spirals[i] = spiral;
      weights[i] = static_cast<float>(0.2 + way);
    }
    return examples;
  }

 private:
  std::int64_t count_;
};

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  const Spirals spirals(2000);
  const auto parts = hearth::random_split(spirals, {0.8, 0.2}, 1);
  // Each point is moved a little: differently for each point, but equally in each run.
  const hearth::MappedDataset shaken(
      parts[0], [](hearth::Examples examples, std::span<const std::int64_t> numbers) {
        const auto points = examples.inputs.values<float>();
        for (std::size_t i = 0; i < points.size(); ++i) {
          const auto number = static_cast<double>(numbers[i / 2]);
          points[i] +=
              static_cast<float>(0.01 * std::sin(12.9898 * number + static_cast<double>(i % 2)));
        }
        return examples;
      });

  hearth::Generator generator(1);
  auto model = hearth::Sequential(hearth::Linear({.in = 2, .out = 64}, device, generator),
                                  hearth::Tanh{},
                                  hearth::Linear({.in = 64, .out = 64}, device, generator),
                                  hearth::Tanh{},
                                  hearth::Linear({.in = 64, .out = 2}, device, generator));
  hearth::Adam adam({.learning_rate = 5e-3});
  hearth::DataLoader loader(shaken, runtime.executor(), {.batch_size = 64});
  for (int epoch = 1; epoch <= 15; ++epoch) {
    while (const auto batch = loader.next(device)) {
      auto [loss, gradients] = hearth::value_and_grad(model, [&](const auto& tracked) {
        const auto losses = cross_entropy_per_row(tracked.forward(batch->inputs), batch->targets);
        return mean(losses * batch->at("weight"));
      });
      auto report = adam.step(model, std::move(gradients));
    }
  }
  hearth::DataLoader held_out(parts[1], runtime.executor(), {.batch_size = 400});
  const auto batch = held_out.next(device);
  std::printf("right on points that it did not see: %.1f %%\n",
              100 * hearth::accuracy(model.forward(batch->inputs), batch->targets).item());

  // An exception in read() ends the loop with its own text, from any thread.
  const hearth::MappedDataset broken(spirals, [](hearth::Examples) -> hearth::Examples {
    throw std::runtime_error("the spiral is broken");
  });
  hearth::DataLoader unlucky(broken, runtime.executor(), {.batch_size = 64});
  try {
    (void)unlucky.next(device);
  } catch (const hearth::Exception& error) {
    std::printf("as expected: %s\n", error.what());
  }
  return 0;
}
