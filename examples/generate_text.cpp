// Trains a small transformer on a text, which it then continues from its beginning, letter by
// letter.
//   generate_text [FILE]
// Without a file it learns to count in words. Attention stores no matrix of scores. Each new letter
// costs one position only: the layers keep the keys and values of earlier letters in a cache, which
// the beam search reorders.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

using hearth::Tensor;

constexpr std::int64_t kWidth = 48;
constexpr std::int64_t kContext = 48;  // letters that the model sees at once
constexpr std::size_t kPrompt = 8;
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

  /// Letters [batch, length] to logits [batch, length, letter_count] of each next letter.
  [[nodiscard]] Tensor forward(const Tensor& text) const {
    Tensor x = letters.forward(text) + slice(places.weight, 0, {.stop = text.size(1)});
    for (const hearth::TransformerEncoderLayer& layer : layers) {
      x = layer.forward(std::move(x), hearth::Mode::train, {.causal = true});
    }
    return head.forward(norm.forward(std::move(x)));
  }
  /// Adds letters [texts, count] from position `place` on. Returns the logits
  /// [texts, letter_count] of the next one.
  [[nodiscard]] Tensor step(const Tensor& more,
                            std::int64_t place,
                            std::vector<hearth::KeyValueCache>& caches) const {
    const std::int64_t end = place + more.size(1);
    Tensor x = letters.forward(more) + slice(places.weight, 0, {.start = place, .stop = end});
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = layers[i].step(std::move(x), caches[i]);
    }
    return flatten(head.forward(norm.forward(slice(x, 1, {.start = -1}))), 1);
  }
  HEARTH_MODULE(Writer, letters, places, layers, norm, head)
};

/// Continues the first letters of the text: the likeliest continuation that four beams find.
std::string write(const Writer& model,
                  const hearth::Vocabulary& letters,
                  const std::string& text,
                  const hearth::Device& device) {
  std::vector<hearth::KeyValueCache> caches(model.layers.size());
  std::vector<std::int32_t> written = letters.encode(text.substr(0, kPrompt));
  auto place = static_cast<std::int64_t>(written.size());
  const Tensor first = model.step(Tensor::from(device, written, {1, place}), 0, caches);
  const auto step = [&](std::span<const std::int32_t> tokens,
                        std::span<const std::int64_t> parents) {
    for (hearth::KeyValueCache& cache : caches) {
      cache = hearth::select_rows(cache, parents);
    }
    const auto texts = static_cast<std::int64_t>(tokens.size());
    return model.step(Tensor::from(device, tokens, {texts, 1}), place++, caches);
  };
  const hearth::BeamText best =
      hearth::beam_search(first, step, {.max_tokens = kContext - place})[0];
  written.insert(written.end(), best.tokens.begin(), best.tokens.end());
  return letters.decode(written);
}

int main(int argc, char** argv) try {
  const std::string text = argc > 1 ? hearth::read_text(argv[1]) : counting();
  const hearth::Vocabulary letters(text, {.unit = hearth::TextUnit::bytes});
  const hearth::TokenWindows pieces(letters.encode(text), {.length = kContext, .stride = 5});

  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(1);
  Writer model(letters.size(), device, generator);
  hearth::AdamW optimizer({.learning_rate = 5e-3});
  hearth::DataLoader loader(pieces, runtime.executor(), {.batch_size = 16, .drop_last = true});
  for (int step = 1; step <= kSteps;) {
    while (const auto batch = loader.next(device)) {
      auto [loss, gradients] = hearth::value_and_grad(model, [&](const Writer& tracked) {
        return cross_entropy(tracked.forward(batch->inputs), batch->targets, {.class_axis = -1});
      });
      auto report = optimizer.step(model, std::move(gradients));
      if (step % 50 == 0) {
        std::printf("step %d: loss %.3f\n", step, loss.item());
      }
      if (++step > kSteps) {
        break;
      }
    }
  }
  std::printf("it writes: %s\n", write(model, letters, text, device).c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "generate_text: %s\n", error.what());
  return 1;
}
