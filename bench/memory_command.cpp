// hearth-bench memory EXAMPLE --out FILE.svg: trains an example a few steps, then draws who held
// memory during one more.
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <hearth/modules/adam.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "bench_models.hpp"
#include "commands.hpp"
#include "memory_timeline.hpp"

namespace hearth::bench {
namespace {

constexpr int kWarmSteps = 3;

template <class Model>
MemoryTrace trace_step(const Device& device, std::int64_t batch) {
  Generator generator(1);
  Model model(device, generator);
  Adam adam({.learning_rate = 1e-3});
  const Tensor inputs = random_normal(device, Model::input_shape(batch), generator);
  const Tensor targets = cast(random_uniform(device, {batch}, generator, 0, 10), DType::i64);
  const auto step = [&] {
    auto [loss, gradients] = value_and_grad(model, [&](const Model& tracked) {
      return cross_entropy(tracked.forward(inputs), targets);
    });
    adam.step(model, std::move(gradients)).get();
    return loss.item();
  };
  for (int i = 0; i < kWarmSteps; ++i) {
    static_cast<void>(step());
  }
  device.start_memory_trace();
  static_cast<void>(step());
  return device.take_memory_trace();
}

using Example = MemoryTrace (*)(const Device& device, std::int64_t batch);
const std::map<std::string, Example>& examples() {
  static const std::map<std::string, Example> all{{"mlp", &trace_step<Mlp>},
                                                  {"cnn", &trace_step<Cnn>}};
  return all;
}

}  // namespace

int memory_command(int argc, char** argv) {
  CLI::App app("Draws the memory timeline of a training step.", "hearth-bench memory");
  std::string example;
  std::string out;
  std::string device_name = "cpu:0";
  std::int64_t batch = 64;
  app.add_option("EXAMPLE", example, "whose step: mlp or cnn")
      ->required()
      ->check(CLI::IsMember({"mlp", "cnn"}));
  app.add_option("--out", out, "the SVG file")->required();
  app.add_option("--batch", batch, "samples in the step")->check(CLI::Range(1, 1 << 20));
  app.add_option("--device", device_name, "where it runs");
  CLI11_PARSE(app, argc, argv);
  const Runtime runtime;
  const Device device = runtime.device(device_name);
  const MemoryTrace trace = examples().at(example)(device, batch);
  std::ofstream file(out);
  file << draw_memory_timeline(
      trace,
      fmt::format(
          "Memory of one training step: {}, batch {}, Adam, on {}", example, batch, device_name));
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + out);
  }
  const MemoryReport report = device.memory_report();
  std::printf("%s: %zu events; peak live %.2f MiB, reserved %.2f MiB; in place %llu times\n",
              out.c_str(),
              trace.size(),
              static_cast<double>(report.total.peak_live_bytes) / (1 << 20),
              static_cast<double>(report.total.peak_reserved_bytes) / (1 << 20),
              static_cast<unsigned long long>(report.in_place_count));
  return 0;
}

}  // namespace hearth::bench
