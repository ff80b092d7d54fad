// hearth-gpu-bench [SECTION ...] [--device vulkan:0]: prints the figures of the GPU table, one JSON
// line each, under the names that torch_figures.py uses for PyTorch's. A figure is the time of one
// call among many that are queued back to back. Time runs from the first submit to the end of the
// last call. The clocks are warmed up first: an idle H200 runs at 345 MHz, which makes calls 5.7
// times slower. Results are published, because unread results are not computed, and the last few
// are kept alive.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <hearth/modules/adam.hpp>
#include <hearth/modules/sgd.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

#include "bench/bench_models.hpp"
#include "bench/gpu/encoder.hpp"
#include "bench/gpu/figures.hpp"
#include "bench/gpu/first_use.hpp"
#include "bench/gpu/gpt.hpp"
#include "bench/gpu/gpu_choice.hpp"
#include "bench/gpu/ragged.hpp"
#include "bench/gpu/transfer_figures.hpp"

namespace hearth::bench {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};

void copies(const Figures& figures) {
  const Tensor x = normal(figures.device(), {1 << 28});
  figures.time("copy_1GiB_f32", "", {2 * bytes_of(x), "GBps"}, 8, [&] { return x + 0.0; });
  const Tensor y = normal(figures.device(), {1 << 28});
  figures.time("axpy_1GiB_f32", "", {3 * bytes_of(x), "GBps"}, 8, [&] { return x * 2.0 + y; });
}

Tensor gelu_by_erf(const Tensor& x) {
  return x * (erf(x / std::sqrt(2.0)) + 1) / 2;
}

void gelus(const Figures& figures) {
  for (const DType dtype : kFloats) {
    const Tensor x = normal(figures.device(), {32, 512, 2048}, dtype);
    figures.time("custom_gelu", with("dtype", name(dtype)), {2 * bytes_of(x), "GBps"}, 30, [&] {
      return gelu_by_erf(x);
    });
    figures.time("custom_gelu_loss", with("dtype", name(dtype)), {}, 30, [&] {
      return sum(gelu_by_erf(x));  // the backward pass is the time of the gradient beyond this
    });
    figures.time("custom_gelu_backward", with("dtype", name(dtype)), {}, 15, [&] {
      return grad([](const std::vector<Tensor>& in) { return sum(gelu_by_erf(in[0])); },
                  std::vector<Tensor>{x})
          .front();
    });
  }
}

void rows(const Figures& figures) {
  const Device& device = figures.device();
  const Tensor wide = normal(device, {32, 512, 4096});
  for (int axis = 0; axis < 3; ++axis) {
    figures.time("reduce_sum", with("dim", axis), {bytes_of(wide), "GBps"}, 20, [&] {
      return sum(wide, {axis});
    });
  }
  const Tensor x = normal(device, {64, 1024, 1024});
  figures.time("softmax_last", "", {2 * bytes_of(x), "GBps"}, 15, [&] { return softmax(x, -1); });
  const Tensor y = normal(device, {32, 512, 1024});
  const Tensor weight = normal(device, {1024});
  figures.time("layernorm", "", {2 * bytes_of(y), "GBps"}, 20, [&] {
    return layer_norm(y, weight, weight);
  });
}

// Both layouts of the right side; behind the product, the ops of a quantised layer.
void integer_products(const Figures& figures) {
  const Device& device = figures.device();
  Generator generator(7);
  for (const std::int64_t n : {1024, 2048, 4096, 8192}) {
    const Tensor a = randint(device, {n, n}, generator, -127, 128, DType::i8);
    const Tensor b = randint(device, {n, n}, generator, -127, 128, DType::i8);
    const double side = static_cast<double>(n);
    const Work work{2.0 * side * side * side, "TOPs"};
    const int inner = n >= 8192 ? 6 : 20;
    for (const bool is_turned : {false, true}) {
      figures.time("matmul",
                   with("dtype", "i8") + with("n", n) + with("b", is_turned ? "[n, k]" : "[k, n]"),
                   work,
                   inner,
                   [&] { return matmul(a, is_turned ? transpose(b) : b); });
    }
    if (n >= 4096) {
      const Tensor scale = normal(device, {n});
      figures.time("matmul_scale", with("dtype", "i8") + with("n", n), work, inner, [&] {
        return matmul(a, transpose(b)).to(DType::f32) * scale;
      });
    }
  }
}

void products_with_f16_sums(const Device& card) {
  const Runtime runtime({.devices = {{.name = std::string(card.name())}}, .allow_f16_sums = true});
  const Figures figures(runtime.device());
  for (const std::int64_t n : {4096, 8192}) {
    const Tensor a = normal(figures.device(), {n, n}, DType::f16);
    const Tensor b = normal(figures.device(), {n, n}, DType::f16);
    const double side = static_cast<double>(n);
    figures.time("matmul",
                 with("dtype", "f16") + with("sums", "f16") + with("n", n),
                 {2.0 * side * side * side, "TFLOPs"},
                 n >= 8192 ? 6 : 20,
                 [&] { return matmul(a, b); });
  }
}

void products(const Figures& figures) {
  const Device& device = figures.device();
  integer_products(figures);
  for (const DType dtype : kFloats) {
    for (const std::int64_t n : {1024, 2048, 4096, 8192}) {
      const Tensor a = normal(device, {n, n}, dtype);
      const Tensor b = normal(device, {n, n}, dtype);
      const double flops =
          2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
      figures.time("matmul",
                   with("dtype", name(dtype)) + with("n", n),
                   {flops, "TFLOPs"},
                   n >= 8192 ? 6 : 20,
                   [&] { return matmul(a, b); });
      if (dtype != DType::f32 && n >= 4096) {
        const Tensor bias = normal(device, {n}, dtype);
        figures.time("matmul_bias_gelu",
                     with("dtype", name(dtype)) + with("n", n),
                     {flops, "TFLOPs"},
                     n >= 8192 ? 6 : 20,
                     [&] { return gelu(matmul(a, b) + bias); });
      }
    }
  }
  products_with_f16_sums(device);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = normal(device, {16, 64, 56, 56}, dtype);
    const Tensor w = normal(device, {64, 64, 3, 3}, dtype);
    figures.time("conv2d_64_56_3x3_b16",
                 with("dtype", name(dtype)),
                 {2.0 * 16 * 64 * 64 * 9 * 56 * 56, "TFLOPs"},
                 20,
                 [&] {
                   return conv2d(x, w, {.padding = {1, 1}});
                 });
  }
}

/// Embeddings of a batch of texts, a part of which is padded with one word, as in batches of
/// unequal texts.
void embeddings(const Figures& figures) {
  constexpr std::int64_t kWords = 10000;
  const Shape batch{64, 512};
  const Tensor table = normal(figures.device(), {kWords, 512});
  for (const double part : {0.0, 0.5, 0.9}) {
    Generator generator(11);
    const Tensor drawn = randint(figures.device(), batch, generator, 1, kWords, DType::i64);
    const Tensor fills = random_uniform(figures.device(), batch, generator) < part;
    const Tensor words = where(fills, zeros(figures.device(), batch, DType::i64), drawn);
    figures.time("embedding_grad", fmt::format(", \"filled\": {}", part), {}, 10, [&] {
      const auto loss = [&](const std::vector<Tensor>& in) { return sum(embedding(in[0], words)); };
      return grad(loss, {table})[0];
    });
  }
}

using Inputs = std::vector<Tensor>;

/// A layer, and the layer with the gradients of its inputs.
void with_gradients(const Figures& figures,
                    const std::string& name,
                    DType dtype,
                    const Inputs& inputs,
                    const std::function<Tensor(const Inputs&)>& layer) {
  const std::string more = with("dtype", hearth::name(dtype));
  figures.time(name, more, {}, 20, [&] { return layer(inputs); });
  const Tensor weight = normal(figures.device(), layer(inputs).shape(), dtype);
  figures.time_all(name + "_grad", more, {}, 10, [&] {
    return grad([&](const Inputs& in) { return sum(layer(in) * weight); }, inputs);
  });
}

void attentions(const Figures& figures) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor heads = normal(figures.device(), {32, 8, 256, 64}, dtype);
    with_gradients(figures,
                   "attention_b32_h8_s256_w64",
                   dtype,
                   {heads, heads + 0.5, heads + 0.25},
                   [](const Inputs& in) { return attention(in[0], in[1], in[2]); });
    const Tensor texts = normal(figures.device(), {8, 12, 1024, 64}, dtype);
    with_gradients(
        figures,
        "attention_causal_b8_h12_s1024_w64",
        dtype,
        {texts, texts + 0.5, texts + 0.25},
        [](const Inputs& in) { return attention(in[0], in[1], in[2], {.causal = true}); });
  }
}

void layers(const Figures& figures) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto make = [&](const Shape& shape) { return normal(figures.device(), shape, dtype); };
    const auto both = [&](const std::string& name,
                          const Inputs& inputs,
                          const std::function<Tensor(const Inputs&)>& layer) {
      with_gradients(figures, name, dtype, inputs, layer);
    };
    const Tensor rows = make({8192, 512});
    const Tensor wide = make({8192, 2048});
    const auto linear = [](const Inputs& in) { return matmul(in[0], transpose(in[1]), in[2]); };
    both("linear_512_2048", {rows, make({2048, 512}), make({2048})}, linear);
    both("linear_2048_512", {wide, make({512, 2048}), make({512})}, linear);
    both("linear_512_512", {rows, make({512, 512}), make({512})}, linear);
    both("gelu_8192_2048", {wide}, [](const Inputs& in) { return gelu(in[0]); });
    both("layer_norm_8192_512", {rows, make({512}), make({512})}, [](const Inputs& in) {
      return layer_norm(in[0], in[1], in[2]);
    });
  }
}

/// Many small ops: nanoseconds per op, on `threads` threads with a stream each.
void chain(const Device& device, const char* name, int threads, bool is_dependent) {
  constexpr int kOps = 20000;
  const auto work = [&] {
    Stream stream(device);
    const StreamScope scope(stream);
    const Tensor a = full(device, {8, 8, 8}, 1.0);
    const Tensor b = full(device, {8, 8, 8}, 1.0);
    for (int round = 0; round < 2; ++round) {
      Tensor c = a;
      std::vector<Tensor> kept;
      for (int i = 0; i < kOps / 2; ++i) {
        if (is_dependent) {
          c = c + b;
        } else {
          kept.push_back(a + b);
          if (kept.size() == 512) {
            kept.clear();
          }
        }
      }
      device.sync();
    }
  };
  const auto run = [&] {
    std::vector<std::thread> crowd;
    for (int i = 0; i < threads; ++i) {
      crowd.emplace_back(work);
    }
    for (std::thread& thread : crowd) {
      thread.join();
    }
  };
  run();  // makes plans and kernels
  const auto start = std::chrono::steady_clock::now();
  run();
  fmt::print(
      "{{\"bench\": \"{}\", \"threads\": {}, \"total_ns\": {:.0f}, \"ops_per_s\": {:.0f}}}\n",
      name,
      threads,
      seconds_since(start) / kOps / threads * 1e9,
      kOps * threads / seconds_since(start));
  std::fflush(stdout);
}

void launches(const Figures& figures, const std::string& name) {
  for (const int threads : {1, 4, 16}) {
    figures.warm_clocks();
    chain(figures.device(), "launch_chain_fused", threads, true);
    chain(figures.device(), "launch_independent", threads, false);
  }
  const Runtime singly({.devices = {{.name = name}}, .fusion = Fusion::off});
  for (const int threads : {1, 4, 16}) {
    figures.warm_clocks();
    chain(singly.device(), "launch_chain", threads, true);
  }
}

/// Runs step after step and waits for each, as the peer does.
template <class Model, class Loss>
void steps(const Figures& figures,
           const std::string& name,
           const std::string& more,
           Model model,
           const Loss& loss) {
  Adam adam({.learning_rate = 1e-3});
  double recorded_us = 0;
  const auto step = [&] {
    const auto start = std::chrono::steady_clock::now();
    auto [value, gradients] =
        value_and_grad(model, [&](const Model& tracked) { return loss(tracked); });
    auto updated = adam.step(model, std::move(gradients));
    recorded_us = seconds_since(start) * 1e6;
    figures.device().sync();
    updated.get();
  };
  figures.device().sync();  // data and weights have arrived
  const auto first = std::chrono::steady_clock::now();
  step();
  const double first_us = seconds_since(first) * 1e6;
  for (int i = 0; i < 8; ++i) {
    step();
  }
  figures.warm_clocks();
  step();
  std::vector<double> times;
  std::vector<double> recorded;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step();
    times.push_back(seconds_since(start) * 1e6);
    recorded.push_back(recorded_us);
  }
  const Median found = median_of(times);
  fmt::print(
      "{{\"bench\": \"{}\", \"median_us\": {:.1f}, \"min_us\": {:.1f}, \"max_us\": {:.1f}, "
      "\"recorded_us\": {:.1f}, \"first_us\": {:.0f}, \"peak_MiB\": {}{}}}\n",
      name,
      found.median,
      found.least,
      found.most,
      median_of(recorded).median,
      first_us,
      figures.device().memory().peak_live_bytes >> 20,
      more);
  std::fflush(stdout);
}

Tensor targets_of(const Device& device) {
  std::vector<std::int64_t> classes(64);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    classes[i] = static_cast<std::int64_t>(i % 10);
  }
  return Tensor::from(device, classes, {64});
}

/// Alone in a process, its first step is that of a program: with an empty cache (HEARTH_CACHE_DIR),
/// or with the cache of an earlier process.
void cnn(const Figures& figures) {
  const Device& device = figures.device();
  Generator generator(5);
  const Tensor targets = targets_of(device);
  const Tensor planes = random_uniform(device, Cnn::input_shape(64), generator);
  steps(figures, "cnn_b64_step", "", Cnn(device, generator), [&](const Cnn& model) {
    return cross_entropy(model.forward(planes), targets);
  });
}

void trainings(const Figures& figures) {
  const Device& device = figures.device();
  Generator generator(5);
  const Tensor targets = targets_of(device);
  const Tensor pixels = random_uniform(device, Mlp::input_shape(64), generator);
  steps(figures, "mlp_b64_step", "", Mlp(device, generator), [&](const Mlp& model) {
    return cross_entropy(model.forward(pixels), targets);
  });
  cnn(figures);
}

void transformers(const Figures& figures) {
  const Device& device = figures.device();
  Generator generator(5);
  const Tensor targets = zeros(device, {32}, DType::i64);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = normal(device, {32, 256, 512}, dtype);
    steps(figures,
          "encoder_L12_d512_b32_s256_step",
          with("dtype", name(dtype)),
          Encoder(12, dtype, device, generator),
          [&](const Encoder& model) { return cross_entropy(model.forward(x), targets); });
  }
}

/// The losses of a training. No time counts unless the losses of a GPU equal the CPU's.
template <class MakeModel>
std::vector<double> course_on(const Device& device,
                              const MakeModel& make,
                              const std::function<Tensor(Generator&)>& samples,
                              std::int64_t count) {
  constexpr int kSteps = 10;
  Generator generator(11);
  auto model = make(device, generator);
  const Tensor x = samples(generator);
  std::vector<std::int64_t> classes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < classes.size(); ++i) {
    classes[i] = static_cast<std::int64_t>(i * 7 % 10);
  }
  const Tensor targets = Tensor::from(device, classes);
  Sgd sgd({.learning_rate = 0.01, .momentum = 0.9});
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    auto [loss, gradients] = value_and_grad(
        model, [&](const auto& tracked) { return cross_entropy(tracked.forward(x), targets); });
    sgd.step(model, std::move(gradients)).get();
    losses.push_back(loss.item());
  }
  return losses;
}

template <class MakeModel>
bool is_same_course(const Figures& figures,
                    const std::string& name,
                    const MakeModel& make,
                    const Shape& shape) {
  const Runtime host({.devices = {{.name = "cpu:0"}}});
  const auto on = [&](const Device& device) {
    return course_on(
        device,
        make,
        [&](Generator& generator) { return random_uniform(device, shape, generator); },
        shape[0]);
  };
  const std::vector<double> want = on(host.device());
  const std::vector<double> got = on(figures.device());
  double gap = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    gap = std::max(gap, std::isfinite(got[i]) ? std::abs(want[i] - got[i]) : HUGE_VAL);
  }
  fmt::print(
      "{{\"bench\": \"check_{}\", \"last_loss\": {:.6f}, \"cpu\": {:.6f}, \"gap\": {:.2e}}}\n",
      name,
      got.back(),
      want.back(),
      gap);
  std::fflush(stdout);
  return gap < 1e-3;
}

void checks(const Figures& figures) {
  bool are_same = is_same_course(
      figures,
      "mlp",
      [](const Device& device, Generator& generator) { return Mlp(device, generator); },
      Mlp::input_shape(64));
  are_same = is_same_course(
                 figures,
                 "cnn",
                 [](const Device& device, Generator& generator) { return Cnn(device, generator); },
                 Cnn::input_shape(16)) &&
             are_same;
  are_same = is_same_course(figures,
                            "encoder",
                            [](const Device& device, Generator& generator) {
                              return Encoder(2, DType::f32, device, generator);
                            },
                            {2, 128, 512}) &&
             are_same;
  if (!are_same) {
    throw Exception({.code = ErrorCode::kernel_failed,
                     .text = "the losses of this device differ from the CPU's: no figure counts"});
  }
}

int run(const std::vector<std::string>& arguments) {
  static constexpr std::string_view kSections[] = {"check",
                                                   "copy",
                                                   "transfers",
                                                   "gelu",
                                                   "rows",
                                                   "matmul",
                                                   "attention",
                                                   "layers",
                                                   "launch",
                                                   "train",
                                                   "cnn",
                                                   "first",
                                                   "transformer",
                                                   "ragged",
                                                   "gpt",
                                                   "gpt_types"};
  static constexpr std::string_view kFirstSteps = "gpt_first";
  std::vector<std::string_view> names(std::begin(kSections), std::end(kSections));
  names.push_back(kFirstSteps);
  const GpuChoice choice = parse_gpu_choice(arguments, names);
  if (choice.helps || !choice.unknown.empty()) {
    return explain_gpu_choice(choice, names);
  }
  const std::string& name = choice.device;
  if (choice.has(kFirstSteps)) {  // before any other runtime of the process
    measure_first_gpt_steps(name);
  }
  if (choice.sections == std::vector<std::string>{std::string(kFirstSteps)}) {
    return 0;
  }
  const Runtime runtime({.devices = {{.name = name}}});
  const Figures figures(runtime.device());
  fmt::print(
      "{{\"device\": \"{}\", \"description\": \"{}\"}}\n", name, figures.device().description());
  const std::function<void()> measures[] = {
      [&] { checks(figures); },
      [&] { copies(figures); },
      [&] { TransferFigures(figures.device()).measure(name); },
      [&] { gelus(figures); },
      [&] { rows(figures); },
      [&] { products(figures); },
      [&] { attentions(figures); },
      [&] {
        layers(figures);
        embeddings(figures);
      },
      [&] { launches(figures, name); },
      [&] { trainings(figures); },
      [&] { cnn(figures); },
      [&] { FirstUse(figures.device()).measure(); },
      [&] { transformers(figures); },
      [&] {
        figures.warm_clocks();
        Ragged(figures.device()).measure();
      },
      [&] {
        figures.warm_clocks();
        measure_ragged_gpt(figures.device());
      },
      [&] {
        figures.warm_clocks();
        measure_gpt_types(name);
      },
  };
  static_assert(std::size(measures) == std::size(kSections));
  int failures = 0;
  for (std::size_t i = 0; i < std::size(kSections); ++i) {
    if (!choice.has(kSections[i])) {
      continue;
    }
    try {
      measures[i]();
    } catch (const Exception& error) {
      ++failures;
      fmt::print("{{\"bench\": \"{}\", \"failed\": true}}\n", kSections[i]);
      std::fflush(stdout);
      fmt::print(stderr, "{}: {}\n", kSections[i], error.what());
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) {
  try {
    return hearth::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "hearth-gpu-bench: {}\n", error.what());
    return 1;
  }
}
