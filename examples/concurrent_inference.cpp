// Many clients on one model: loads the weights that train_mnist saved, and lets client threads
// request the classes of test pictures.
//   concurrent_inference --clients N --seconds T --weights FOLDER --data builtin|mnist|DIR
//   --devices cpu:0,cpu:1 --limit-ms L --load X
// Each thread owns a Stream. The weights are frozen, so all threads read the same memory without a
// lock. If no weights are saved and no folder is named, it trains a small network first. With
// --limit-ms a request that misses its limit is cancelled: its remaining ops do not run. With
// --load requests arrive X times as fast as the machine can answer them. A client sheds requests
// that have waited for half of their limit, so that the others meet theirs.
#include "client_run.hpp"
#include "concurrent_inference_options.hpp"
#include "digit_pictures.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <hearth/hearth.hpp>

namespace {

using concurrent_inference::Figures;
using concurrent_inference::Options;
using concurrent_inference::Run;
using digits::Cnn;
using digits::Mlp;

constexpr const char* kSavedWeights = "checkpoints/mnist";  // the default folder of train_mnist

template <class Model>
int serve(const Model& trained,
          const std::vector<hearth::Device>& devices,
          const hearth::ImageDataset& pictures,
          const Options& options) {
  std::vector<hearth::Frozen<Model>> replicas;
  replicas.reserve(devices.size());
  for (const hearth::Device& device : devices) {
    replicas.push_back(hearth::freeze(hearth::fork(trained, device)));
  }
  if (options.load == 0) {
    const Run run = concurrent_inference::run_clients(
        replicas, devices, pictures, options, 0, options.limit_ms);
    concurrent_inference::print_table(run, devices);
    return concurrent_inference::failures_of(run) == 0 ? 0 : 1;
  }
  std::printf("what the machine can bear:\n");
  const Run free = concurrent_inference::run_clients(replicas, devices, pictures, options, 0, 0);
  const double capacity = free.answers_per_second();
  const double offered = options.load * capacity;
  std::printf("\n%.1f times that, each request with %.0f ms:\n", options.load, options.limit_ms);
  const Run run = concurrent_inference::run_clients(
      replicas, devices, pictures, options, offered, options.limit_ms);
  concurrent_inference::print_table(run, devices);
  const Figures figures = run.figures();
  std::printf(
      "capacity %.0f requests/s, offered %.0f, answered in time %.0f (%.3f of the capacity), "
      "shed %.0f, late %.0f\n",
      capacity,
      offered,
      run.answers_per_second(),
      run.answers_per_second() / std::max(capacity, 1.0),
      static_cast<double>(figures.shed) / run.seconds,
      static_cast<double>(figures.late) / run.seconds);
  return concurrent_inference::failures_of(free) + concurrent_inference::failures_of(run) == 0 ? 0
                                                                                               : 1;
}

int run(const Options& options) {
  hearth::RuntimeOptions runtime_options;
  for (const std::string& name : options.devices) {
    runtime_options.devices.push_back({.name = name});
  }
  const hearth::Runtime runtime(runtime_options);
  const std::vector<hearth::Device> devices = runtime.devices();
  const bool is_named = !options.weights.empty();
  const std::filesystem::path file =
      hearth::weights_file(is_named ? options.weights : kSavedWeights);
  if (!is_named && !std::filesystem::exists(file)) {
    std::printf("no %s, which train_mnist makes: training a small mlp first, %d clients\n",
                file.c_str(),
                options.clients);
    return serve(concurrent_inference::trained_now(runtime, devices.front()),
                 devices,
                 concurrent_inference::test_pictures("builtin"),
                 options);
  }
  const auto metadata = hearth::SafetensorsFile::read(file).metadata();
  const auto note = [&metadata](const std::string& key, const std::string& otherwise) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? otherwise : found->second;
  };
  const std::string name = note("model", "mlp");
  const std::string data = options.data.empty() ? note("data", "builtin") : options.data;
  const hearth::ImageDataset pictures = concurrent_inference::test_pictures(data);
  std::printf("%s from %s, classifies images of '%s' for %d clients\n",
              name.c_str(),
              file.c_str(),
              data.c_str(),
              options.clients);
  hearth::Generator generator(1);
  if (name == "cnn") {
    Cnn model(28, 28, devices.front(), generator);
    hearth::load_weights(model, file);
    return serve(model, devices, pictures, options);
  }
  Mlp model(28, 28, devices.front(), generator);
  hearth::load_weights(model, file);
  return serve(model, devices, pictures, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const std::optional<int> exit_code = concurrent_inference::parse(argc, argv, options)) {
    return *exit_code;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "concurrent_inference: %s\n", error.what());
    return 1;
  }
}
