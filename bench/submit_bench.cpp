// Time for a thread to submit an op, and for an actor to take it, without the work of kernels.
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBurst = 100;  // an add and a drop each: fits the lane's 256 records

RuntimeOptions sim_without_kernels() {
  return {.devices = {{.name = "sim:0", .sim_computes = false}}};
}

/// Holds the device's token, so that no other thread runs its loop.
class HeldToken {
 public:
  explicit HeldToken(const Device& device) : endpoint_(device.endpoint()) {
    while (!endpoint_.doorbell.try_claim()) {
      std::this_thread::yield();
    }
  }
  HeldToken(const HeldToken&) = delete;
  HeldToken& operator=(const HeldToken&) = delete;
  ~HeldToken() { endpoint_.doorbell.release_with_work(); }

 private:
  DeviceEndpoint& endpoint_;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void report_per_op(benchmark::State& state, int ops) {
  state.counters["ns_per_op"] =
      benchmark::Counter(static_cast<double>(state.iterations() * ops),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetItemsProcessed(state.iterations() * ops);
}

// One iteration is a burst of 100 `a + b` into a drained lane while the token is held. The time is
// that of the user thread alone.
void BM_Submit_Add(benchmark::State& state) {
  const Runtime runtime(sim_without_kernels());
  const Device device = runtime.device("sim:0");
  const Tensor a = ones(device, {64});
  const Tensor b = ones(device, {64});
  for (auto _ : state) {
    device.sync();
    const HeldToken held(device);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kBurst; ++i) {
      const Tensor sum = a + b;
      benchmark::DoNotOptimize(detail::TensorAccess::impl(sum));
    }
    state.SetIterationTime(seconds_since(start));
  }
  report_per_op(state, kBurst);
}
BENCHMARK(BM_Submit_Add)->UseManualTime();

// Submits `z = z + y` on tracked tensors, the recording on the tape included.
void BM_Submit_AddTaped(benchmark::State& state) {
  const Runtime runtime(sim_without_kernels());
  const Device device = runtime.device("sim:0");
  const Tensor x = ones(device, {1});
  const Tensor y = ones(device, {1});
  for (auto _ : state) {
    device.sync();
    double seconds = 0;
    const std::vector<Tensor> gradients = grad(
        [&](const std::vector<Tensor>& inputs) {
          const HeldToken held(device);
          Tensor z = inputs[0];
          const Clock::time_point start = Clock::now();
          for (int i = 0; i < kBurst; ++i) {
            z = z + y;
          }
          seconds = seconds_since(start);
          return z;
        },
        {x});
    state.SetIterationTime(seconds);
  }
  report_per_op(state, kBurst);
}
BENCHMARK(BM_Submit_AddTaped)->UseManualTime();

// Forward and backward pass of a chain of 1,000 adds on cpu, kernels included, as PyTorch's
// chain_add_autograd measures it.
void BM_TapedChain_ForwardBackward(benchmark::State& state) {
  constexpr int kChain = 1000;
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  const Tensor x = ones(device, {1});
  const Tensor y = ones(device, {1});
  for (auto _ : state) {
    const std::vector<Tensor> gradients = grad(
        [&](const std::vector<Tensor>& inputs) {
          Tensor z = inputs[0];
          for (int i = 0; i < kChain; ++i) {
            z = z + y;
          }
          return z;
        },
        {x});
    benchmark::DoNotOptimize(gradients[0].item());
  }
  report_per_op(state, kChain);
}
BENCHMARK(BM_TapedChain_ForwardBackward)->UseRealTime()->Unit(benchmark::kMicrosecond);

// A push to an actor that sleeps without a deadline includes the system call.
void BM_Submit_Wake(benchmark::State& state) {
  const Runtime runtime(sim_without_kernels());
  const Device device = runtime.device("sim:0");
  const Tensor a = ones(device, {64});
  const Tensor b = ones(device, {64});
  for (auto _ : state) {
    device.sync();
    std::this_thread::sleep_for(std::chrono::milliseconds(40));  // beyond the actor's short sleeps
    const Clock::time_point start = Clock::now();
    const Tensor sum = a + b;
    state.SetIterationTime(seconds_since(start));
  }
}
BENCHMARK(BM_Submit_Wake)->UseManualTime()->Iterations(50);

// Adds on the calling thread's stream, in bursts that the device retires; no kernels.
constexpr std::int64_t kBursts = 20;
constexpr std::int64_t kBurstAdds = 2000;
void submit_bursts(const Device& device) {
  const Tensor a = ones(device, {64});
  const Tensor b = ones(device, {64});
  for (std::int64_t burst = 0; burst < kBursts; ++burst) {
    for (std::int64_t i = 0; i < kBurstAdds; ++i) {
      const Tensor sum = a + b;
      benchmark::DoNotOptimize(detail::TensorAccess::impl(sum));
    }
    device.sync();
  }
}

// End to end: every thread submits on its own stream, and one device retires all records.
void BM_Submit_Threads(benchmark::State& state) {
  const Runtime runtime(sim_without_kernels());
  const Device device = runtime.device("sim:0");
  const auto thread_count = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < thread_count; ++t) {
      threads.emplace_back([&device] { submit_bursts(device); });
    }
  }
  // A burst retires its adds, their drops and the sync.
  state.SetItemsProcessed(state.iterations() * state.range(0) * kBursts * (2 * kBurstAdds + 1));
}
BENCHMARK(BM_Submit_Threads)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(4)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// The actor's time for an add without a kernel and the drop of its result. The burst is queued
// while the token is held, then timed.
void BM_Actor_TinyOps(benchmark::State& state) {
  const Runtime runtime(sim_without_kernels());
  const Device device = runtime.device("sim:0");
  const Tensor a = ones(device, {64});
  const Tensor b = ones(device, {64});
  for (auto _ : state) {
    device.sync();
    Pending<void> done;
    Clock::time_point start;
    {
      const HeldToken held(device);
      for (int i = 0; i < kBurst; ++i) {
        const Tensor sum = a + b;
        benchmark::DoNotOptimize(detail::TensorAccess::impl(sum));
      }
      done = device.sync_later();
      start = Clock::now();
    }
    done.get();
    state.SetIterationTime(seconds_since(start));
  }
  report_per_op(state, kBurst);
}
BENCHMARK(BM_Actor_TinyOps)->UseManualTime();

// The actor's time for an op of a chain with a plan. A chain has `length` ops on 64 elements and
// ends at a boundary of the program. It is queued while the token is held. Includes kernels on cpu;
// a sim runs none.
Tensor small_chain(const Tensor& x, const Tensor& a, std::int64_t length) {
  Tensor y = x * 0.5;
  for (std::int64_t i = 1; i < length; ++i) {
    switch (i % 4) {
      case 0:
        y = std::move(y) * 0.5;
        break;
      case 1:
        y = std::move(y) + a;
        break;
      case 2:
        y = relu(std::move(y));
        break;
      default:
        y = neg(std::move(y));
        break;
    }
  }
  return y;
}

void actor_chain(benchmark::State& state, DeviceOptions device_options) {
  const std::int64_t length = state.range(0);
  const std::string name = device_options.name;
  const Runtime runtime({.devices = {std::move(device_options)},
                         .fusion = state.range(1) != 0 ? Fusion::on : Fusion::off});
  const Device device = runtime.device(name);
  const Tensor x = ones(device, {64});
  const Tensor a = ones(device, {64});
  constexpr std::int64_t kMostRecords = 220;  // the lane has room for 256
  const std::int64_t chains = kMostRecords / (length + 2);
  const DeviceStatistics before = device.statistics();
  for (auto _ : state) {
    device.sync();
    Pending<void> done;
    Clock::time_point start;
    {
      const HeldToken held(device);
      for (std::int64_t i = 0; i < chains; ++i) {
        const Tensor y = small_chain(x, a, length);
        done = device.sync_later();
      }
      start = Clock::now();
    }
    done.get();
    state.SetIterationTime(seconds_since(start));
  }
  const DeviceStatistics after = device.statistics();
  const auto ops = static_cast<double>(state.iterations() * chains * length);
  report_per_op(state, static_cast<int>(chains * length));
  state.counters["kernels"] = static_cast<double>(after.kernels - before.kernels) / ops;
}

void BM_Actor_ChainOnCpu(benchmark::State& state) {
  actor_chain(state, {.name = "cpu:0"});
}
void BM_Actor_Chain(benchmark::State& state) {
  actor_chain(state, {.name = "sim:0", .sim_computes = false});
}
void chain_lengths(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"length", "fused"})->ArgsProduct({{5, 16, 64}, {0, 1}})->UseManualTime();
}
BENCHMARK(BM_Actor_ChainOnCpu)->Apply(chain_lengths);
BENCHMARK(BM_Actor_Chain)->Apply(chain_lengths);

void BM_Pending_RoundTrip(benchmark::State& state) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  const Tensor a = ones(device, {4});
  const Tensor b = ones(device, {4});
  for (auto _ : state) {
    benchmark::DoNotOptimize((a + b).to_vector<float>());
  }
}
BENCHMARK(BM_Pending_RoundTrip)->UseRealTime();

// Share of reads that ran the device's loop themselves instead of waiting for the actor's thread.
void BM_Tokens_Lent(benchmark::State& state) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  const Tensor a = ones(device, {4});
  const std::uint64_t before = device.statistics().tokens_lent;
  for (auto _ : state) {
    benchmark::DoNotOptimize((a + 1).to_vector<float>());
  }
  const std::uint64_t lent = device.statistics().tokens_lent - before;
  state.counters["lent_per_read"] =
      static_cast<double>(lent) / static_cast<double>(state.iterations());
}
BENCHMARK(BM_Tokens_Lent)->UseRealTime();

}  // namespace
}  // namespace hearth
