// Trains a GPT of 10 to 350 million parameters on the bytes of a text, on any devices. Prints its
// loss, tokens a second, and the share of the devices' nominal rate that the model's operations
// use. Saves, and goes on where it stopped.
//   train_gpt --size 85m --context 1024 --batch-size 16 --precision bf16 --devices cuda:0 --text
//   FILE
// Without --text it learns to count in words. --help shows the options.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

#include "counting_text.hpp"
#include "train_gpt_figures.hpp"
#include "train_gpt_options.hpp"

using hearth::Tensor;

constexpr std::int64_t kBytes = 256;  // values of a token

struct Gpt {
  hearth::Embedding tokens;
  std::vector<hearth::TransformerEncoderLayer> layers;
  hearth::LayerNorm norm;
  hearth::Linear head;

  Gpt(const train_gpt::Options& options, const hearth::Device& device, hearth::Generator& generator)
      : tokens({.count = kBytes, .width = options.width}, device, generator),
        norm({.shape = {options.width}}, device),
        head({.in = options.width, .out = kBytes, .bias = false}, device, generator) {
    for (std::int64_t i = 0; i < options.layers; ++i) {
      layers.emplace_back(
          hearth::TransformerEncoderLayer::Config{
              .width = options.width,
              .heads = options.heads,
              .dropout = 0,
              .activation = hearth::TransformerEncoderLayer::Activation::gelu,
              .norm_first = true,
              .bias = false,
              .rotary = hearth::RotaryOptions{}},
          device,
          generator);
    }
    tokens.weight = tokens.weight * 0.02;
  }
  /// Bytes [n, length] to logits [n, length, 256] of each next byte.
  [[nodiscard]] Tensor forward(const Tensor& text, hearth::Mode mode) const {
    Tensor x = tokens.forward(text);
    for (const hearth::TransformerEncoderLayer& layer : layers) {
      x = layer.forward(std::move(x), mode, {.causal = true});
    }
    return head.forward(norm.forward(std::move(x)));
  }
  HEARTH_MODULE(Gpt, tokens, layers, norm, head)
};

/// Elements of the matrices that products use: all but the table of tokens and the vectors.
std::int64_t matrix_elements(const Gpt& model) {
  std::int64_t count = 0;
  for (const hearth::NamedTensor& parameter : hearth::named_parameters(model)) {
    if (parameter.tensor.shape().rank() == 2 && !parameter.name.starts_with("tokens.")) {
      count += parameter.tensor.shape().element_count();
    }
  }
  return count;
}

std::vector<std::int32_t> bytes_of(const std::string& text) {
  std::vector<std::int32_t> bytes;
  bytes.reserve(text.size());
  for (const char letter : text) {
    bytes.push_back(static_cast<unsigned char>(letter));
  }
  return bytes;
}

int main(int argc, char** argv) try {
  train_gpt::Options chosen;
  if (const std::optional<int> code = train_gpt::parse(argc, argv, chosen)) {
    return *code;
  }
  const std::vector<std::int32_t> all =
      bytes_of(chosen.text.empty() ? counting_text() : hearth::read_text(chosen.text));
  const auto cut = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 10 * 9);
  const hearth::TokenWindows train({all.begin(), cut}, {.length = chosen.context});
  const hearth::TokenWindows held_out({cut, all.end()}, {.length = chosen.context});

  hearth::RuntimeOptions runtime_options{.allow_tf32 = chosen.tf32};
  for (const std::string& name : chosen.devices) {
    runtime_options.devices.push_back({.name = name});
  }
  const hearth::Runtime runtime(runtime_options);  // prints the reason if "auto" finds no GPU
  double rate = 0;
  for (const hearth::Device& device : runtime.devices()) {
    std::printf("on %s: %s\n", device.name().c_str(), device.description().c_str());
    rate += train_gpt::nominal_rate(device.description(), chosen);
  }
  hearth::Generator generator(chosen.seed);
  Gpt model(chosen, runtime.devices().front(), generator);
  std::printf("%lld parameters, %lld bytes of text\n",
              static_cast<long long>(hearth::parameter_count(model)),
              static_cast<long long>(all.size()));

  hearth::TrainerOptions options{
      .epochs = chosen.epochs,
      .optimizer =
          hearth::AdamW::Config{
              .learning_rate = chosen.learning_rate, .beta2 = 0.95, .weight_decay = 0.1},
      .schedule = hearth::CosineRate{.end = 0.1, .warmup_steps = chosen.warmup},
      .clip = {.max_norm = 1.0},
      .accumulate = chosen.accumulate,
      .seed = chosen.seed,
      .batch_size = chosen.batch_size,
      .drop_last = true,
      .folder = chosen.folder,
      .save_every = chosen.save_every,
      .resume = chosen.resume,
      .console = {.style = hearth::ConsoleStyle::plain}};
  if (chosen.precision != "f32") {
    options.precision.compute =
        chosen.precision == "f16" ? hearth::DType::f16 : hearth::DType::bf16;
  }
  train_gpt::Progress progress(
      chosen.report_every, train_gpt::flops_per_token(matrix_elements(model), chosen), rate);
  options.callbacks.push_back(
      {.on_step = [&](const hearth::TrainingStep& step, hearth::RunControl& control) {
        progress.add(step.step, step.loss, step.learning_rate, step.sample_count * chosen.context);
        control.stop = step.step == chosen.steps;
      }});
  const auto loss = [](const Tensor& logits, const Tensor& targets) {
    return cross_entropy(logits, targets, {.class_axis = -1});
  };
  hearth::Trainer trainer(runtime, std::move(model), loss, options);
  trainer.fit(train, held_out);
  std::printf("held-out text: %.4f bits a byte\n", trainer.evaluate(held_out).loss / std::log(2.0));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "train_gpt: %s\n", error.what());
  return 1;
}
