// Trains a small GPT on a text letter by letter, on one device or on several that share each batch.
// Prints its loss on a held-out part, and writes a passage.
//   HEARTH_DATA_DIR=... char_gpt --devices cpu:0,cpu:1    reads shakespeare/input.txt there
// Without the variable it learns to count in words. --help shows the options.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <hearth/hearth.hpp>

#include "counting_text.hpp"

using hearth::Tensor;

constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kContext = 64;  // letters that the model sees at once

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
  /// Letters [n, length] to logits [n, length, letter_count] of each next letter.
  [[nodiscard]] Tensor forward(const Tensor& text) const {
    Tensor x = letters.forward(text) + slice(places.weight, 0, {.stop = text.shape()[1]});
    for (const hearth::TransformerEncoderLayer& layer : layers) {
      x = layer.forward(std::move(x), hearth::Mode::eval, {.causal = true});
    }
    return head.forward(norm.forward(std::move(x)));
  }
  HEARTH_MODULE(Gpt, letters, places, layers, norm, head)
};

// Writes a text. Samples each letter from the model's probabilities.
std::string write(const Gpt& model, const hearth::Vocabulary& letters, std::uint64_t seed) {
  hearth::TokenSampler sampler({.temperature = 0.8, .top_p = 0.95, .seed = seed});
  std::vector<std::int32_t> text{letters.encode("t").front()};
  while (text.size() < 300) {
    const std::size_t seen = std::min(text.size(), static_cast<std::size_t>(kContext));
    const auto count = static_cast<std::int64_t>(seen);
    const Tensor input = Tensor::from(
        model.head.weight.device(), std::span<const std::int32_t>(text).last(seen), {1, count});
    text.push_back(sampler.next(slice(model.forward(input), 1, {.start = -1})));
  }
  return letters.decode(text);
}

int main(int argc, char** argv) try {
  std::vector<std::string> devices = {"auto"};
  std::string weights, precision = "f32";
  std::int64_t steps = 0;
  hearth::TrainerOptions options{.epochs = 1,
                                 .optimizer = hearth::AdamW::Config{.learning_rate = 2e-3},
                                 .schedule = hearth::LinearRate{},
                                 .seed = 1};
  CLI::App app{"A small GPT that learns a text letter by letter."};
  app.option_defaults()->always_capture_default();
  app.footer("HEARTH_DATA_DIR: its shakespeare/input.txt is learnt, else counting.");
  app.add_option("--devices", devices, "they share each batch; auto: the best")->delimiter(',');
  app.add_option("--epochs", options.epochs, "times over the text")->check(CLI::Range(1, 1000));
  app.add_option("--steps", steps, "end after N steps; 0: never")->check(CLI::Range(0, 1'000'000));
  app.add_option("--precision", precision, "the type of products")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--seed", options.seed, "of all that is drawn")->check(CLI::Range(0, 1'000'000));
  app.add_option("--weights", weights, "a file to begin with; without: at random");
  app.add_option("--folder", options.folder, "for weights, figures and a report; without: none");
  CLI11_PARSE(app, argc, argv);
  if (precision != "f32") {
    options.precision.compute = precision == "f16" ? hearth::DType::f16 : hearth::DType::bf16;
  }
  options.callbacks.push_back({.on_step = [&](const auto& step, hearth::RunControl& control) {
    control.stop = step.step == steps;
  }});
  const char* const folder = std::getenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe)
  const std::filesystem::path file = "shakespeare/input.txt";
  const std::string text = folder == nullptr ? counting_text() : hearth::read_text(folder / file);
  const hearth::Vocabulary letters(text, {.unit = hearth::TextUnit::bytes});
  const std::vector<std::int32_t> all = letters.encode(text);
  const auto cut = all.begin() + static_cast<std::ptrdiff_t>(all.size() * 9 / 10);
  const hearth::TokenWindows train({all.begin(), cut},
                                   {.length = kContext, .stride = folder == nullptr ? 8 : 32});
  const hearth::TokenWindows held_out({cut, all.end()}, {.length = kContext});

  hearth::RuntimeOptions runtime_options;
  for (const std::string& name : devices) {
    runtime_options.devices.push_back({.name = name});
  }
  const hearth::Runtime runtime(runtime_options);  // prints the reason if "auto" finds no GPU
  for (const hearth::Device& device : runtime.devices()) {
    std::printf("on %s: %s\n", device.name().c_str(), device.description().c_str());
  }
  hearth::Generator generator(options.seed);
  Gpt model(letters.size(), runtime.devices().front(), generator);
  if (!weights.empty()) {
    hearth::load_weights(model, weights);
  }
  const auto loss = [](const Tensor& outputs, const Tensor& targets) {
    return cross_entropy(outputs, targets, {.class_axis = -1});
  };
  hearth::Trainer trainer(runtime, std::move(model), loss, options);
  const std::chrono::duration<double, std::milli> step = trainer.fit(train, held_out).median_step;
  std::printf("a step takes %.1f ms\n", step.count());
  std::printf("held-out text: loss %.4f\n", trainer.evaluate(held_out).loss);
  std::printf("it writes:\n%s\n", write(trainer.model(), letters, options.seed).c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "char_gpt: %s\n", error.what());
  return 1;
}
