// A small GPT learns a text letter by letter, says how well it knows a part that it did not see,
// and writes a passage of its own.
//   HEARTH_DATA_DIR=... char_gpt [STEPS]    reads shakespeare/input.txt there
// Without the variable it learns to count in words.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/modules/adam.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/embedding.hpp>
#include <hearth/modules/token_windows.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/modules/vocabulary.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

using hearth::Mode;
using hearth::Tensor;

constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kContext = 64;  // letters that the model sees at once

std::string counting() {
  constexpr std::string_view kOnes[] = {
      "", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
  std::string text;
  for (int round = 0; round < 40; ++round) {
    for (const std::string_view ten : {"twenty", "thirty", "forty", "fifty", "sixty"}) {
      for (const std::string_view one : kOnes) {
        text += std::string(ten) + (one.empty() ? "" : " ") + std::string(one) + ", ";
      }
    }
  }
  return text;
}

struct Gpt {
  hearth::Embedding letters, places;
  std::vector<hearth::TransformerEncoderLayer> layers;
  hearth::LayerNorm norm;
  hearth::Linear head;

  Gpt(std::int64_t letter_count, const hearth::Device& device, hearth::Generator& generator)
      : letters({.count = letter_count, .width = kWidth}, device, generator),
        places({.count = kContext, .width = kWidth}, device, generator),
        norm({.shape = {kWidth}}, device),
        head({.in = kWidth, .out = letter_count, .bias = false}, device, generator) {
    for (int i = 0; i < 4; ++i) {
      layers.emplace_back(
          hearth::TransformerEncoderLayer::Config{
              .width = kWidth,
              .heads = 4,
              .dropout = 0,
              .activation = hearth::TransformerEncoderLayer::Activation::gelu,
              .norm_first = true},
          device,
          generator);
    }
    letters.weight = letters.weight * 0.1;
    places.weight = places.weight * 0.1;
  }
  /// [n, length] letters to [n, length, letter_count]: what comes behind each.
  [[nodiscard]] Tensor forward(const Tensor& text) const {
    Tensor x = letters.forward(text) + slice(places.weight, 0, {.stop = text.shape()[1]});
    for (const hearth::TransformerEncoderLayer& layer : layers) {
      x = layer.forward(std::move(x), Mode::eval, {.causal = true});
    }
    return head.forward(norm.forward(std::move(x)));
  }
  HEARTH_MODULE(Gpt, letters, places, layers, norm, head)
};

Tensor loss_of(const Gpt& model, const hearth::Batch& batch) {
  return cross_entropy(model.forward(batch.inputs), batch.targets, {.class_axis = -1});
}

// One letter after another, drawn by how likely the model finds it.
std::string write(const Gpt& model, const hearth::Vocabulary& letters, std::int32_t first) {
  std::mt19937 random(5);
  std::vector<std::int32_t> text{first};
  while (text.size() < 300) {
    const std::size_t seen = std::min(text.size(), static_cast<std::size_t>(kContext));
    const auto count = static_cast<std::int64_t>(seen);
    const Tensor input = Tensor::from(
        model.head.weight.device(), std::span<const std::int32_t>(text).last(seen), {1, count});
    const Tensor behind = slice(model.forward(input), 1, {.start = -1}) / 0.8;
    const std::vector<float> weights = softmax(flatten(behind)).to_vector<float>();
    std::discrete_distribution<std::int32_t> next(weights.begin(), weights.end());
    text.push_back(next(random));
  }
  return letters.decode(text);
}

int main(int argument_count, char** arguments) try {
  const char* const folder = std::getenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe)
  const std::string text =
      folder == nullptr
          ? counting()
          : hearth::read_text(std::filesystem::path(folder) / "shakespeare/input.txt");
  const int steps = argument_count > 1 ? std::stoi(arguments[1]) : (folder == nullptr ? 60 : 1000);
  const hearth::Vocabulary letters(text, {.unit = hearth::TextUnit::bytes});
  std::vector<std::int32_t> all = letters.encode(text);
  const auto cut = all.begin() + static_cast<std::ptrdiff_t>(all.size() * 9 / 10);
  const hearth::TokenWindows train({all.begin(), cut}, {.length = kContext, .stride = 1});
  const hearth::TokenWindows held_out({cut, all.end()}, {.length = kContext});

  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device("cpu:0");
  hearth::Generator generator(1);
  Gpt model(letters.size(), device, generator);
  hearth::AdamW optimizer({.learning_rate = 2e-3, .weight_decay = 0.01});
  hearth::DataLoader loader(train, runtime.executor(), {.batch_size = 32});
  for (int step = 1; step <= steps; ++step) {
    std::optional<hearth::Batch> batch = loader.next(device);
    batch = batch ? std::move(batch) : loader.next(device);  // the next epoch
    auto [loss, gradients] =
        hearth::value_and_grad(model, [&](const Gpt& tracked) { return loss_of(tracked, *batch); });
    optimizer.set_learning_rate(2e-3 * (1 - static_cast<double>(step - 1) / steps));
    auto report = optimizer.step(model, std::move(gradients));
    if (step % (steps / 10 + 1) == 0 || step == steps) {
      std::printf("step %d: loss %.3f\n", step, loss.item());
    }
  }

  hearth::DataLoader rest(held_out, runtime.executor(), {.batch_size = 64, .shuffle = false});
  double total = 0;
  while (const auto batch = rest.next(device)) {
    total += loss_of(model, *batch).item() * static_cast<double>(batch->size);
  }
  std::printf("held-out text: loss %.3f\n", total / static_cast<double>(held_out.size()));
  std::printf("it writes:\n%s\n", write(model, letters, all.front()).c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "char_gpt: %s\n", error.what());
  return 1;
}
