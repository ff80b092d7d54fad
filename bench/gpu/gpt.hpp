// Sections of hearth-gpu-bench that train GPT-2 (12 layers of width 768, 12 heads, 50,257 words,
// AdamW): `gpt` has 50,304 words beside it, `gpt_types` other types, and `gpt_first` the first
// steps of a program. Threads: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
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
#include <hearth/runtime/runtime.hpp>

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

/// Texts of random words.
struct GptShape {
  std::int64_t words = 50257;
  std::int64_t texts = 8;
  std::int64_t places = 512;
  DType dtype = DType::bf16;
};

/// A GPT-2 that trains on one batch.
class GptTraining final {
 public:
  GptTraining(const Device& device, const GptShape& shape)
      : device_(device),
        model_(12, shape.words, shape.dtype, device, generator_),
        text_(randint(device, {shape.texts, shape.places}, generator_, 0, 6000, DType::i64)),
        next_(randint(device, {shape.texts, shape.places}, generator_, 0, 6000, DType::i64)) {}

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
  /// The median of steps behind warm ones, in milliseconds.
  double steady() {
    constexpr int kWarm = 4;
    constexpr int kSteps = 15;
    std::vector<double> times;
    for (int i = -kWarm; i < kSteps; ++i) {
      const double time = step();
      if (i >= 0) {
        times.push_back(time);
      }
    }
    return median_of(times).median;
  }
  [[nodiscard]] double loss() const { return loss_.item(); }

 private:
  Device device_;
  Generator generator_{5};
  Gpt model_;
  AdamW adam_{{.learning_rate = 3e-4}};
  Tensor text_;
  Tensor next_;
  Tensor loss_;
};

[[nodiscard]] inline std::int64_t peak_mib(const Device& device) {
  return static_cast<std::int64_t>(device.memory().peak_live_bytes >> 20U);
}

/// 50,257 words beside 50,304, whose rows are whole words of 16 bytes: steps in turns.
inline void measure_ragged_gpt(const Device& device) {
  for (const GptShape& shape : {GptShape{}, GptShape{.places = 1024}}) {
    GptTraining ragged(device, shape);
    GptShape padded = shape;
    padded.words = 50304;
    GptTraining whole(device, padded);
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
        "{{\"bench\": \"gpt2_ragged\", \"texts\": {}, \"places\": {}, \"ms_50257\": {:.2f}, "
        "\"least\": {:.2f}, \"ms_50304\": {:.2f}, \"least_50304\": {:.2f}, \"ratio\": {:.3f}, "
        "\"loss_50257\": {:.4f}, \"loss_50304\": {:.4f}}}\n",
        shape.texts,
        shape.places,
        own.median,
        own.least,
        next.median,
        next.least,
        own.median / next.median,
        ragged.loss(),
        whole.loss());
    std::fflush(stdout);
  }
}

/// Steady steps in bf16, tf32 and f32, each in a runtime of its own.
inline void measure_gpt_types(const std::string& name) {
  struct Case {
    const char* dtype;
    GptShape shape;
    bool allow_tf32 = false;
  };
  for (const Case& each : {Case{"bf16", {}},
                           Case{"tf32", {.dtype = DType::f32}, true},
                           Case{"f32", {.dtype = DType::f32}}}) {
    const Runtime runtime({.devices = {{.name = name}}, .allow_tf32 = each.allow_tf32});
    GptTraining training(runtime.device(), each.shape);
    const double time = training.steady();
    fmt::print(
        "{{\"bench\": \"gpt2_step\", \"dtype\": \"{}\", \"texts\": {}, \"places\": {}, "
        "\"ms\": {:.2f}, \"loss\": {:.4f}, \"peak_MiB\": {}}}\n",
        each.dtype,
        each.shape.texts,
        each.shape.places,
        time,
        training.loss(),
        peak_mib(runtime.device()));
    std::fflush(stdout);
  }
}

/// A program's first steps, from its Runtime on: to be the first runtime of the process.
inline void measure_first_gpt_steps(const std::string& name) {
  const auto start = std::chrono::steady_clock::now();
  const Runtime runtime({.devices = {{.name = name}}});
  GptTraining training(runtime.device(), {});
  training.step();
  const double first = seconds_since(start);
  const double second = training.step();
  fmt::print(
      "{{\"bench\": \"gpt2_first\", \"s_to_end_of_step_1\": {:.2f}, \"step_2_ms\": {:.1f}, "
      "\"steady_ms\": {:.1f}, \"peak_MiB\": {}}}\n",
      first,
      second,
      training.steady(),
      peak_mib(runtime.device()));
  std::fflush(stdout);
}

}  // namespace hearth::bench
