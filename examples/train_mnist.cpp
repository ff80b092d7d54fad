// Trains a small network on digits, data-parallel on several devices, and tests it.
//     train_mnist --data builtin|mnist|DIR --devices cpu:0,cpu:1 --model mlp|cnn --epochs N
//                 --optimizer adam --json FILE
// mpirun or srun in front of it train on several processes; process 0 prints and writes.
// Ctrl-C or SIGTERM finishes the current step, saves weights and training state, and ends the
// program. --resume continues from there, to the same bits.
#include "digit_networks.hpp"
#include "train_mnist_options.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <hearth/hearth.hpp>

namespace {

using hearth::Tensor;
using train_mnist::Options;

hearth::MnistData load_data(const Options& options) {
  if (options.data == "builtin") {
    constexpr std::int64_t kTrain = 12000;  // concurrent_inference uses the digits after them
    constexpr std::int64_t kTest = 2000;
    hearth::MnistData data;
    data.train = hearth::make_digits({.count = kTrain, .seed = 1});
    data.test = hearth::make_digits({.count = kTest, .seed = 1, .first = kTrain});
    data.description = "built-in digits, 12,000 to train and 2,000 to test";
    return data;
  }
  std::filesystem::path folder = options.data;
  if (options.data == "mnist") {
    const char* root =
        std::getenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe): before any thread
    if (root == nullptr) {
      throw std::runtime_error("--data mnist needs HEARTH_DATA_DIR, the folder that holds mnist/");
    }
    folder = std::filesystem::path(root) / "mnist";
  }
  return hearth::find_mnist(folder);
}

hearth::OptimizerConfig optimizer_config(const Options& options) {
  if (options.optimizer == "sgd") {
    return hearth::Sgd::Config{.learning_rate = options.learning_rate, .momentum = 0.9};
  }
  if (options.optimizer == "adamw") {
    return hearth::AdamW::Config{.learning_rate = options.learning_rate};
  }
  return hearth::Adam::Config{.learning_rate = options.learning_rate};
}

hearth::Precision precision(const Options& options) {
  return {.compute = options.precision == "f16"    ? hearth::DType::f16
                     : options.precision == "bf16" ? hearth::DType::bf16
                                                   : hearth::DType::f32};
}

/// Converts the command line to the Trainer's options.
hearth::TrainerOptions trainer_options(const Options& options, const hearth::ProcessGroup& group) {
  hearth::TrainerOptions all{.epochs = options.epochs,
                             .optimizer = optimizer_config(options),
                             .precision = precision(options),
                             .seed = options.seed,
                             .batch_size = options.batch_size,
                             .metrics = {hearth::confusion_metric(10)},
                             .watch = "accuracy",
                             .folder = options.checkpoint,
                             .save_every = options.save_every,
                             .resume = options.resume,
                             .notes = {{"data", options.data}, {"model", options.model}},
                             .title = "train_mnist"};
  all.parallel.processes = group;
  return all;
}

/// A duration in microseconds, for the JSON file.
double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

nlohmann::json json_of(const hearth::Runtime& runtime,
                       const Options& options,
                       const hearth::TrainingResult& result,
                       double accuracy) {
  std::vector<double> losses;
  for (const hearth::EpochRecord& epoch : result.history.epochs) {
    losses.push_back(epoch.train_loss);
  }
  if (result.partial) {
    losses.push_back(result.partial->train_loss);  // the figure of the unfinished epoch
  }
  std::vector<std::int64_t> peaks;
  for (const hearth::Device& device : runtime.devices()) {
    peaks.push_back(device.memory().peak_reserved_bytes);
  }
  nlohmann::json object = {{"devices", options.devices},
                           {"epochs", losses.size()},
                           {"train_loss", losses},
                           {"test_accuracy", accuracy},
                           {"samples_per_s", result.samples_per_s},
                           {"step_us", microseconds(result.median_step)},
                           {"peak_bytes", peaks},
                           {"interrupted", nullptr}};
  if (result.ended_at) {
    object["interrupted"] = {{"epoch", result.ended_at->epoch},
                             {"batches", result.ended_at->batch},
                             {"of", result.ended_at->batch_count}};
  }
  return object;
}

template <class Model>
void train(const hearth::Runtime& runtime,
           hearth::MnistData data,
           const Options& options,
           const hearth::ProcessGroup& group) {
  const auto loss = [](const Tensor& outputs, const Tensor& targets) {
    return cross_entropy(outputs, targets);
  };
  hearth::Generator generator(options.seed);
  Model model(data.train.height, data.train.width, runtime.devices().front(), generator);
  const hearth::ImageOptions scale{.mean = 0.1307F, .deviation = 0.3081F};
  const hearth::ImageDataset train_set(std::move(data.train), scale);
  const hearth::ImageDataset test_set(std::move(data.test), scale);
  hearth::Trainer trainer(runtime, std::move(model), loss, trainer_options(options, group));
  const hearth::TrainingResult result = trainer.fit(train_set, test_set);

  const double accuracy = trainer.evaluate(test_set).metrics.front();
  if (!group.is_first()) {
    return;
  }
  std::printf("test accuracy %.2f %%, %.0f samples/s, median step %.0f us\n",
              accuracy * 100,
              result.samples_per_s,
              microseconds(result.median_step));
  std::printf("weights: %s\n",
              (std::filesystem::path(options.checkpoint) / "model.safetensors").c_str());
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << json_of(runtime, options, result, accuracy).dump(2) << "\n";
    if (!file.flush()) {
      throw std::runtime_error("cannot write " + options.json);
    }
  }
}

/// Checks before the training that the file for its figures can be written.
void require_writable(const std::string& file) {
  const bool was_there = std::filesystem::exists(file);
  if (!std::ofstream(file, std::ios::app)) {
    throw std::runtime_error("cannot write " + file);
  }
  if (!was_there) {
    std::filesystem::remove(file);  // a failed run leaves no file
  }
}

void run(const Options& options) {
  const hearth::ProcessGroup group = hearth::ProcessGroup::from_environment();
  if (!options.json.empty() && group.is_first()) {
    require_writable(options.json);
  }
  hearth::RuntimeOptions runtime_options;
  for (const std::string& name : options.devices) {
    runtime_options.devices.push_back({.name = name});
  }
  const hearth::Runtime runtime(runtime_options);  // prints the reason if "auto" finds no GPU
  for (const hearth::Device& device : runtime.devices()) {
    const std::string who =
        group.size() > 1 ? "process " + std::to_string(group.rank()) + " " : std::string();
    std::printf("%son %s: %s\n", who.c_str(), device.name().c_str(), device.description().c_str());
  }
  hearth::MnistData data = load_data(options);
  if (group.is_first()) {
    std::printf("data: %s\n", data.description.c_str());
  }
  if (options.model == "mlp") {
    train<digits::Mlp>(runtime, std::move(data), options, group);
  } else {
    train<digits::Cnn>(runtime, std::move(data), options, group);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const std::optional<int> exit_code = train_mnist::parse(argc, argv, options)) {
    return *exit_code;
  }
  try {
    run(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_mnist: %s\n", error.what());
    return 1;
  }
}
