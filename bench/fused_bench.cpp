// The formulas by which fusion is judged, at the peers' shapes. Beside them the machine's limits: a
// copy and a read of the same bytes, and the bare loops of mathematics on data in L1.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/backends/cpu/isa.hpp>
#include <hearth/memory/host_page_provider.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recompute.hpp>
#include <hearth/runtime/runtime.hpp>

#include "backends/cpu/elementwise/unary_loops.hpp"
#include "measure.hpp"

namespace hearth {
namespace {

using bench::measure;

/// Three sizes; if the first is 1, a matrix of the others.
Shape shape_of(const benchmark::State& state) {
  const Shape matrix{state.range(1), state.range(2)};
  return state.range(0) == 1 ? matrix : Shape{state.range(0), state.range(1), state.range(2)};
}

Runtime fusing_runtime(std::int64_t core_count) {
  std::vector<int> cores = available_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(core_count)));
  return Runtime({.devices = {{.name = "cpu:0", .cores = cores}}, .fusion = Fusion::on});
}

void report_bytes(benchmark::State& state, std::int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

// ---- gelu ----

Tensor gelu_by_erf(const Tensor& x) {
  return x * (erf(x / std::sqrt(2.0)) + 1) / 2;
}
// Paper: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.25.
Tensor erf_of_positive(const Tensor& x) {
  const Tensor t = 1 / (x * 0.47047 + 1);
  return 1 - ((t * 0.7478556 - 0.0958798) * t + 0.3480242) * t * exp(-(x * x));
}
Tensor gelu_by_parts(const Tensor& x) {
  const Tensor scaled = x / std::sqrt(2.0);
  const Tensor error = where(scaled > 0, erf_of_positive(scaled), -erf_of_positive(-scaled));
  return x * (error + 1) / 2;
}
Tensor gelu_by_tanh(const Tensor& x) {
  return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * (x * square(x)))));
}

template <Tensor (*formula)(const Tensor&)>
void formula_of_one(benchmark::State& state) {
  const Runtime runtime = fusing_runtime(state.range(3));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Tensor x = random_normal(device, shape_of(state), generator);
  measure(state, device, [&] { return formula(x); });
  report_bytes(state, x.element_count() * 8);
  const DeviceStatistics done = device.statistics();
  state.counters["fused"] =
      static_cast<double>(done.fused_kernels) / static_cast<double>(state.iterations() + 2);
}

void BM_CustomGelu_Erf(benchmark::State& state) {
  formula_of_one<gelu_by_erf>(state);
}
void BM_CustomGelu_ErfOfParts(benchmark::State& state) {
  formula_of_one<gelu_by_parts>(state);
}
void BM_CustomGelu_Tanh(benchmark::State& state) {
  formula_of_one<gelu_by_tanh>(state);
}

/// With the gradient of their sum. Without `drops`, under a scope in which the tape keeps all
/// values.
template <bool drops>
void gelu_with_gradient(benchmark::State& state) {
  const Runtime runtime = fusing_runtime(state.range(3));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Tensor x = random_normal(device, shape_of(state), generator);
  std::optional<RecomputeScope> keeps_all;
  if (!drops) {
    keeps_all.emplace(RecomputeOptions{.kept_bytes = std::numeric_limits<std::int64_t>::max()});
  }
  measure(state, device, [&] {
    return grad([](const std::vector<Tensor>& in) { return sum(gelu_by_erf(in[0])); }, {x})[0];
  });
}
void BM_CustomGelu_ErfWithGradient(benchmark::State& state) {
  gelu_with_gradient<true>(state);
}
void BM_CustomGelu_ErfWithGradientKept(benchmark::State& state) {
  gelu_with_gradient<false>(state);
}

// ---- softmax, norm, sums ----

Tensor softmax_of_parts(const Tensor& x) {
  const Tensor shifted = exp(x - max(x, {-1}, {.keep_dims = true}));
  return shifted / sum(shifted, {-1}, {.keep_dims = true});
}
void BM_CustomSoftmax(benchmark::State& state) {
  formula_of_one<softmax_of_parts>(state);
}

void BM_CustomLayerNorm(benchmark::State& state) {
  const Runtime runtime = fusing_runtime(state.range(3));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Tensor x = random_normal(device, shape_of(state), generator);
  const Tensor weight = random_normal(device, {state.range(2)}, generator);
  const Tensor bias = random_normal(device, {state.range(2)}, generator);
  measure(state, device, [&] {
    const Tensor centred = x - mean(x, {-1}, {.keep_dims = true});
    return centred * rsqrt(mean(square(centred), {-1}, {.keep_dims = true}) + 1e-5) * weight + bias;
  });
  report_bytes(state, x.element_count() * 8);
}

void BM_Reduce_Sum(benchmark::State& state) {
  const Runtime runtime = fusing_runtime(state.range(3));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Tensor x = random_normal(device, shape_of(state), generator);
  const int axis = static_cast<int>(state.range(4));
  measure(state, device, [&] { return sum(x, {axis}); });
  report_bytes(state, x.element_count() * 4);
}

// ---- limits of the machine ----

constexpr std::int64_t kTimes = 10;

/// Runs `work` kTimes a round on one thread per core, each with its part of the elements.
void bare_threads(benchmark::State& state,
                  std::size_t elements,
                  const std::function<void(std::size_t begin, std::size_t end)>& work) {
  const std::vector<int> cores = available_cores();
  const auto threads = static_cast<std::size_t>(state.range(3));
  for (auto _ : state) {
    std::vector<std::thread> others;
    others.reserve(threads);
    for (std::size_t t = 0; t < threads; ++t) {
      others.emplace_back([&, t] {
        static_cast<void>(pin_current_thread(std::span(cores).subspan(t % cores.size(), 1)));
        for (std::int64_t i = 0; i < kTimes; ++i) {
          work(elements * t / threads, elements * (t + 1) / threads);
          benchmark::ClobberMemory();
        }
      });
    }
    for (std::thread& other : others) {
      other.join();
    }
  }
  state.counters["ns_each"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kTimes),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/// Memory in huge pages, as devices have it: reading a vector's pages takes a third longer.
class Memory final {
 public:
  explicit Memory(std::size_t elements)
      : page_(pages_.allocate_page(static_cast<std::int64_t>(elements * sizeof(float))).value()),
        elements_(std::launder(reinterpret_cast<float*>(page_.data)), elements) {
    std::ranges::fill(elements_, 1.0F);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { pages_.free_page(page_); }
  [[nodiscard]] float* at(std::size_t i) const noexcept { return &elements_[i]; }

 private:
  HostPageProvider pages_;
  Page page_;
  std::span<float> elements_;
};

void BM_Bare_Copy(benchmark::State& state) {
  const auto elements = static_cast<std::size_t>(shape_of(state).element_count());
  const Memory from(elements);
  const Memory to(elements);
  bare_threads(state, elements, [&](std::size_t begin, std::size_t end) {
    std::memcpy(to.at(begin), from.at(begin), (end - begin) * sizeof(float));
  });
  report_bytes(state, kTimes * static_cast<std::int64_t>(elements) * 8);
}

// The C library's memchr looks for an absent byte, at the width of the machine's vectors.
void BM_Bare_Read(benchmark::State& state) {
  const auto elements = static_cast<std::size_t>(shape_of(state).element_count());
  const Memory from(elements);
  bare_threads(state, elements, [&](std::size_t begin, std::size_t end) {
    constexpr int kAbsent = 0xEE;
    benchmark::DoNotOptimize(std::memchr(from.at(begin), kAbsent, (end - begin) * sizeof(float)));
  });
  report_bytes(state, kTimes * static_cast<std::int64_t>(elements) * 4);
}

/// Runs the loop of one op over the same elements in L1, as often as the whole tensor would take.
template <OpKind kind>
void bare_math(benchmark::State& state) {
  constexpr std::size_t kBlock = 2048;
  const auto elements = static_cast<std::size_t>(shape_of(state).element_count());
  const cpu::UnaryLoop loop = cpu::unary_loops(cpu::machine_isa()).at(kind, DType::f32);
  bare_threads(state, elements, [&](std::size_t begin, std::size_t end) {
    std::array<float, kBlock> in{};
    std::array<float, kBlock> out{};
    for (std::size_t i = 0; i < kBlock; ++i) {
      in[i] = static_cast<float>(i) / 512 - 2;
    }
    for (std::size_t i = begin; i < end; i += kBlock) {
      loop(out.data(), in.data(), static_cast<std::int64_t>(std::min(kBlock, end - i)));
      benchmark::DoNotOptimize(out);
    }
  });
  report_bytes(state, kTimes * static_cast<std::int64_t>(elements) * 8);
}
void BM_Bare_Erf(benchmark::State& state) {
  bare_math<OpKind::erf>(state);
}
void BM_Bare_Exp(benchmark::State& state) {
  bare_math<OpKind::exp>(state);
}
void BM_Bare_Tanh(benchmark::State& state) {
  bare_math<OpKind::tanh>(state);
}

// ---- shapes ----

using Sizes = std::array<std::int64_t, 3>;

template <Sizes... all>
void on_cores(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"a", "b", "c", "cores"});
  for (const Sizes& sizes : {all...}) {
    for (const std::int64_t cores : {1, 2}) {
      bench->Args({sizes[0], sizes[1], sizes[2], cores});
    }
  }
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}
constexpr Sizes kLarge{32, 512, 2048};
constexpr Sizes kSquare{1, 1024, 1024};
constexpr Sizes kPlanes{64, 1024, 1024};
constexpr Sizes kRows{1, 4096, 1024};
constexpr Sizes kSummed{32, 512, 4096};

// A convolution over pictures, cut into rows, with relu behind it.
void BM_ConvRelu_Rows(benchmark::State& state) {
  const Runtime runtime = fusing_runtime(state.range(2));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const std::int64_t channels = state.range(0);
  const std::int64_t side = state.range(1);
  const Tensor x = random_normal(device, {4, channels, side, side}, generator);
  const Tensor w = random_normal(device, {channels, channels, 3, 3}, generator);
  device.sync();
  for (auto _ : state) {
    const Tensor y = relu(conv2d(x, w, {.padding = {1, 1}}));
    device.sync();
  }
}
BENCHMARK(BM_ConvRelu_Rows)
    ->ArgNames({"channels", "side", "cores"})
    ->ArgsProduct({{16, 64}, {56, 224}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_CustomGelu_Erf)->Apply(on_cores<kLarge, kSquare>);
BENCHMARK(BM_CustomGelu_ErfOfParts)->Apply(on_cores<kLarge, kSquare>);
BENCHMARK(BM_CustomGelu_Tanh)->Apply(on_cores<kLarge, kSquare>);
BENCHMARK(BM_CustomGelu_ErfWithGradient)->Apply(on_cores<kLarge, kSquare>);
BENCHMARK(BM_CustomGelu_ErfWithGradientKept)->Apply(on_cores<kLarge, kSquare>);
BENCHMARK(BM_CustomSoftmax)->Apply(on_cores<kPlanes, kRows>);
BENCHMARK(BM_CustomLayerNorm)->Apply(on_cores<kRows>);
BENCHMARK(BM_Reduce_Sum)
    ->ArgNames({"a", "b", "c", "cores", "axis"})
    ->ArgsProduct({{kSummed[0]}, {kSummed[1]}, {kSummed[2]}, {1, 2}, {0, 1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Bare_Copy)->Apply(on_cores<kLarge, kSquare, kPlanes, kRows>);
BENCHMARK(BM_Bare_Read)->Apply(on_cores<kSummed>);
BENCHMARK(BM_Bare_Erf)->Apply(on_cores<kLarge, kSquare>);
BENCHMARK(BM_Bare_Exp)->Apply(on_cores<kLarge, kSquare, kPlanes>);
BENCHMARK(BM_Bare_Tanh)->Apply(on_cores<kLarge, kSquare>);

}  // namespace
}  // namespace hearth
