// Shared by the data-parallel tests: two networks, a batch from a seed, runtimes with several
// devices, and the largest difference between two models.
// Threads: values.
#pragma once

#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/dropout.hpp>
#include <hearth/modules/generator_scope.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/parallel/data_parallel.hpp>
#include <hearth/runtime/base/philox.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/support/crowd.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hearth::testing {

/// `count` cpu devices, each on its share of the cores.
inline RuntimeOptions cpu_devices(int count, detail::Executor* executor = nullptr) {
  RuntimeOptions options{.devices = {}, .executor = executor};
  for (int i = 0; i < count; ++i) {
    options.devices.push_back(
        {.name = "cpu:" + std::to_string(i), .memory_budget_bytes = std::int64_t{256} << 20});
  }
  options.devices = crowded(std::move(options.devices));
  return options;
}

/// The convolutional network of the peers.
struct Cnn {
  static constexpr std::int64_t kSide = 28;
  Conv2d a, b;
  Linear c;

  Cnn(const Device& device, Generator& generator, DType dtype)
      : a({.in = 1, .out = 32, .padding = {1, 1}}, device, generator, dtype),
        b({.in = 32, .out = 64, .padding = {1, 1}}, device, generator, dtype),
        c({.in = 3136, .out = 10}, device, generator, dtype) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    Tensor y = max_pool2d(relu(a.forward(x)));
    y = max_pool2d(relu(b.forward(std::move(y))));
    return c.forward(flatten(std::move(y), 1));
  }
  HEARTH_MODULE(Cnn, a, b, c)
};

/// A small network for tests that do not depend on numbers. `unused` does not enter the loss.
struct TinyNet {
  static constexpr std::int64_t kSide = 4;
  Linear first;
  Dropout dropout;
  Linear second, unused;

  TinyNet(const Device& device, Generator& generator, DType dtype, double drop = 0)
      : first({.in = kSide * kSide, .out = 8}, device, generator, dtype),
        dropout({.p = drop}),
        second({.in = 8, .out = 10}, device, generator, dtype),
        unused({.in = 2, .out = 3}, device, generator, dtype) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return second.forward(dropout.forward(relu(first.forward(flatten(x, 1))), Mode::train));
  }
  HEARTH_MODULE(TinyNet, first, dropout, second, unused)
};

/// Pictures in [-1, 1), each with a class, in host memory.
struct Samples {
  std::int64_t size = 0;
  std::int64_t side = 0;
  std::vector<double> pixels;
  std::vector<std::int64_t> classes;
};

inline Samples random_samples(std::int64_t count, std::int64_t side, std::uint64_t seed) {
  Samples samples{.size = count, .side = side, .pixels = {}, .classes = {}};
  auto word = [&, next = std::uint64_t{0}]() mutable { return philox::block(seed, next++)[0]; };
  for (std::int64_t i = 0; i < count * side * side; ++i) {
    samples.pixels.push_back(static_cast<double>(word()) / 0x1p31 - 1);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    samples.classes.push_back(static_cast<std::int64_t>(word() % 10));
  }
  return samples;
}

/// Samples [begin, end).
inline Samples cut(const Samples& from, std::int64_t begin, std::int64_t end) {
  const std::int64_t area = from.side * from.side;
  return {.size = end - begin,
          .side = from.side,
          .pixels = {from.pixels.begin() + begin * area, from.pixels.begin() + end * area},
          .classes = {from.classes.begin() + begin, from.classes.begin() + end}};
}

/// Divides evenly; the first ranks get one more.
inline std::vector<Samples> divide(const Samples& from, int world) {
  std::vector<Samples> shards;
  std::int64_t begin = 0;
  for (int rank = 0; rank < world; ++rank) {
    const std::int64_t end = begin + from.size / world + (rank < from.size % world ? 1 : 0);
    shards.push_back(cut(from, begin, end));
    begin = end;
  }
  return shards;
}

/// The mean cross entropy of a shard.
template <class Model>
Tensor mean_loss(const Model& model, const Samples& shard, const Device& device, DType dtype) {
  const Tensor pixels =
      Tensor::from(device, shard.pixels, {shard.size, 1, shard.side, shard.side}).to(dtype);
  const Tensor classes = Tensor::from(device, shard.classes, {shard.size});
  return cross_entropy(model.forward(pixels), classes);
}

template <class Model>
auto loss_in(DType dtype) {
  return [dtype](const Model& model, Samples& shard, WorkerContext& context) {
    return mean_loss(model, shard, context.device, dtype);
  };
}

/// All weights, concatenated.
template <class Model>
std::vector<double> weights_of(const Model& model) {
  std::vector<double> all;
  model.visit("", [&](const std::string&, const Tensor& tensor) {
    const std::vector<double> values = tensor.to(DType::f64).template to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  });
  return all;
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::fabs(a[i] - b[i]);
    largest = difference <= largest ? largest : difference;  // NaN stays
  }
  return largest;
}

/// Whether all replicas of a trainer have equal bits, so that no rank is half a step ahead.
template <class Trainer>
bool has_equal_replicas(Trainer& trainer) {
  const auto all =
      trainer.evaluate([](const auto& model, WorkerContext&) { return weights_of(model); });
  return std::ranges::all_of(all, [&](const auto& each) { return each == all.front(); });
}

}  // namespace hearth::testing
