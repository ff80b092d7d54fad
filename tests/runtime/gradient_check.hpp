// Gradients against central differences, in f64 on the reference device. For tests of runtime/.
// Threads: the test's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

namespace hearth::testing {

/// Values of an input, on the host.
struct HostTensor {
  Shape shape;
  std::vector<double> values;

  [[nodiscard]] Tensor on(const Device& device) const {
    return Tensor::from(device, values, shape);
  }
};

/// Random inputs; every failure prints the seed.
class HostRandom {
 public:
  explicit HostRandom(std::uint32_t seed) : seed_(seed), engine_(seed) {}

  [[nodiscard]] std::uint32_t seed() const noexcept { return seed_; }
  [[nodiscard]] HostTensor uniform(const Shape& shape, double low, double high) {
    std::uniform_real_distribution<double> distribution(low, high);
    return make(shape, [&] { return distribution(engine_); });
  }
  /// Away from 0, where kinks lie: 0.3 to 1.5 with a random sign.
  [[nodiscard]] HostTensor signed_values(const Shape& shape) {
    std::uniform_real_distribution<double> distribution(0.3, 1.5);
    return make(shape, [&] {
      return (engine_() & 1U) != 0 ? distribution(engine_) : -distribution(engine_);
    });
  }
  /// No two closer than 0.1, in random order: no ties for maxima.
  [[nodiscard]] HostTensor distinct(const Shape& shape) {
    HostTensor tensor = make(shape, [n = 0.0]() mutable { return 0.1 * n++; });
    std::shuffle(tensor.values.begin(), tensor.values.end(), engine_);
    return tensor;
  }

 private:
  template <class Fn>
  [[nodiscard]] static HostTensor make(const Shape& shape, Fn value) {
    HostTensor tensor{shape, std::vector<double>(static_cast<std::size_t>(shape.element_count()))};
    std::ranges::generate(tensor.values, value);
    return tensor;
  }

  std::uint32_t seed_;
  std::mt19937 engine_;
};

/// Compares the gradient of sum(fn(inputs) * weights), for fixed random weights, with central
/// differences at every element. The step balances the h² error of the difference against f64
/// rounding, which h divides: both stay below 1e-9 for functions of moderate size.
template <class Fn>
void check_gradients(const Device& device, const Fn& fn, const std::vector<HostTensor>& inputs) {
  constexpr double kStep = 1e-5;
  constexpr double kTolerance = 1e-7;
  const auto upload = [&](const std::vector<HostTensor>& values) {
    std::vector<Tensor> tensors;
    for (const HostTensor& value : values) {
      tensors.push_back(value.on(device));
    }
    return tensors;
  };
  const Shape result_shape = fn(upload(inputs)).shape();
  const Tensor weights = HostRandom(99).uniform(result_shape, 0.5, 1.5).on(device);
  const auto loss = [&](const std::vector<Tensor>& tensors) { return sum(fn(tensors) * weights); };

  const std::vector<Tensor> gradients = grad(loss, upload(inputs));
  ASSERT_EQ(gradients.size(), inputs.size());
  for (std::size_t which = 0; which < inputs.size(); ++which) {
    EXPECT_EQ(gradients[which].shape(), inputs[which].shape) << "input " << which;
    EXPECT_FALSE(gradients[which].is_tracked());
    const std::vector<double> got = gradients[which].to_vector<double>();
    std::vector<HostTensor> moved = inputs;
    for (std::size_t i = 0; i < got.size(); ++i) {
      double& value = moved[which].values[i];
      const double center = value;
      value = center + kStep;
      const double above = loss(upload(moved)).item();
      value = center - kStep;
      const double below = loss(upload(moved)).item();
      value = center;
      const double want = (above - below) / (2 * kStep);
      EXPECT_NEAR(got[i], want, kTolerance * std::max(1.0, std::fabs(want)))
          << "input " << which << ", element " << i;
    }
  }
}

}  // namespace hearth::testing
