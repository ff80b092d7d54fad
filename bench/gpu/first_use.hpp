// The section `first` of hearth-gpu-bench: the time of a chain of ops that the device has never
// run, including the wait for its results. While its own kernel is compiled, its ops run one by
// one. Threads: one.
#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/ops.hpp>

#include "figures.hpp"

namespace hearth::bench {

/// Different chains of six ops of eight kinds, before and after each kind has run by itself.
class FirstUse final {
 public:
  explicit FirstUse(const Device& device) : x_(full(device, {64, 1024}, 0.5)), device_(device) {}

  void measure() const {
    device_.sync();
    print("first_chain_of_unknown_ops", firsts(0, kChains));
    for (const Op op : kOps) {
      const Tensor y = op(x_);
      device_.sync();
    }
    print("first_chain_of_known_ops", firsts(kChains, 2 * kChains));
    std::vector<double> steady;
    for (int i = 0; i < 2 * kChains; ++i) {
      steady.push_back(microseconds_of(i));
    }
    print("steady_chain", steady);
  }

 private:
  using Op = Tensor (*)(const Tensor&);
  static constexpr int kChains = 16;
  static constexpr std::array<Op, 8> kOps{[](const Tensor& x) { return exp(x); },
                                          [](const Tensor& x) { return tanh(x); },
                                          [](const Tensor& x) { return erf(x); },
                                          [](const Tensor& x) { return sqrt(abs(x)); },
                                          [](const Tensor& x) { return x * 0.5; },
                                          [](const Tensor& x) { return x + 0.25; },
                                          [](const Tensor& x) { return sigmoid(x); },
                                          [](const Tensor& x) { return -x; }};

  [[nodiscard]] std::vector<double> firsts(int from, int to) const {
    std::vector<double> all;
    for (int i = from; i < to; ++i) {
      all.push_back(microseconds_of(i));
      // its kernel is compiled meanwhile
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
    }
    return all;
  }
  [[nodiscard]] double microseconds_of(int chain) const {
    const auto start = std::chrono::steady_clock::now();
    Tensor y = x_;
    auto choice = static_cast<std::size_t>(chain) * 2654435761U + 1;
    for (int i = 0; i < 6; ++i) {
      y = kOps[choice % kOps.size()](y);
      choice = choice / kOps.size() * 31 + choice % kOps.size() * 5 + 3;
    }
    device_.sync();
    return seconds_since(start) * 1e6;
  }
  static void print(const char* name, const std::vector<double>& values) {
    const Median found = median_of(values);
    fmt::print(
        "{{\"bench\": \"{}\", \"median_us\": {:.0f}, \"min_us\": {:.0f}, \"max_us\": {:.0f}}}\n",
        name,
        found.median,
        found.least,
        found.most);
    std::fflush(stdout);
  }

  Tensor x_;
  Device device_;
};

}  // namespace hearth::bench
