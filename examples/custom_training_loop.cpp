// A training loop of your own, with the usual parts: a schedule, clipping, several batches per
// step, layers that depend on the mode, evaluation. It stops at Ctrl-C, and its state resumes to
// the same bits. A Trainer does all of this; write a loop where yours differs.
//   HEARTH_DATA_DIR=... custom_training_loop    reads mnist/ there
// Without the variable it draws digits. Run it again with the folder that it prints to resume.
#include <hearth/hearth.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>

using hearth::Mode;
using hearth::Tensor;

constexpr std::int64_t kEpochs = 3;
constexpr int kBatchesAStep = 2;

struct Network {
  hearth::Conv2d conv;
  hearth::BatchNorm2d norm;
  hearth::Dropout dropout;
  hearth::Linear head;

  Network(const hearth::Device& device, hearth::Generator& generator)
      : conv({.in = 1, .out = 8, .kernel = 3, .padding = 1}, device, generator),
        norm({.channels = 8}, device),
        dropout({.p = 0.2}),
        head({.in = 8 * 14 * 14, .out = 10}, device, generator) {}

  [[nodiscard]] Tensor forward(const Tensor& pictures, Mode mode) const {
    const Tensor maps = relu(norm.forward(conv.forward(pictures), mode));
    return head.forward(dropout.forward(flatten(max_pool2d(maps), 1), mode));
  }
  HEARTH_MODULE(Network, conv, norm, dropout, head)
};

hearth::MnistData digits() {
  if (const char* const folder = std::getenv("HEARTH_DATA_DIR")) {  // NOLINT(concurrency-mt-unsafe)
    return hearth::find_mnist(std::filesystem::path(folder) / "mnist");
  }
  hearth::MnistData drawn;
  drawn.train = hearth::make_digits({.count = 3000});
  drawn.test = hearth::make_digits({.count = 500, .first = 3000});
  drawn.description = "3,000 drawn digits to train and 500 to test";
  return drawn;
}

/// Share of a data set that the model classifies correctly. Nothing is taped here, and dropout is
/// off.
double right_share(const Network& model, hearth::DataLoader& loader, const hearth::Device& device) {
  std::int64_t right = 0;
  std::int64_t count = 0;
  while (const auto batch = loader.next(device)) {
    const Tensor outputs = model.forward(batch->inputs, Mode::eval);
    right += hearth::correct_count(outputs, batch->targets).item<std::int64_t>();
    count += batch->size;
  }
  return static_cast<double>(right) / static_cast<double>(count);
}

int main(int argc, char** argv) try {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "checkpoints/custom_loop";
  const std::filesystem::path state = folder / "training.safetensors";
  const hearth::FileLock lock = hearth::lock_folder(folder);  // no other run writes there
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  const hearth::MnistData data = digits();
  const hearth::ImageDataset train(data.train);
  const hearth::ImageDataset test(data.test);
  hearth::DataLoader loader(train, runtime.executor(), {.batch_size = 32, .seed = 1});
  hearth::DataLoader judged(test, runtime.executor(), {.batch_size = 250, .shuffle = false});
  std::printf("%s\n", data.description.c_str());

  hearth::Generator generator(1);  // for the weights, and then for Dropout
  Network model(device, generator);
  hearth::Optimizer optimizer = hearth::AdamW({.weight_decay = 0.01});
  if (argc > 1 && std::filesystem::exists(state)) {
    const hearth::TrainingProgress progress = hearth::load_training(model, optimizer, state);
    loader.seek(progress.cursor);
    generator = progress.generators.at(0);
    std::printf("going on at batch %lld of epoch %lld\n",
                static_cast<long long>(progress.cursor.batch),
                static_cast<long long>(progress.cursor.epoch + 1));
  }

  const hearth::GeneratorScope random(generator);  // source of Dropout's numbers
  hearth::StateUpdates updates;                    // receives the statistics of BatchNorm2d
  const hearth::StateScope running(updates);
  const hearth::InterruptScope interrupt;
  const hearth::LearningRateSchedule schedule = hearth::CosineRate{.warmup_steps = 20};
  const std::int64_t steps = kEpochs * loader.batch_count() / kBatchesAStep;
  bool is_over = false;
  while (loader.cursor().epoch < kEpochs && !is_over) {
    // One step: the mean of the gradients of several batches.
    hearth::Gradients gradients;
    Tensor loss;
    int count = 0;
    for (; count < kBatchesAStep; ++count) {
      const auto batch = loader.next(device);
      if (!batch) {
        const double right = right_share(model, judged, device);
        std::printf("epoch %lld: %.1f %% of the test set right\n",
                    static_cast<long long>(loader.cursor().epoch),
                    100 * right);
        break;
      }
      auto result = hearth::value_and_grad(model, [&](const Network& tracked) {
        return cross_entropy(tracked.forward(batch->inputs, Mode::train), batch->targets);
      });
      loss = result.value;
      if (gradients.empty()) {
        gradients = std::move(result.gradients);
      } else {
        gradients.accumulate(std::move(result.gradients));
      }
    }
    if (count == 0) {
      continue;  // the epoch had ended
    }
    gradients.scale(1.0 / count);
    const std::int64_t step = optimizer.step_count();
    optimizer.set_learning_rate(2e-3 * hearth::rate_factor(schedule, step, steps));
    hearth::clip(gradients, {.max_norm = 5});
    auto report = optimizer.step(model, std::move(gradients));
    auto moved = updates.commit(model);
    if (step % 25 == 0) {
      hearth::require_finite(loss.item(), step);
      std::printf("step %3lld: loss %.4f\n", static_cast<long long>(step), loss.item());
    }
    is_over = interrupt.is_requested();
    if (is_over || step % 50 == 49) {
      hearth::save_training(
          model, optimizer, {.cursor = loader.cursor(), .generators = {generator}}, state);
    }
  }
  hearth::save_weights(model, folder);
  std::printf("%s; weights and state lie in %s\n", is_over ? "stopped" : "trained", folder.c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "custom_training_loop: %s\n", error.what());
  return 1;
}
