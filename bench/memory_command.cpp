// hearth-bench memory FILE [--out FILE.svg]: draws the file of a MemoryTraceScope. With the name of
// an example instead of a file, trains it for a few steps and draws one more.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <hearth/modules/adam.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/memory_trace.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "bench_models.hpp"
#include "commands.hpp"
#include "memory_timeline.hpp"
#include "picture_text.hpp"

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

struct Subject {
  MemoryTrace trace;
  std::string title;
  std::shared_ptr<const std::set<std::string>> files = nullptr;
};

Subject example_of(const std::string& example, std::int64_t batch, const std::string& device_name) {
  const Runtime runtime({.devices = {{.name = device_name}}});
  const Device device = runtime.device(device_name);
  MemoryTrace trace = examples().at(example)(device, batch);
  return {
      .trace = std::move(trace),
      .title = fmt::format(
          "Memory of one training step: {}, batch {}, Adam, on {}", example, batch, device_name)};
}

Subject file_of(const std::string& file, const std::string& device_name) {
  std::vector<DeviceMemoryTrace> traces = read_memory_traces(file).value();
  std::string known;
  for (DeviceMemoryTrace& trace : traces) {
    if (trace.device == device_name || device_name.empty()) {
      return {.trace = std::move(trace.events),
              .title = fmt::format("Memory of {}: {}", trace.device, file),
              .files = std::move(trace.files)};
    }
    known += (known.empty() ? "" : ", ") + trace.device;
  }
  throw std::runtime_error(
      device_name.empty()
          ? fmt::format("{}: no device had any memory", file)
          : fmt::format("{}: no device '{}'; there are: {}", file, device_name, known));
}

std::int64_t peak_of(const MemoryTrace& trace) {
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (const MemoryEvent& event : trace) {
    live += event.what == MemoryEvent::What::made    ? event.tensor.size_bytes
            : event.what == MemoryEvent::What::freed ? -event.tensor.size_bytes
                                                     : 0;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace

int memory_command(int argc, char** argv) {
  CLI::App app("Draws a program's memory over time, tensor by tensor.", "hearth-bench memory");
  std::string subject;
  std::string out;
  std::string device_name;
  std::string axis = "events";
  std::int64_t batch = 64;
  app.add_option("FILE", subject, "The file of a MemoryTraceScope; or an example, mlp or cnn")
      ->required();
  app.add_option("--out", out, "The SVG file; else that of FILE's name, with .svg at its end");
  app.add_option("--axis", axis, "What is counted to the right: events or time")
      ->check(CLI::IsMember({"events", "time"}))
      ->capture_default_str();
  app.add_option("--batch", batch, "Of an example: samples in the step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--device",
                 device_name,
                 "Whose memory, else that of the first device; of an example, where it runs");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (out.empty()) {
    out = std::filesystem::path(subject).replace_extension(".svg").string();
  }
  const bool is_example = examples().contains(subject) && !std::filesystem::exists(subject);
  const Subject drawn =
      is_example ? example_of(subject, batch, device_name.empty() ? "cpu:0" : device_name)
                 : file_of(subject, device_name);
  std::ofstream file(out);
  file << draw_memory_timeline(
      drawn.trace, drawn.title, axis == "time" ? MemoryAxis::time : MemoryAxis::events);
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + out);
  }
  std::printf("%s: %zu events; peak %s live\n",
              out.c_str(),
              drawn.trace.size(),
              readable(static_cast<double>(peak_of(drawn.trace))).c_str());
  return 0;
}

}  // namespace hearth::bench
