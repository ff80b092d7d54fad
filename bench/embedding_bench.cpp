// Forward and backward pass of an embedding of 512 tokens. Its peers are a product with one-hot
// rows, and bare writes of a dense gradient of that size.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace hearth {
namespace {

constexpr std::int64_t kTokens = 512;
constexpr std::int64_t kVocabulary = 50'257;

std::vector<int> first_cores(std::int64_t count) {
  std::vector<int> cores = available_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(count)));
  return cores;
}

// Tokens from the whole vocabulary, some of them twice.
std::vector<std::int64_t> tokens() {
  std::vector<std::int64_t> all(kTokens);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::int64_t>(i * i * 7919 % kVocabulary);
  }
  return all;
}

struct Table {
  Table(std::int64_t width, std::int64_t cores)
      : runtime({.devices = {{.name = "cpu:0", .cores = first_cores(cores)}}}) {
    Generator generator(1);
    weight = random_normal(device, {kVocabulary, width}, generator);
    incoming = random_normal(device, {kTokens, width}, generator);
    index = Tensor::from(device, tokens(), {kTokens});
    device.sync();
  }

  Runtime runtime;
  Device device = runtime.device("cpu:0");
  Tensor weight, incoming, index;
};

void BM_Embedding_Forward(benchmark::State& state) {
  const Table table(state.range(0), state.range(1));
  for (auto _ : state) {
    const Tensor rows = embedding(table.weight, table.index);
    table.device.sync();
  }
}

// The rows' gradient is given, and the weight's gradient is computed. The first one is not counted:
// the system maps its pages then, which takes a hundred times as long.
template <class Fn>
void forward_backward(benchmark::State& state, const Fn& embed) {
  const Table table(state.range(0), state.range(1));
  const auto run = [&] {
    const std::vector<Tensor> gradients = grad(
        [&](const std::vector<Tensor>& in) {
          return sum(embed(in[0], table.index) * table.incoming);
        },
        {table.weight});
    table.device.sync();
  };
  run();
  for (auto _ : state) {
    run();
  }
  state.SetBytesProcessed(state.iterations() * kVocabulary * state.range(0) *
                          static_cast<std::int64_t>(sizeof(float)));
}

void BM_Embedding_ForwardBackward(benchmark::State& state) {
  forward_backward(
      state, [](const Tensor& weight, const Tensor& index) { return embedding(weight, index); });
}

void BM_Embedding_OneHot(benchmark::State& state) {
  forward_backward(state, [](const Tensor& weight, const Tensor& index) {
    return matmul(one_hot(index, kVocabulary), weight);
  });
}

// Calls fn(begin, end) on one thread per core, each with an equal part of the bytes.
template <class Fn>
void on_cores(std::int64_t cores, std::size_t bytes, const Fn& fn) {
  const std::size_t part = bytes / static_cast<std::size_t>(cores);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < static_cast<std::size_t>(cores); ++i) {
    threads.emplace_back([&fn, part, i] { fn(i * part, (i + 1) * part); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// The limit: zeros of the gradient's size into memory that is mapped already.
void BM_Embedding_BareZeros(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(kVocabulary * state.range(0)) * sizeof(float);
  std::vector<std::byte> gradient(bytes);
  for (auto _ : state) {
    on_cores(state.range(1), bytes, [&](std::size_t begin, std::size_t end) {
      std::memset(gradient.data() + begin, 0, end - begin);
    });
    benchmark::DoNotOptimize(gradient.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

// Fresh pages of the system are zeros already. Only the tokens' rows are written; the others cost
// nothing until an optimizer, for example, reads them (read 1).
void BM_Embedding_FreshPages(benchmark::State& state) {
  const auto width = static_cast<std::size_t>(state.range(0));
  const std::size_t count = static_cast<std::size_t>(kVocabulary) * width;
  const std::vector<std::int64_t> rows = tokens();
  for (auto _ : state) {
    auto* const gradient = static_cast<float*>(std::calloc(count, sizeof(float)));
    for (const std::int64_t row : rows) {
      std::memset(gradient + static_cast<std::size_t>(row) * width, 1, width * sizeof(float));
    }
    if (state.range(2) == 1) {
      on_cores(state.range(1), count, [&](std::size_t begin, std::size_t end) {
        benchmark::DoNotOptimize(std::accumulate(gradient + begin, gradient + end, 0.0F));
      });
    }
    benchmark::DoNotOptimize(gradient);
    benchmark::ClobberMemory();
    std::free(gradient);
  }
}

BENCHMARK(BM_Embedding_Forward)
    ->ArgNames({"width", "cores"})
    ->ArgsProduct({{64, 768}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Embedding_ForwardBackward)
    ->ArgNames({"width", "cores"})
    ->ArgsProduct({{64, 768}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Embedding_OneHot)
    ->ArgNames({"width", "cores"})
    ->ArgsProduct({{64, 768}, {2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Embedding_BareZeros)
    ->ArgNames({"width", "cores"})
    ->ArgsProduct({{64, 768}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Embedding_FreshPages)
    ->ArgNames({"width", "cores", "read"})
    ->ArgsProduct({{768}, {2}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth
