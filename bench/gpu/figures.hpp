// Times a call of hearth-gpu-bench on a device and prints it as one JSON line. Threads: one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace hearth::bench {

using Seconds = std::chrono::duration<double>;

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

struct Median {
  double median = 0, least = 0, most = 0;
};
[[nodiscard]] inline Median median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {values[values.size() / 2], values.front(), values.back()};
}

/// Length of a run of many calls: long enough that the host's wait at its end, some 0.3 ms, does
/// not count. PyTorch's runs are timed by events of the device.
inline constexpr double kSecondsOfRun = 0.04;

/// Work of a call, for the rate beside its time.
struct Work {
  double amount = 0;
  const char* unit = "";  ///< "GBps" for bytes, "TFLOPs" for operations.
};

class Figures {
 public:
  explicit Figures(Device device) : device_(std::move(device)) {}

  [[nodiscard]] const Device& device() const noexcept { return device_; }

  void warm_clocks() const {
    Generator generator(3);
    const Tensor x = random_normal(device_, {4096, 4096}, generator);
    const auto start = std::chrono::steady_clock::now();
    while (seconds_since(start) < 0.4) {
      std::vector<Tensor> results;
      for (int i = 0; i < 20; ++i) {
        results.push_back(sin(x));
      }
      device_.sync();
    }
  }

  void time(const std::string& name,
            const std::string& more,
            Work work,
            int inner,
            const std::function<Tensor()>& call) const {
    time_all(name, more, work, inner, [&call] { return std::vector<Tensor>{call()}; });
  }

  /// `call` returns all tensors that it computes.
  void time_all(const std::string& name,
                const std::string& more,
                Work work,
                int inner,
                const std::function<std::vector<Tensor>()>& call) const {
    // The results of the last few calls are held, so that allocation is not measured.
    const auto run = [&](int count) {
      std::vector<std::vector<Tensor>> results(static_cast<std::size_t>(inner));
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < count; ++i) {
        std::vector<Tensor> made = call();
        for (Tensor& result : made) {
          result.publish();  // otherwise several calls would become one kernel
        }
        results[static_cast<std::size_t>(i % inner)] = std::move(made);
      }
      device_.sync();
      return seconds_since(start);
    };
    for (int i = 0; i < 3; ++i) {
      run(inner);
    }
    warm_clocks();
    const int count = std::max(inner, static_cast<int>(kSecondsOfRun / run(inner) * inner));
    run(count);
    const std::uint64_t before = device_.statistics().kernels;
    std::vector<double> times;
    for (int i = 0; i < 15; ++i) {
      times.push_back(run(count) / count * 1e6);
    }
    const double kernels = static_cast<double>(device_.statistics().kernels - before) / 15 / count;
    const Median found = median_of(times);
    std::string rate;
    if (work.amount > 0) {
      const double scale = std::string_view(work.unit) == "GBps" ? 1e3 : 1e6;
      rate = fmt::format(", \"{}\": {:.1f}", work.unit, work.amount / found.median / scale);
    }
    fmt::print(
        "{{\"bench\": \"{}\", \"median_us\": {:.2f}, \"min_us\": {:.2f}, \"max_us\": {:.2f}, "
        "\"kernels\": {:.1f}{}{}}}\n",
        name,
        found.median,
        found.least,
        found.most,
        kernels,
        rate,
        more);
    std::fflush(stdout);
  }

 private:
  Device device_;
};

[[nodiscard]] inline std::string with(const char* key, std::string_view value) {
  return fmt::format(", \"{}\": \"{}\"", key, value);
}
[[nodiscard]] inline std::string with(const char* key, std::int64_t value) {
  return fmt::format(", \"{}\": {}", key, value);
}

[[nodiscard]] inline Tensor normal(const Device& device,
                                   const Shape& shape,
                                   DType dtype = DType::f32) {
  Generator generator(7);
  return random_normal(device, shape, generator, 0.0, 1.0, dtype);
}
[[nodiscard]] inline double bytes_of(const Tensor& x) {
  return static_cast<double>(x.element_count() * size_bytes(x.dtype()));
}

}  // namespace hearth::bench
