// Inference at batch 1 by many clients at once: each thread owns a Stream, and all share one
// model's frozen weights. Closed loops: a client sends its next request when it has the last
// answer, as the peer programs do (`infer_mlp`, `infer_cnn` of torch_cpp and ort_cpp). Inputs and
// answers are in host memory.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/parallel/frozen.hpp>
#include <hearth/parallel/served_model.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

#include "bench_models.hpp"

namespace hearth::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr std::chrono::milliseconds kWarmup(200);
constexpr std::chrono::milliseconds kMeasured(1500);

enum class Phase { warmup, measured, over };
/// Activity of one more client.
enum class Disturbance : std::int64_t { none, failing, cancelled, leaving, new_weights };

double quantile(std::vector<double>& values, double share) {
  if (values.empty()) {
    return 0;
  }
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

// Processor time of the whole process.
double process_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One client. Sends requests until the phase is over; returns the times of those that lay within
// the measured phase.
template <class Model>
std::vector<double> serve(const ServedModel<Model>& place, const std::atomic<Phase>& phase) {
  typename ServedModel<Model>::Reader reader(place);
  const Device device = reader.current().device();
  Stream stream(device);
  const StreamScope scope(stream);
  const Shape shape = Model::input_shape(1);
  const std::vector<float> input(static_cast<std::size_t>(shape.element_count()), 0.5F);
  std::vector<double> times;
  times.reserve(1U << 18U);
  while (true) {
    const Phase before = phase.load(std::memory_order_acquire);
    if (before == Phase::over) {
      return times;
    }
    const Clock::time_point start = Clock::now();
    const Tensor x = Tensor::from(device, input, shape);
    benchmark::DoNotOptimize(reader.current()->forward(x).template to_vector<float>());
    const Clock::time_point end = Clock::now();
    if (before == Phase::measured && phase.load(std::memory_order_acquire) == Phase::measured) {
      times.push_back(Microseconds(end - start).count());
    }
  }
}

// Replaces the weights twenty times a second.
template <class Model>
void renew(ServedModel<Model>& place, const std::atomic<Phase>& phase) {
  typename ServedModel<Model>::Reader reader(place);
  while (phase.load(std::memory_order_acquire) != Phase::over) {
    const Frozen<Model>& model = reader.current();
    place.publish(freeze(fork(*model, model.device())));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

template <class Model>
void disturb(ServedModel<Model>& place, Disturbance how, const std::atomic<Phase>& phase) {
  if (how == Disturbance::new_weights) {
    renew(place, phase);
    return;
  }
  typename ServedModel<Model>::Reader reader(place);
  const Frozen<Model>& model = reader.current();
  const Device& device = model.device();
  const Shape shape = Model::input_shape(1);
  while (phase.load(std::memory_order_acquire) != Phase::over) {
    Stream stream(device);
    const StreamScope scope(stream);
    const Tensor x = ones(device, shape);
    if (how == Disturbance::failing) {
      const Tensor poison = cross_entropy(zeros(device, {1, 3}), full(device, {1}, 9, DType::i64));
      try {
        static_cast<void>(model->forward(x + poison).read_bytes().get());
      } catch (const DeviceError& error) {
        benchmark::DoNotOptimize(error.what());
      }
    } else {
      benchmark::DoNotOptimize(model->forward(x).template to_vector<float>());
      const Tensor y = model->forward(x);
      if (how == Disturbance::cancelled) {
        std::stop_source source;
        auto answer = y.read_bytes();
        source.request_stop();
        try {
          benchmark::DoNotOptimize(answer.get({.stop = source.get_token()}).data());
        } catch (const DeviceError& error) {
          benchmark::DoNotOptimize(error.what());
        }
      }
    }
  }
}

template <class Model>
void infer(benchmark::State& state, std::size_t clients, int device_count, Disturbance how) {
  const Runtime runtime({.cpu_device_count = device_count});
  std::vector<Device> devices;
  for (int i = 0; i < device_count; ++i) {
    devices.push_back(runtime.device("cpu:" + std::to_string(i)));
  }
  std::vector<std::unique_ptr<ServedModel<Model>>> models;
  for (const Device& device : devices) {
    Generator generator(1);
    models.push_back(std::make_unique<ServedModel<Model>>(freeze(Model(device, generator))));
  }
  for (auto _ : state) {
    std::atomic<Phase> phase{Phase::warmup};
    std::vector<std::vector<double>> times(clients);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < clients; ++i) {
      threads.emplace_back([&, i] { times[i] = serve(*models[i % models.size()], phase); });
    }
    if (how != Disturbance::none) {
      threads.emplace_back([&] { disturb(*models[0], how, phase); });
    }
    std::this_thread::sleep_for(kWarmup);
    phase.store(Phase::measured, std::memory_order_release);
    const Clock::time_point start = Clock::now();
    const double cpu_start = process_seconds();
    std::this_thread::sleep_for(kMeasured);
    phase.store(Phase::over, std::memory_order_release);
    const std::chrono::duration<double> measured = Clock::now() - start;
    const double cpu_end = process_seconds();
    for (std::thread& thread : threads) {
      thread.join();
    }
    std::vector<double> all;
    for (const std::vector<double>& own : times) {
      all.insert(all.end(), own.begin(), own.end());
    }
    state.SetIterationTime(measured.count());
    state.SetItemsProcessed(static_cast<std::int64_t>(all.size()));
    state.counters["p50_us"] = quantile(all, 0.5);
    state.counters["p99_us"] = quantile(all, 0.99);
    state.counters["cpu_us"] = 1e6 * (cpu_end - cpu_start) / static_cast<double>(all.size());
  }
  std::uint64_t joined = 0;
  double memory = 0;
  for (const Device& device : devices) {
    joined += device.statistics().joined_ops;
    memory += static_cast<double>(device.memory().peak_reserved_bytes);
  }
  state.counters["joined_ops"] = static_cast<double>(joined);
  state.counters["peak_bytes"] = memory;
}

template <class Model>
void infer(benchmark::State& state) {
  infer<Model>(state,
               static_cast<std::size_t>(state.range(0)),
               static_cast<int>(state.range(1)),
               Disturbance::none);
}

void BM_Infer_Mlp(benchmark::State& state) {
  infer<Mlp>(state);
}
void BM_Infer_Cnn(benchmark::State& state) {
  infer<Cnn>(state);
}
BENCHMARK(BM_Infer_Mlp)
    ->ArgNames({"clients", "devices"})
    ->ArgsProduct({{1, 4, 16}, {1, 2}})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Infer_Cnn)
    ->ArgNames({"clients", "devices"})
    ->ArgsProduct({{1, 4, 16}, {1, 2}})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// 16 clients beside one more whose requests fail (1), are cancelled (2), whose streams end with
// work under way (3), or that replaces the weights (4). The effect on the 16 is the ratio to 0.
void BM_Infer_Disturbed(benchmark::State& state) {
  infer<Mlp>(state, 16, 1, static_cast<Disturbance>(state.range(0)));
}
BENCHMARK(BM_Infer_Disturbed)
    ->ArgName("how")
    ->DenseRange(0, 4)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::bench
