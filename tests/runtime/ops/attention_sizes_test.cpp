// attention with large scores: masks of any size, large logits. The gradient recomputes the
// weights, and the weights of a query add up to 1.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recompute.hpp>
#include <hearth/runtime/runtime.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using Tensors = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sizes {
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t width;
};

class AttentionSizesTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  Tensor normal(const Shape& shape, DType dtype, double size = 1) {
    return (random_normal(device(), shape, generator_) * size).to(dtype);
  }
  Tensors inputs(const Sizes& sizes, DType dtype, double size) {
    return {normal({2, sizes.heads, sizes.queries, sizes.width}, dtype, size),
            normal({2, sizes.key_heads, sizes.keys, sizes.width}, dtype, size),
            normal({2, sizes.key_heads, sizes.keys, sizes.width}, dtype)};
  }
  // A Vulkan driver in software is slow for each kernel.
  static std::vector<DType> types() {
    return GetParam() == std::string("vulkan:0")
               ? std::vector<DType>{DType::f32, DType::bf16}
               : std::vector<DType>{DType::f32, DType::f16, DType::bf16, DType::f64};
  }
  static std::vector<double> reals(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }
  static double total(const Tensor& x) { return sum(x.to(DType::f64)).item(); }

  Generator generator_{11};

 private:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

// Few rows, blocks of queries and keys, groups, widths for matrix units.
constexpr Sizes kSizes[] = {
    {2, 2, 1, 64, 8}, {4, 2, 3, 70, 16}, {2, 1, 70, 300, 8}, {1, 1, 66, 64, 8}};

TEST_P(AttentionSizesTest, WeightsAddUpToOneUnderMasksOfAnySize) {
  for (const DType dtype : types()) {
    for (const Sizes& sizes : kSizes) {
      for (const double masked : {0.0, -1e4, -6e4, -1e9, -3.38e38, 1e9}) {
        for (const bool is_causal : {false, true}) {
          if (std::abs(masked) > 6e4 && dtype == DType::f16) {
            continue;
          }
          const Tensor mask = full(device(), {sizes.queries, sizes.keys}, masked, dtype);
          const Tensors in = inputs(sizes, dtype, 1);
          const Tensors slopes = grad(
              [&](const Tensors& t) {
                return sum(attention(t[0], t[1], t[2], mask, {.causal = is_causal}).to(DType::f32));
              },
              in);
          const bool all_see = !is_causal || sizes.queries <= sizes.keys;
          const std::int64_t seeing = all_see ? sizes.queries : sizes.keys;
          const auto want = static_cast<double>(2 * sizes.heads * seeing * sizes.width);
          const double limit = dtype == DType::bf16 ? 4e-3 : dtype == DType::f16 ? 1e-3 : 1e-5;
          EXPECT_NEAR(total(slopes[2]) / want, 1, limit)
              << name(dtype) << " mask " << masked << " causal " << is_causal << " keys "
              << sizes.keys << " queries " << sizes.queries;
        }
      }
    }
  }
}

// One key remains: its weight is 1, which a sum of logarithms in f32 loses from 1e8 on.
TEST_P(AttentionSizesTest, TheLastKeysOfARowKeepTheirWeights) {
  const std::vector<float> masks{-1e9F,
                                 -1e9F,
                                 -1e9F,
                                 -1e9F,
                                 -1e9F,  // all equal
                                 -1e9F,
                                 -2e9F,
                                 -2e9F,
                                 -2e9F,
                                 -2e9F};
  const Tensor mask = Tensor::from(device(), masks, {2, 5});
  const Tensors in{zeros(device(), {2, 4}), ones(device(), {5, 4}), ones(device(), {5, 1})};
  const Tensors slopes =
      grad([&](const Tensors& t) { return sum(attention(t[0], t[1], t[2], mask)); }, in);
  const std::vector<double> got = reals(slopes[2]);
  EXPECT_NEAR(got[0], 1.2, 1e-6);
  EXPECT_NEAR(got[4], 0.2, 1e-6);
}

TEST_P(AttentionSizesTest, HiddenRowsTakeNoGradientBesideOthers) {
  for (const DType dtype : types()) {
    std::vector<float> masks(70 * 64, 0.0F);
    std::fill(masks.begin(), masks.begin() + 5 * 64, -static_cast<float>(kInfinity));
    const Tensor mask = Tensor::from(device(), masks, {70, 64}).to(dtype);
    const Tensors in = inputs({1, 1, 70, 64, 8}, dtype, 1);
    const Tensors slopes = grad(
        [&](const Tensors& t) { return sum(attention(t[0], t[1], t[2], mask).to(DType::f32)); },
        in);
    EXPECT_NEAR(total(slopes[2]) / (2 * 65 * 8), 1, 4e-3);
    const std::vector<double> of_queries = reals(slopes[0]);
    for (std::size_t i = 0; i < 5 * 8; ++i) {
      ASSERT_EQ(of_queries[i], 0) << i;
    }
    for (const Tensor& slope : slopes) {
      EXPECT_TRUE(all(is_finite(slope)).item() != 0);
    }
  }
}

// Products of 1e4 to 1e8: the forward and the backward kernel must compute equal scores.
TEST_P(AttentionSizesTest, WeightsAddUpToOneForLargeLogits) {
  for (const Sizes& sizes : kSizes) {
    for (const double size : {50.0, 500.0, 5000.0}) {
      const Tensors in = inputs(sizes, DType::f32, size);
      const auto loss = [](const Tensors& t) { return sum(attention(t[0], t[1], t[2])); };
      const auto want = static_cast<double>(2 * sizes.heads * sizes.queries * sizes.width);
      EXPECT_NEAR(total(grad(loss, in)[2]) / want, 1, 1e-5) << size << " " << sizes.queries;
    }
  }
}

TEST_P(AttentionSizesTest, RecomputedGradientsAreTheSame) {
  const Tensors in = inputs({2, 1, 5, 70, 8}, DType::f32, 1);
  const Tensor mask = full(device(), {5, 70}, -1e9);
  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added) {
    return attention(q, k, v, added);
  };
  const Tensors kept =
      grad([&](const Tensors& t) { return sum(square(attend(t[0], t[1], t[2], mask))); }, in);
  const Tensors again = grad(
      [&](const Tensors& t) { return sum(square(checkpoint(attend, t[0], t[1], t[2], mask))); },
      in);
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(reals(kept[i]), reals(again[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         AttentionSizesTest,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0"),
                         [](const auto& tested) { return std::string(tested.param).substr(0, 3); });

}  // namespace
}  // namespace hearth
