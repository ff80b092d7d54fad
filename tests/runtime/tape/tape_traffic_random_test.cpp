// Random programs whose tapes drop every value that may be dropped, however small: every gradient
// has the bits of a run with all values kept, and no program fails.
#include "runtime/tape/tape_context.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recompute.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

using Tensors = std::vector<Tensor>;

constexpr std::int64_t kRows = 8;
constexpr std::int64_t kColumns = 16;
constexpr RecomputeOptions kKeepAll{.kept_bytes = std::numeric_limits<std::int64_t>::max()};

/// Elementwise ops, views, rows, reductions and products of earlier values of [kRows, kColumns];
/// every value contributes to the result.
class RandomFormula final {
 public:
  RandomFormula(std::uint64_t seed, Generator& dropped) : random_(seed), dropped_(&dropped) {}

  Tensor of(Tensors values, int op_count, int depth) {
    for (int op = 0; op < op_count; ++op) {
      values.push_back(next(values, depth));
      // Bounds the values, which repeated squares would let grow.
      if (chance(8)) {
        values.back() = tanh(values.back());
      }
    }
    Tensor all = values.front();
    for (const Tensor& value : values) {
      all = all + tanh(value) * 0.5;
    }
    return all;
  }

 private:
  [[nodiscard]] bool chance(unsigned of) { return random_() % of == 0; }

  // A separate function, because checkpoint() allows no captures.
  static Tensor again(std::uint64_t seed, int depth, Tensors values, Generator& dropped) {
    RandomFormula inner(seed, dropped);
    return inner.of(std::move(values), 4, depth + 1);
  }

  Tensor next(const Tensors& values, int depth) {
    // Biased to the latest values, so that chains are long.
    const std::size_t reach = chance(3) ? values.size() : std::min<std::size_t>(values.size(), 4);
    const Tensor& a = values[values.size() - 1 - random_() % reach];
    const Tensor& b = values[random_() % values.size()];
    const Shape shape = a.shape();
    switch (random_() % 27) {
      case 0:
        return a * b;
      case 1:
        return a + b * 0.25;
      case 2:
        return tanh(a);
      case 3:
        return sigmoid(a) * b;
      case 4:
        return gelu(a);
      case 5:
        return maximum(a, b);
      case 6:
        return a / (square(b) + 1.0);
      case 7:
        return erf(a) - b;
      case 8:
        return reshape(square(reshape(a, {kRows * kColumns})), shape);
      case 9:
        return layer_norm(a);
      case 10:
        return 0.5 * a * a;
      case 11:
        return where(greater(a, b), a * 2.0, square(b));
      case 12:
        return dropout(a, 0.25, *dropped_);
      case 13: {
        const std::int64_t half = kColumns / 2;
        const Tensor twice = a * 2.0;
        return concat({relu(slice(twice, 1, {half, kColumns})), tanh(slice(twice, 1, {0, half}))},
                      1);
      }
      case 14:
        return transpose(sigmoid(transpose(a * 1.5)));
      case 15:
        return cast(square(cast(a, DType::f64)), DType::f32);
      case 16:
        return a.detach() * b;
      case 17:
        (void)sum(a).item();
        return silu(a);
      case 18:
        return a * sum(square(b), {1}, {.keep_dims = true}) * 0.05;
      case 19:
        return matmul(matmul(a, tanh(transpose(b))), b) * 0.01;
      case 20:
        return square(expand(slice(a, 0, {0, 1}), shape)) + b;
      case 21:
        return exp(-square(a)) * b;
      case 22:
        return softmax(a * b);
      case 23:
      case 24:
        if (depth < 2) {
          return checkpoint(&RandomFormula::again, random_(), depth, values, std::ref(*dropped_));
        }
        return sin(a) * cos(b);
      case 25:
        return clamp(a, -1.0, 1.0) - b;
      default:
        return sqrt(square(a) + 0.5) * log(square(b) + 1.5);
    }
  }

  std::mt19937_64 random_;
  Generator* dropped_;
};

/// While it lives, the tape considers values from 64 bytes on.
class SmallLimits final {
 public:
  SmallLimits() : before_(detail::exchange_traffic_limits({.least_host_bytes = 64})) {}
  SmallLimits(const SmallLimits&) = delete;
  SmallLimits& operator=(const SmallLimits&) = delete;
  ~SmallLimits() { (void)detail::exchange_traffic_limits(before_); }

 private:
  detail::TrafficLimits before_;
};

class TapeTrafficOfAll : public ::testing::Test {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device("cpu:0"); }

  [[nodiscard]] std::vector<std::vector<std::byte>> gradients(std::uint64_t seed) const {
    Generator generator(seed);
    const Tensor fixed = random_normal(device(), {kRows, kColumns}, generator);
    const Tensors inputs{random_normal(device(), {kRows, 4}, generator),
                         random_normal(device(), {4, kColumns}, generator),
                         random_normal(device(), {kColumns}, generator)};
    Generator dropped(seed + 1);
    std::vector<std::vector<std::byte>> bytes;
    const auto loss = [&](const Tensors& in) {
      const Tensor product = matmul(in[0], in[1]);
      RandomFormula formula(seed, dropped);
      return sum(formula.of({product + in[2], fixed, product - fixed, fixed * in[2]}, 14, 0));
    };
    for (const Tensor& gradient : grad(loss, inputs)) {
      bytes.push_back(gradient.read_bytes().get());
    }
    return bytes;
  }

 private:
  SmallLimits limits_;
  Runtime runtime_{RuntimeOptions{.devices = {{.name = "cpu:0"}}, .deterministic = true}};
};

class TapeTrafficRandom : public TapeTrafficOfAll, public ::testing::WithParamInterface<int> {};

constexpr int kParts = 4;
constexpr std::uint64_t kSeeds = 100;

TEST_P(TapeTrafficRandom, NoGradientHasAnotherBit) {
  const std::uint64_t first = static_cast<std::uint64_t>(GetParam()) * kSeeds + 1;
  for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const auto here = gradients(seed);
    const RecomputeScope keeps_all(kKeepAll);
    ASSERT_EQ(here, gradients(seed));
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, TapeTrafficRandom, ::testing::Range(0, kParts));

// A node whose value lies far back in its tape, behind many others' values.
TEST_F(TapeTrafficOfAll, WhatIsMadeOfWhatLiesFarBackIsRight) {
  Generator generator(3);
  const Tensor target = random_normal(device(), {kRows, kColumns}, generator);
  const Tensors inputs{random_normal(device(), {kRows, 4}, generator),
                       random_normal(device(), {4, kColumns}, generator)};
  const auto loss = [&](const Tensors& in) {
    const Tensor product = matmul(in[0], in[1]);
    const Tensor distance = product - target;
    Tensor all = square(distance);
    const Tensor other = product * 0.5;
    for (int i = 0; i < 60; ++i) {
      all = all + sum(square(in[1])) * 0.01;
    }
    const Tensor both = distance + other;
    return sum(all + square(both) + square(2.0 * both) + square(other) + square(distance));
  };
  const auto bytes = [&] {
    std::vector<std::vector<std::byte>> all;
    for (const Tensor& gradient : grad(loss, inputs)) {
      all.push_back(gradient.read_bytes().get());
    }
    return all;
  };
  const auto here = bytes();
  const RecomputeScope keeps_all(kKeepAll);
  EXPECT_EQ(here, bytes());
}

}  // namespace
}  // namespace hearth
