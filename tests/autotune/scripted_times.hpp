// Scripted samples of a kernel on machines that disturb measurements, each its own way.
// A script is a pure function of its seed. Threads: one at a time.
#pragma once

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numbers>

#include <hearth/autotune/sample.hpp>
#include <hearth/runtime/base/philox.hpp>

namespace hearth::testing {

/// Ways in which a machine disturbs times.
enum class Noise : std::uint8_t {
  gaussian,    ///< Standard deviation 3 %.
  heavy_tail,  ///< A quarter of the samples is 2 % to many times longer (Pareto, exponent 1.2).
  two_humps,   ///< 30 to 70 % of the samples take 12 to 60 % longer.
  drift,       ///< The machine becomes up to 30 % slower or faster over 124 samples, and wanders.
  preemption,  ///< 30 % of the samples lose their core, then find cold caches.
  ticks,       ///< Each millisecond an interrupt takes 40 µs.
  loaded,      ///< Heavy tail, wander and ticks, with 40 % of the samples preempted.
};

class ScriptedTimes final {
 public:
  ScriptedTimes(Noise noise, std::uint64_t seed) : noise_(noise), seed_(seed) {
    height_ = 1.12 + 0.48 * uniform();
    share_ = 0.3 + 0.4 * uniform();
    slope_ = (uniform() - 0.5) * 0.6 / 124;
    to_tick_us_ = 1000 * uniform();
  }

  /// Returns the next sample of a kernel whose undisturbed run takes `base_us`.
  [[nodiscard]] detail::Sample next(double base_us) {
    constexpr int kRuns = 64;
    double factor = 1;
    detail::Sample sample{.run_count = kRuns};
    double lost_us = 0;  // on the wall only
    switch (noise_) {
      case Noise::gaussian:
        factor += 0.03 * normal();
        break;
      case Noise::heavy_tail:
        factor += tail();
        break;
      case Noise::two_humps:
        factor = (uniform() < share_ ? height_ : 1) * (1 + 0.01 * normal());
        break;
      case Noise::drift:
        factor = wander() * (1 + 0.01 * normal());
        break;
      case Noise::preemption:
        factor += 0.01 * normal();
        lost_us = preempt(0.3, factor, sample);
        break;
      case Noise::ticks:
        factor += 0.002 * std::abs(normal());
        break;
      case Noise::loaded:
        factor = wander() * (1 + tail());
        lost_us = preempt(0.4, factor, sample);
        break;
    }
    double cpu_us = base_us * kRuns * factor;
    if (noise_ == Noise::ticks || noise_ == Noise::loaded) {
      cpu_us += ticks_within(cpu_us);
    }
    sample.cpu = std::chrono::nanoseconds(std::llround(1e3 * cpu_us));
    sample.wall = std::chrono::nanoseconds(std::llround(1e3 * (cpu_us * 1.002 + lost_us)));
    return sample;
  }

 private:
  // Splitmix64: three lines, and the thousands of seeds share no state.
  double uniform() {
    std::uint64_t word = seed_ * 0x9E3779B97F4A7C15U + ++count_ * 0xBF58476D1CE4E5B9U;
    word = (word ^ (word >> 30U)) * 0xBF58476D1CE4E5B9U;
    word = (word ^ (word >> 27U)) * 0x94D049BB133111EBU;
    return static_cast<double>((word ^ (word >> 31U)) >> 11U) * 0x1p-53;
  }
  double normal() {
    const double radius = uniform();
    return philox::normal_pair(radius, uniform(), 0x1p-53)[0];
  }
  double tail() {
    const double core = 0.01 * std::abs(normal());
    return core + (uniform() < 0.25 ? 0.02 * std::pow(1 - uniform(), -1 / 1.2) : 0);
  }
  double wander() {
    walk_ += slope_ + 0.002 * normal();
    return std::exp(walk_);
  }
  // Returns the microseconds that ticks within the next `length_us` take.
  double ticks_within(double length_us) {
    to_tick_us_ -= length_us;
    double taken = 0;
    for (; to_tick_us_ < 0; to_tick_us_ += 1000) {
      taken += 40;
    }
    return taken;
  }
  // Returns the microseconds that others had the core.
  double preempt(double share, double& factor, detail::Sample& sample) {
    if (uniform() >= share) {
      return 0;
    }
    sample.involuntary_switches = 1;
    factor *= 1 + 0.15 * uniform();
    return 4000 * uniform();
  }

  Noise noise_;
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
  double height_ = 1;
  double share_ = 0;
  double slope_ = 0;
  double walk_ = 0;
  double to_tick_us_ = 0;
};

}  // namespace hearth::testing
