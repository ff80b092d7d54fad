// hearth-gpu-scaling DEVICE...: data-parallel training on the first of these devices and on all of
// them, one JSON line per measurement. Weak scaling: each device has the same batch, which is on
// the device already. `scaling` is the time of a step on one device divided by that on all of them;
// 1 is perfect. `loss_gap` checks the training: the largest difference in 10 steps between the
// losses of all devices and those of one device with the whole batch.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <hearth/parallel/data_parallel.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "bench/bench_models.hpp"
#include "bench/gpu/encoder.hpp"

namespace hearth::bench {
namespace {

constexpr int kCompared = 10;
constexpr int kWarm = 10;
constexpr int kTimed = 30;

/// A shard whose samples are on the device already.
struct Part {
  std::int64_t size = 0;
};

/// A model and a rank's samples, which do not depend on the number of devices.
template <class Model>
struct Case {
  std::string name;
  std::string dtype;
  std::int64_t per_device = 0;
  std::function<Model(const Device&, Generator&)> model;
  std::function<Tensor(const Device&, std::int64_t count, Generator&)> samples;
};

struct Course {
  std::vector<double> losses;
  double median_us = 0;
  double least_us = 0;
};

enum class Wanted : std::uint8_t { losses, times };

/// Trains on these devices with `parts` shards per device: with SGD for losses, with Adam for
/// times.
template <class Model>
Course train(const Runtime& runtime,
             const Case<Model>& of,
             const std::vector<Device>& devices,
             std::int64_t parts,
             Wanted wanted) {
  std::vector<Tensor> inputs;
  std::vector<Tensor> targets;
  std::int64_t part = 0;
  for (const Device& device : devices) {
    std::vector<Tensor> shards;
    std::vector<Tensor> classes;
    for (std::int64_t i = 0; i < parts; ++i, ++part) {
      Generator generator(static_cast<std::uint64_t>(7 + part));
      shards.push_back(of.samples(device, of.per_device, generator));
      std::vector<std::int64_t> labels(static_cast<std::size_t>(of.per_device));
      for (std::size_t k = 0; k < labels.size(); ++k) {
        labels[k] = static_cast<std::int64_t>((k * 7 + static_cast<std::size_t>(part)) % 10);
      }
      classes.push_back(Tensor::from(device, labels));
    }
    inputs.push_back(concat(shards, 0));
    targets.push_back(concat(classes, 0));
    inputs.back().publish();
    targets.back().publish();
  }
  const auto loss = [&](const Model& model, Part&, WorkerContext& context) {
    const auto rank = static_cast<std::size_t>(context.rank);
    return cross_entropy(model.forward(inputs[rank]), targets[rank]);
  };
  Generator generator(1);
  DataParallel<Model, Part> trainer(
      runtime,
      of.model(devices.front(), generator),
      loss,
      {.devices = devices,
       .optimizer = wanted == Wanted::times ? OptimizerConfig(Adam::Config{})
                                            : Sgd::Config{.learning_rate = 0.01}});
  const std::vector<Part> shards(devices.size(), Part{of.per_device * parts});
  Course course;
  if (wanted == Wanted::losses) {
    for (int i = 0; i < kCompared; ++i) {
      course.losses.push_back(trainer.step(shards).loss);
    }
    return course;
  }
  for (int i = 0; i < kWarm; ++i) {
    trainer.step(shards);
  }
  std::vector<double> times;
  for (int i = 0; i < kTimed; ++i) {
    const auto start = std::chrono::steady_clock::now();
    trainer.step(shards);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::ranges::sort(times);
  course.median_us = times[times.size() / 2];
  course.least_us = times.front();
  return course;
}

template <class Model>
void measure(const Runtime& runtime, const Case<Model>& of) {
  const std::vector<Device> all = runtime.devices();
  const auto count = static_cast<std::int64_t>(all.size());
  const std::vector<Device> first{all.front()};
  const Course one = train(runtime, of, first, 1, Wanted::times);
  const Course many = train(runtime, of, all, 1, Wanted::times);
  const Course whole = train(runtime, of, first, count, Wanted::times);
  const std::vector<double> losses = train(runtime, of, all, 1, Wanted::losses).losses;
  const std::vector<double> of_whole = train(runtime, of, first, count, Wanted::losses).losses;
  double gap = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double difference = std::abs(losses[i] - of_whole[i]);
    gap = std::isfinite(difference) ? std::max(gap, difference) : HUGE_VAL;
  }
  fmt::print(
      "{{\"bench\": \"{}\", \"dtype\": \"{}\", \"devices\": {}, \"batch_per_device\": {}, "
      "\"one_us\": {:.0f}, \"one_min_us\": {:.0f}, \"all_us\": {:.0f}, \"all_min_us\": {:.0f}, "
      "\"whole_batch_on_one_us\": {:.0f}, \"scaling\": {:.3f}, \"first_loss\": {:.4f}, "
      "\"last_loss\": {:.4f}, \"loss_gap\": {:.2e}}}\n",
      of.name,
      of.dtype,
      all.size(),
      of.per_device,
      one.median_us,
      one.least_us,
      many.median_us,
      many.least_us,
      whole.median_us,
      one.median_us / many.median_us,
      losses.front(),
      losses.back(),
      gap);
  std::fflush(stdout);
  constexpr double kMostGap = 0.02;  // two steps of bf16 at a loss of 2
  if (!(gap <= kMostGap)) {
    throw Exception(
        {.code = ErrorCode::collective_failed,
         .text =
             of.name + ": the losses of several devices differ from those of one: no time counts"});
  }
}

template <class Model>
void measure_images(const Runtime& runtime,
                    const std::string& name,
                    std::initializer_list<std::int64_t> batches) {
  for (const std::int64_t batch : batches) {
    measure<Model>(runtime,
                   {.name = name,
                    .dtype = "f32",
                    .per_device = batch,
                    .model = [](const Device& device,
                                Generator& generator) { return Model(device, generator); },
                    .samples =
                        [](const Device& device, std::int64_t count, Generator& generator) {
                          return random_uniform(device, Model::input_shape(count), generator);
                        }});
  }
}

void measure_all(const std::vector<std::string>& names, const std::vector<std::string>& which) {
  RuntimeOptions options;
  for (const std::string& name : names) {
    options.devices.push_back({.name = name});
  }
  const Runtime runtime(options);
  for (const Device& device : runtime.devices()) {
    fmt::print(
        "{{\"device\": \"{}\", \"description\": \"{}\"}}\n", device.name(), device.description());
  }
  const auto is_asked = [&](const std::string& name) {
    return which.empty() || std::ranges::find(which, name) != which.end();
  };
  if (is_asked("mlp")) {
    measure_images<Mlp>(runtime, "mlp", {64, 1024});
  }
  if (is_asked("cnn")) {
    measure_images<Cnn>(runtime, "cnn", {64, 512});
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (is_asked("encoder")) {
      measure<Encoder>(
          runtime,
          {.name = "encoder_L12_d512_s256",
           .dtype = std::string(name(dtype)),
           .per_device = 32,
           .model = [dtype](const Device& device,
                            Generator& generator) { return Encoder(12, dtype, device, generator); },
           .samples =
               [dtype](const Device& device, std::int64_t count, Generator& generator) {
                 return cast(random_normal(device, {count, 256, 512}, generator), dtype);
               }});
    }
  }
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) {
  try {
    std::vector<std::string> devices;
    std::vector<std::string> models;
    constexpr std::string_view kUsage =
        "usage: hearth-gpu-scaling DEVICE DEVICE... [mlp] [cnn] [encoder]\n";
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--help" || argument == "-h") {
        fmt::print("{}", kUsage);
        return 0;
      }
      (argument.find(':') != std::string::npos ? devices : models).push_back(argument);
    }
    if (devices.size() < 2) {
      fmt::print(stderr, "{}", kUsage);
      return 2;
    }
    hearth::bench::measure_all(devices, models);
  } catch (const std::exception& error) {
    fmt::print(stderr, "hearth-gpu-scaling: {}\n", error.what());
    return 1;
  }
}
