// A small transformer reads a text and then writes on from its beginning, letter by letter.
//   generate_text [FILE]
// Without a file it learns to count in words. Attention runs without its matrix of scores, and each
// new letter costs one position only: the layers keep the keys and values of those before in a
// cache.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/modules/adam.hpp>
#include <hearth/modules/embedding.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace {

using hearth::Shape;
using hearth::Tensor;

constexpr std::int64_t kWidth = 48;
constexpr std::int64_t kContext = 48;  // letters that the model sees at once
constexpr std::int64_t kPrompt = 8;
constexpr std::int64_t kBatch = 16;
constexpr int kSteps = 300;

std::string counting() {
  constexpr std::string_view kOnes[] = {
      "", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
  constexpr std::string_view kTens[] = {"twenty", "thirty", "forty", "fifty", "sixty"};
  std::string text;
  for (int round = 0; round < 20; ++round) {
    for (const std::string_view ten : kTens) {
      for (const std::string_view one : kOnes) {
        text += std::string(ten) + (one.empty() ? "" : " ") + std::string(one) + ", ";
      }
    }
  }
  return text;
}

/// A text as numbers: each letter that occurs has one.
struct Letters {
  std::string all;
  std::map<char, std::int32_t> numbers;
  std::vector<std::int32_t> text;

  explicit Letters(const std::string& from) {
    for (const char letter : from) {
      if (numbers.emplace(letter, static_cast<std::int32_t>(all.size())).second) {
        all += letter;
      }
      text.push_back(numbers.at(letter));
    }
    if (static_cast<std::int64_t>(text.size()) <= kContext) {
      throw std::runtime_error("the text needs more than " + std::to_string(kContext) + " letters");
    }
  }
};

struct Writer {
  hearth::Embedding letters, places;
  std::vector<hearth::TransformerEncoderLayer> layers;
  hearth::LayerNorm norm;
  hearth::Linear head;

  Writer(std::int64_t letter_count, const hearth::Device& device, hearth::Generator& generator)
      : letters({.count = letter_count, .width = kWidth}, device, generator),
        places({.count = kContext, .width = kWidth}, device, generator),
        norm({.shape = {kWidth}}, device),
        head({.in = kWidth, .out = letter_count}, device, generator) {
    for (int i = 0; i < 2; ++i) {
      layers.emplace_back(
          hearth::TransformerEncoderLayer::Config{
              .width = kWidth, .heads = 4, .dropout = 0, .norm_first = true},
          device,
          generator);
    }
  }

  /// [batch, length] letters to [batch * length, letter_count], the next letter of each.
  [[nodiscard]] Tensor forward(const Tensor& text) const {
    Tensor x = letters.forward(text) + slice(places.weight, 0, {.stop = text.shape()[1]});
    for (const hearth::TransformerEncoderLayer& layer : layers) {
      x = layer.forward(std::move(x), hearth::Mode::train, {.causal = true});
    }
    return head.forward(reshape(norm.forward(std::move(x)), {-1, kWidth}));
  }
  /// More letters, [1, count], from this place on: what comes behind them, [letter_count].
  [[nodiscard]] Tensor step(const Tensor& more,
                            std::int64_t place,
                            std::vector<hearth::KeyValueCache>& caches) const {
    const std::int64_t end = place + more.shape()[1];
    Tensor x = letters.forward(more) + slice(places.weight, 0, {.start = place, .stop = end});
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = layers[i].step(std::move(x), caches[i]);
    }
    return flatten(head.forward(norm.forward(slice(x, 1, {.start = -1}))));
  }
  HEARTH_MODULE(Writer, letters, places, layers, norm, head)
};

/// Pieces of the text, and the same one letter further on.
struct Pieces {
  Tensor inputs;   // [kBatch, kContext]
  Tensor targets;  // [kBatch * kContext]
};

Pieces draw(const Letters& letters, const hearth::Device& device, std::mt19937& random) {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
  const auto last = static_cast<std::int64_t>(letters.text.size()) - kContext - 1;
  std::uniform_int_distribution<std::int64_t> start(0, last);
  for (std::int64_t i = 0; i < kBatch; ++i) {
    const auto from = letters.text.begin() + start(random);
    inputs.insert(inputs.end(), from, from + kContext);
    targets.insert(targets.end(), from + 1, from + kContext + 1);
  }
  return {Tensor::from(device, inputs, Shape{kBatch, kContext}),
          Tensor::from(device, targets, Shape{kBatch * kContext})};
}

/// The first letters of the text, and what the model thinks comes behind them: always the
/// likeliest.
std::string write(const Writer& model, const Letters& letters, const hearth::Device& device) {
  std::vector<hearth::KeyValueCache> caches(model.layers.size());
  std::vector<std::int32_t> next(letters.text.begin(), letters.text.begin() + kPrompt);
  std::string written;
  while (true) {
    for (const std::int32_t letter : next) {
      written += letters.all.at(static_cast<std::size_t>(letter));
    }
    const auto count = static_cast<std::int64_t>(next.size());
    const auto place = static_cast<std::int64_t>(written.size()) - count;
    if (place + count == kContext) {
      return written;
    }
    const Tensor likely = model.step(Tensor::from(device, next, Shape{1, count}), place, caches);
    next = {static_cast<std::int32_t>(argmax(likely).item<std::int64_t>())};
  }
}

void run(const std::string& text) {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device("cpu:0");
  const Letters letters(text);
  hearth::Generator generator(1);
  std::mt19937 random(2);
  Writer model(static_cast<std::int64_t>(letters.all.size()), device, generator);
  hearth::AdamW optimizer({.learning_rate = 5e-3});
  for (int step = 1; step <= kSteps; ++step) {
    const Pieces pieces = draw(letters, device, random);
    auto [loss, gradients] = hearth::value_and_grad(model, [&](const Writer& tracked) {
      return cross_entropy(tracked.forward(pieces.inputs), pieces.targets);
    });
    auto report = optimizer.step(model, std::move(gradients));
    if (step % 50 == 0) {
      std::printf("step %d: loss %.3f\n", step, loss.item());
    }
  }
  std::printf("it writes: %s\n", write(model, letters, device).c_str());
}

}  // namespace

int main(int argument_count, char** arguments) try {
  if (argument_count < 2) {
    run(counting());
    return 0;
  }
  std::ifstream file(arguments[1], std::ios::binary);
  if (!file) {
    throw std::runtime_error(std::string("cannot read ") + arguments[1]);
  }
  std::ostringstream text;
  text << file.rdbuf();
  run(text.str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "generate_text: %s\n", error.what());
  return 1;
}
