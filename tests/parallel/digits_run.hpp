// A small network that learns digits, and options for training without output, for the Trainer's
// tests. Threads: values.
#pragma once

#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/digits.hpp>
#include <hearth/modules/dropout.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/parallel/trainer.hpp>
#include <hearth/runtime/base/file.hpp>

#include "training_support.hpp"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hearth::testing {

/// Pixels-8-10, with a dropout in between.
struct DigitNet {
  Linear inner, outer;
  Dropout dropout;

  explicit DigitNet(const Device& device, double drop = 0.2, DType dtype = DType::f32)
      : DigitNet(device, Generator(1), drop, dtype) {}
  DigitNet(const Device& device, Generator generator, double drop, DType dtype)
      : inner({.in = 784, .out = 8}, device, generator, dtype),
        outer({.in = 8, .out = 10}, device, generator, dtype),
        dropout({.p = drop}) {}
  [[nodiscard]] Tensor forward(const Tensor& x, Mode mode) const {
    const Tensor pixels = flatten(x, 1).to(inner.weight.dtype());
    return outer.forward(dropout.forward(relu(inner.forward(pixels)), mode));
  }
  HEARTH_MODULE(DigitNet, inner, outer, dropout)
};

/// A convolution, a BatchNorm2d and a dropout.
struct NormNet {
  Conv2d conv;
  BatchNorm2d norm;
  Dropout dropout;
  Linear head;

  explicit NormNet(const Device& device, double drop = 0.2, DType dtype = DType::f32)
      : NormNet(device, Generator(1), drop, dtype) {}
  NormNet(const Device& device, Generator generator, double drop, DType dtype)
      : conv({.in = 1, .out = 4, .kernel = 5, .stride = 3}, device, generator, dtype),
        norm({.channels = 4}, device, dtype),
        dropout({.p = drop}),
        head({.in = 256, .out = 10}, device, generator, dtype) {}
  [[nodiscard]] Tensor forward(const Tensor& x, Mode mode) const {
    const Tensor y = relu(norm.forward(conv.forward(x.to(conv.weight.dtype())), mode));
    return head.forward(dropout.forward(flatten(y, 1), mode));
  }
  HEARTH_MODULE(NormNet, conv, norm, dropout, head)
};

inline const auto kLoss = [](const Tensor& outputs, const Tensor& targets) {
  return cross_entropy(outputs, targets);
};

/// Digits, and options for training on them without output.
struct Digits {
  explicit Digits(int world = 1) : runtime(cpu_devices(world)) {
    for (int i = 0; i < world; ++i) {
      options.devices.push_back(runtime.device("cpu:" + std::to_string(i)));
    }
    options.epochs = 3;
    options.optimizer = Adam::Config{.learning_rate = 5e-3};
    options.seed = 5;
    options.batch_size = 10;
    options.console.style = ConsoleStyle::silent;
  }
  template <class Model = DigitNet>
  [[nodiscard]] Trainer<Model> trainer(const TrainerOptions& with) const {
    return Trainer<Model>(runtime, Model(with.devices.front()), kLoss, with);
  }
  template <class Model = DigitNet>
  TrainingResult fit(const TrainerOptions& with) const {
    return trainer<Model>(with).fit(train, test);
  }

  Runtime runtime;
  ImageDataset train{make_digits({.count = 64})};
  ImageDataset test{make_digits({.count = 30, .first = 64})};
  TrainerOptions options;
};

/// Captures the output of a run.
class Console {
 public:
  [[nodiscard]] ConsoleOptions options() const {
    return {.style = ConsoleStyle::plain, .out = file_.get()};
  }
  [[nodiscard]] std::string text() const {
    std::rewind(file_.get());
    std::string all(4096, '\0');
    all.resize(std::fread(all.data(), 1, all.size(), file_.get()));
    return all;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{std::tmpfile(), std::fclose};
};

inline std::string text_of(const std::filesystem::path& file) {
  const std::vector<std::byte> bytes = read_file(file).value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Twelve examples a step, divided in any way, must give one run in f64, where only the order of
/// sums differs. make_loss(device) makes the Trainer's loss; change(options) sets the rest of the
/// run.
template <class MakeLoss, class Change>
void expect_division_changes_nothing(const MakeLoss& make_loss, const Change& change) {
  const auto train = [&](int world, std::int64_t batch_size, std::int64_t accumulate) {
    Digits digits(world);
    TrainerOptions options = digits.options;
    options.batch_size = batch_size;
    options.accumulate = accumulate;
    options.epochs = 2;
    change(options);
    const Device& first = options.devices.front();
    Trainer<DigitNet> trainer(
        digits.runtime, DigitNet(first, 0, DType::f64), make_loss(first), options);
    const TrainingResult result = trainer.fit(digits.train, digits.test);
    return std::pair(weights_of(trainer.model()), result.history.epochs.back());
  };
  const auto [one, of_one] = train(1, 12, 1);
  for (const auto& [world, batch, accumulate] :
       std::vector<std::tuple<int, int, int>>{{2, 12, 1}, {1, 4, 3}, {2, 4, 3}, {3, 4, 3}}) {
    const auto [many, of_many] = train(world, batch, accumulate);
    EXPECT_LE(largest_difference(many, one), 1e-12) << world << " devices, " << accumulate;
    EXPECT_NEAR(of_many.train_loss, of_one.train_loss, 1e-12);
    EXPECT_NEAR(*of_many.validation_loss, *of_one.validation_loss, 1e-12);
    EXPECT_EQ(of_many.metrics, of_one.metrics);
    EXPECT_EQ(of_many.last_learning_rate, of_one.last_learning_rate);
  }
}

/// The part of a run's figures that does not depend on time.
inline std::vector<std::vector<double>> figures_of(const TrainingResult& result) {
  std::vector<std::vector<double>> all;
  for (const EpochRecord& epoch : result.history.epochs) {
    all.push_back({epoch.train_loss,
                   epoch.validation_loss.value_or(-1),
                   epoch.first_learning_rate,
                   epoch.last_learning_rate});
    all.back().insert(all.back().end(), epoch.metrics.begin(), epoch.metrics.end());
  }
  all.push_back(result.history.steps.points());
  all.push_back(result.history.rates.points());
  return all;
}

}  // namespace hearth::testing
