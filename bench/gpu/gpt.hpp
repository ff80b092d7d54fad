// The section `gpt` of hearth-gpu-bench: a step of GPT-2 (12 layers of width 768, 12 heads, 1,024
// places, bf16, AdamW) with 50,257 words beside one with 50,304, in turns. Threads: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/modules/adam.hpp>
#include <hearth/modules/embedding.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "bench/gpu/figures.hpp"

namespace hearth::bench {

struct Gpt {
  static constexpr std::int64_t kWidth = 768;
  static constexpr std::int64_t kPlaces = 1024;

  Embedding words, places;
  std::vector<TransformerEncoderLayer> layers;
  LayerNorm norm;
  Linear head;

  Gpt(int layer_count,
      std::int64_t word_count,
      DType dtype,
      const Device& device,
      Generator& generator)
      : words({.count = word_count, .width = kWidth}, device, generator, dtype),
        places({.count = kPlaces, .width = kWidth}, device, generator, dtype),
        norm({.shape = {kWidth}}, device, dtype),
        head({.in = kWidth, .out = word_count, .bias = false}, device, generator, dtype) {
    for (int i = 0; i < layer_count; ++i) {
      layers.emplace_back(
          TransformerEncoderLayer::Config{.width = kWidth,
                                          .heads = 12,
                                          .dropout = 0.0,
                                          .activation = TransformerEncoderLayer::Activation::gelu,
                                          .norm_first = true},
          device,
          generator,
          dtype);
    }
  }

  /// Shapes: text [n, s] -> [n, s, words].
  [[nodiscard]] Tensor forward(const Tensor& text) const {
    Tensor x = words.forward(text) + slice(places.weight, 0, {.stop = text.shape()[1]});
    for (const TransformerEncoderLayer& layer : layers) {
      x = layer.forward(std::move(x), Mode::eval, {.causal = true});
    }
    return head.forward(norm.forward(std::move(x)));
  }
  HEARTH_MODULE(Gpt, words, places, layers, norm, head)
};

class GptSteps final {
 public:
  explicit GptSteps(Device device) : device_(std::move(device)) {}

  void measure() const {
    for (const std::int64_t texts : {4, 8}) {
      Trained ragged(device_, 50257, texts);
      Trained whole(device_, 50304, texts);
      constexpr int kWarm = 4;
      constexpr int kSteps = 15;
      std::vector<double> ragged_ms;
      std::vector<double> whole_ms;
      for (int i = -kWarm; i < kSteps; ++i) {
        const double first = ragged.step();
        const double second = whole.step();
        if (i >= 0) {
          ragged_ms.push_back(first);
          whole_ms.push_back(second);
        }
      }
      const Median own = median_of(ragged_ms);
      const Median next = median_of(whole_ms);
      fmt::print(
          "{{\"bench\": \"gpt2_step\", \"texts\": {}, \"ms_50257\": {:.2f}, \"least\": {:.2f}, "
          "\"ms_50304\": {:.2f}, \"least_50304\": {:.2f}, \"ratio\": {:.3f}, \"loss_50257\": "
          "{:.4f}, \"loss_50304\": {:.4f}, \"peak_MiB\": {}}}\n",
          texts,
          own.median,
          own.least,
          next.median,
          next.least,
          own.median / next.median,
          ragged.loss(),
          whole.loss(),
          device_.memory().peak_live_bytes >> 20);
      std::fflush(stdout);
    }
  }

 private:
  class Trained final {
   public:
    Trained(const Device& device, std::int64_t words, std::int64_t texts)
        : device_(device),
          generator_(5),
          model_(12, words, DType::bf16, device, generator_),
          text_(randint(device, {texts, Gpt::kPlaces}, generator_, 0, 6000, DType::i64)),
          next_(randint(device, {texts, Gpt::kPlaces}, generator_, 0, 6000, DType::i64)) {}

    /// Runs one step, waits for it, and returns milliseconds.
    double step() {
      const auto start = std::chrono::steady_clock::now();
      auto [loss, gradients] = value_and_grad(model_, [&](const Gpt& tracked) {
        return cross_entropy(tracked.forward(text_), next_, {.class_axis = -1});
      });
      adam_.step(model_, std::move(gradients)).get();
      device_.sync();
      loss_ = loss;
      return seconds_since(start) * 1e3;
    }
    [[nodiscard]] double loss() const { return loss_.item(); }

   private:
    Device device_;
    Generator generator_;
    Gpt model_;
    AdamW adam_{{.learning_rate = 3e-4}};
    Tensor text_;
    Tensor next_;
    Tensor loss_;
  };

  Device device_;
};

}  // namespace hearth::bench
