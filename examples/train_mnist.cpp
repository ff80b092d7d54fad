// Trains a small network on digits, data-parallel on several device actors, and tests it.
//   train_mnist --data builtin|mnist|DIR --devices cpu:0,cpu:1 --model mlp|cnn --epochs N
//   --optimizer adam --json FILE
// Ctrl-C, or SIGTERM, finishes the step under way, saves weights and training state and ends;
// --resume goes on from there, to the same bits.
#include "train_mnist_options.hpp"
#include "train_mnist_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/digits.hpp>
#include <hearth/modules/idx.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/metrics.hpp>
#include <hearth/modules/safetensors.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/parallel/data_parallel.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace {

using hearth::Tensor;
using train_mnist::Clock;
using train_mnist::Options;
using train_mnist::ProgressBar;
using train_mnist::Result;

/// Pixels-512-512-10 with relu.
struct Mlp {
  hearth::Linear a, b, c;
  Mlp(const hearth::LabelledImages& images,
      const hearth::Device& device,
      hearth::Generator& generator)
      : a({.in = images.height * images.width, .out = 512}, device, generator),
        b({.in = 512, .out = 512}, device, generator),
        c({.in = 512, .out = 10}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return c.forward(relu(b.forward(relu(a.forward(flatten(x, 1))))));
  }
  HEARTH_MODULE(Mlp, a, b, c)
};

/// Two 3×3 convolutions with relu and 2×2 max pooling, and a linear layer.
struct Cnn {
  hearth::Conv2d a, b;
  hearth::Linear c;
  Cnn(const hearth::LabelledImages& images,
      const hearth::Device& device,
      hearth::Generator& generator)
      : a({.in = 1, .out = 32, .padding = {1, 1}}, device, generator),
        b({.in = 32, .out = 64, .padding = {1, 1}}, device, generator),
        c({.in = 64 * pooled(images.height) * pooled(images.width), .out = 10}, device, generator) {
  }
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    Tensor y = max_pool2d(relu(a.forward(x)));
    y = max_pool2d(relu(b.forward(std::move(y))));
    return c.forward(flatten(std::move(y), 1));
  }
  /// What two poolings leave of a side.
  static std::int64_t pooled(std::int64_t side) {
    if (side < 4) {
      throw std::runtime_error("--model cnn needs pictures of 4x4 pixels or more; mlp takes any");
    }
    return side / 2 / 2;
  }
  HEARTH_MODULE(Cnn, a, b, c)
};

volatile std::sig_atomic_t interrupted = 0;
extern "C" void on_interrupt(int) {
  interrupted = 1;
}

hearth::MnistData load_data(const Options& options) {
  if (options.data == "builtin") {
    constexpr std::int64_t kTrain = 12000;  // concurrent_inference asks about those after them
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

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Model>
using Trainer = hearth::DataParallel<Model, hearth::HostBatch>;

/// The next batch's parts, one a device; nothing at the end of the epoch.
std::vector<hearth::HostBatch> next_shards(
    std::vector<std::unique_ptr<hearth::DataLoader>>& loaders) {
  std::vector<hearth::HostBatch> shards;
  for (const auto& loader : loaders) {
    if (auto shard = loader->next()) {
      shards.push_back(std::move(*shard));
    }
  }
  return shards;
}

/// Every rank counts its share of the test pictures.
template <class Model>
double test_accuracy(Trainer<Model>& trainer, const hearth::ImageDataset& test) {
  const std::vector<double> correct =
      trainer.evaluate([&test](const Model& model, hearth::WorkerContext& context) {
        constexpr std::int64_t kChunk = 250;
        double count = 0;
        for (std::int64_t begin = context.rank * kChunk; begin < test.size();
             begin += kChunk * context.world) {
          std::vector<std::int64_t> indices;
          for (std::int64_t i = begin; i < std::min(begin + kChunk, test.size()); ++i) {
            indices.push_back(i);
          }
          hearth::Examples examples = test.read(indices);
          const Tensor logits = model.forward(std::move(examples.inputs).to(context.device));
          count +=
              hearth::correct_count(logits, std::move(examples.targets).to(context.device)).item();
        }
        return count;
      });
  double sum = 0;
  for (const double count : correct) {
    sum += count;
  }
  return sum / static_cast<double>(test.size());
}

/// How far an epoch has come: part of the training state, so that a resumed run reports the same
/// figures.
struct EpochSums {
  double loss = 0;  ///< Of all samples so far.
  double samples = 0;
};

std::filesystem::path state_file(const Options& options) {
  return std::filesystem::path(options.checkpoint) / "training.safetensors";
}

/// What must be as it was for a resumed run to mean anything.
hearth::Metadata run_notes(const Options& options) {
  return {{"data", options.data},
          {"model", options.model},
          {"optimizer", options.optimizer},
          {"lr", nlohmann::json(options.learning_rate).dump()},
          {"batch_size", std::to_string(options.batch_size)},
          {"devices", std::to_string(options.devices.size())},
          {"seed", std::to_string(options.seed)}};
}

/// Numbers in JSON come back bit by bit.
template <class Model>
void save_state(Trainer<Model>& trainer,
                const hearth::LoaderCursor& cursor,
                const std::vector<double>& train_loss,
                const EpochSums& sums,
                const Options& options) {
  hearth::TrainingProgress progress{.cursor = cursor, .notes = run_notes(options)};
  progress.notes["figures"] = nlohmann::json({train_loss, {sums.loss, sums.samples}}).dump();
  progress.generators = trainer.evaluate(
      [](const Model&, hearth::WorkerContext& context) { return context.generator; });
  // All replicas hold the same; the first that comes writes it.
  const auto is_written = std::make_shared<std::atomic<bool>>(false);
  trainer.update_replicas(
      [=, file = state_file(options)](Model& model, hearth::Optimizer& optimizer) {
        if (!is_written->exchange(true)) {
          hearth::save_training(model, optimizer, progress, file);
        }
      });
}

/// Finds out before anything is made whether the saved run is this one.
void require_same_run(const Options& options) {
  const auto file = hearth::SafetensorsFile::read(state_file(options));
  for (const auto& [name, wanted] : run_notes(options)) {
    const auto found = file.metadata().find(name);
    const std::string was = found == file.metadata().end() ? "unknown" : found->second;
    if (was != wanted) {
      throw std::runtime_error("--resume: the run in " + file.path().string() + " had " + name +
                               " " + was + ", this one has " + wanted);
    }
  }
}

/// Gives every rank the saved state. Returns it and sets the figures so far.
template <class Model>
hearth::LoaderCursor load_state(Trainer<Model>& trainer,
                                std::vector<double>& train_loss,
                                EpochSums& sums,
                                const Options& options) {
  const auto progress = std::make_shared<std::vector<hearth::TrainingProgress>>(
      static_cast<std::size_t>(trainer.world()));
  const auto count = std::make_shared<std::atomic<std::size_t>>(0);
  trainer.update_replicas(
      [=, file = state_file(options)](Model& model, hearth::Optimizer& optimizer) {
        (*progress)[count->fetch_add(1)] = hearth::load_training(model, optimizer, file);
      });
  const hearth::TrainingProgress& saved = progress->front();
  static_cast<void>(trainer.evaluate(
      [generators = saved.generators](const Model&, hearth::WorkerContext& context) {
        context.generator = generators.at(static_cast<std::size_t>(context.rank));
        return context.rank;
      }));
  const nlohmann::json figures = nlohmann::json::parse(saved.notes.at("figures"));
  figures.at(0).get_to(train_loss);
  figures.at(1).at(0).get_to(sums.loss);
  figures.at(1).at(1).get_to(sums.samples);
  return saved.cursor;
}

template <class Model>
Result train(const hearth::Runtime& runtime,
             const hearth::MnistData& data,
             const Options& options) {
  std::vector<hearth::Device> devices;
  for (const std::string& name : options.devices) {
    devices.push_back(runtime.device(name));
  }
  const hearth::ImageDataset train_set(data.train, {.mean = 0.1307F, .deviation = 0.3081F});
  const hearth::ImageDataset test_set(data.test, {.mean = 0.1307F, .deviation = 0.3081F});
  const int world = static_cast<int>(devices.size());
  std::vector<std::unique_ptr<hearth::DataLoader>> loaders;
  for (int rank = 0; rank < world; ++rank) {
    const hearth::LoaderOptions loading{
        .batch_size = options.batch_size, .seed = options.seed, .worker_count = 1};
    loaders.push_back(std::make_unique<hearth::DataLoader>(
        train_set, runtime.executor(), loading.shard(rank, world)));
  }

  hearth::Generator generator(options.seed);
  const auto loss =
      [](const Model& model, hearth::HostBatch& batch, hearth::WorkerContext& context) {
        const Tensor logits = model.forward(std::move(batch.examples.inputs).to(context.device));
        return cross_entropy(logits, std::move(batch.examples.targets).to(context.device));
      };
  Trainer<Model> trainer(
      runtime,
      Model(data.train, devices.front(), generator),
      loss,
      {.devices = devices, .optimizer = optimizer_config(options), .seed = options.seed});

  Result result;
  EpochSums sums;
  if (options.resume) {
    const hearth::LoaderCursor cursor = load_state(trainer, result.train_loss, sums, options);
    for (const auto& loader : loaders) {
      loader->seek(cursor);
    }
    if (cursor.epoch >= options.epochs) {
      std::printf("nothing left to train: the run in %s has had %ld epochs\n",
                  options.checkpoint.c_str(),
                  static_cast<long>(cursor.epoch));
    } else {
      std::printf("resumed at epoch %ld, batch %ld\n",
                  static_cast<long>(cursor.epoch + 1),
                  static_cast<long>(cursor.batch + 1));
    }
  }
  ProgressBar progress(options.epochs);
  std::vector<double> step_us;
  double trained_samples = 0;
  double training_seconds = 0;
  const std::int64_t batches = loaders.front()->batch_count();
  const auto save = [&] {
    save_state(trainer, loaders.front()->cursor(), result.train_loss, sums, options);
  };
  const auto first_epoch = static_cast<int>(loaders.front()->cursor().epoch) + 1;
  if (interrupted != 0) {
    throw std::runtime_error("interrupted before the first step: nothing was written");
  }
  // One that comes between two epochs is told behind the first batch of the second.
  for (int epoch = first_epoch; epoch <= options.epochs && !result.interruption; ++epoch) {
    const double samples_before = sums.samples;
    const auto epoch_start = Clock::now();
    const auto samples_per_s = [&] {
      return (sums.samples - samples_before) / seconds_since(epoch_start);
    };
    for (auto shards = next_shards(loaders); !shards.empty(); shards = next_shards(loaders)) {
      const auto step_start = Clock::now();
      const hearth::DataParallelReport report = trainer.step(std::move(shards));
      step_us.push_back(seconds_since(step_start) * 1e6);
      sums.loss += report.loss * static_cast<double>(report.sample_count);
      sums.samples += static_cast<double>(report.sample_count);
      const std::int64_t batch = loaders.front()->cursor().batch;
      progress.show(epoch, batch, batches, sums.loss / sums.samples, samples_per_s());
      if (interrupted != 0) {
        break;
      }
      if (options.save_every > 0 && batch % options.save_every == 0) {
        save();
      }
    }
    training_seconds += seconds_since(epoch_start);
    trained_samples += sums.samples - samples_before;
    const double epoch_speed = samples_per_s();
    const double epoch_loss = sums.loss / sums.samples;
    const bool is_whole = loaders.front()->cursor().epoch == epoch;  // counted from 0: the next one
    if (is_whole) {
      result.train_loss.push_back(epoch_loss);
      sums = {};
    }
    save();
    if (!is_whole) {
      result.train_loss.push_back(epoch_loss);  // of what there was of it
    }
    result.test_accuracy = test_accuracy<Model>(trainer, test_set);
    if (interrupted != 0) {
      result.interruption = {.epoch = epoch,
                             .batch = is_whole ? batches : loaders.front()->cursor().batch,
                             .batches = batches};
    }
    progress.end_epoch(epoch, epoch_loss, result.test_accuracy, epoch_speed, result.interruption);
  }
  if (trained_samples > 0) {
    result.samples_per_s = trained_samples / training_seconds;
  } else {
    result.test_accuracy = test_accuracy<Model>(trainer, test_set);  // resumed at the end
  }
  result.median_step_us = median(std::move(step_us));
  for (const hearth::Device& device : devices) {
    result.peak_bytes.push_back(device.memory().peak_reserved_bytes);
  }
  hearth::save_weights(
      trainer.take_model(), options.checkpoint, {{"model", options.model}, {"data", options.data}});
  return result;
}

/// Finds out before the training whether its results can be kept.
void require_writable(const Options& options) {
  std::filesystem::create_directories(options.checkpoint);
  if (access(options.checkpoint.c_str(), W_OK) != 0) {
    throw std::runtime_error("cannot write into the folder " + options.checkpoint);
  }
  if (!options.json.empty()) {
    const bool was_there = std::filesystem::exists(options.json);
    if (!std::ofstream(options.json, std::ios::app)) {
      throw std::runtime_error("cannot write " + options.json);
    }
    if (!was_there) {
      std::filesystem::remove(options.json);  // a run that fails leaves none
    }
  }
}

int run(const Options& options) {
  if (options.resume) {
    require_same_run(options);
  }
  require_writable(options);
  hearth::RuntimeOptions runtime_options;
  for (const std::string& name : options.devices) {
    runtime_options.devices.push_back({.name = name});
  }
  const hearth::Runtime runtime(runtime_options);
  for (const hearth::Device& device : runtime.devices()) {
    std::printf("%s: %s\n", device.name().c_str(), device.description().c_str());
  }
  const hearth::MnistData data = load_data(options);
  std::printf("data: %s\n", data.description.c_str());
  const Result result = options.model == "mlp" ? train<Mlp>(runtime, data, options)
                                               : train<Cnn>(runtime, data, options);
  std::printf("test accuracy %.2f %%, %.0f samples/s, median step %.0f us\n",
              result.test_accuracy * 100,
              result.samples_per_s,
              result.median_step_us);
  std::printf("weights: %s\n",
              (std::filesystem::path(options.checkpoint) / "model.safetensors").c_str());
  if (!options.json.empty()) {
    train_mnist::write_json(options, result);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const std::optional<int> exit_code = train_mnist::parse(argc, argv, options)) {
    return *exit_code;
  }
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);  // what a scheduler sends before it takes the machine away
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_mnist: %s\n", error.what());
    return 1;
  }
}
