// Dependent kernels are ordered, whatever order a device chooses for the others. A driver in
// software runs kernels in order, so HEARTH_VULKAN_SHUFFLE shuffles them. Each case has kernels of
// several dispatches (products in parts, sums in two passes, sorts, scans) directly followed by
// others.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/environment_variable.hpp"

namespace hearth {
namespace {

using testing::EnvironmentVariable;

using Case = std::function<std::vector<Tensor>(const Device&)>;

Tensor normal(const Device& device, const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  return random_normal(device, shape, generator);
}

/// The value of the sum of `fn`, and its gradients.
std::vector<Tensor> with_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                                   const std::vector<Tensor>& inputs) {
  Tensor value;
  std::vector<Tensor> all = grad(
      [&](const std::vector<Tensor>& tracked) {
        const Tensor y = fn(tracked);
        value = y.detach();
        return sum(y);
      },
      inputs);
  all.push_back(value);
  return all;
}

std::vector<std::vector<float>> values_of(const Case& of) {
  const Runtime runtime({.devices = {{.name = "vulkan:0"}}, .blocking_compiles = true});
  const Device device = runtime.device();
  std::vector<std::vector<float>> values;
  for (int times = 0; times < 2; ++times) {  // the second run compiles nothing in between
    for (const Tensor& result : of(device)) {
      values.push_back(cast(result, DType::f32).to_vector<float>());
    }
  }
  return values;
}

constexpr const char* kShuffle = "HEARTH_VULKAN_SHUFFLE";

void expect_the_same_in_any_order(const Case& of) {
  const EnvironmentVariable as_they_come(kShuffle, "");
  const std::vector<std::vector<float>> want = values_of(of);
  for (int seed = 1; seed <= 3; ++seed) {
    const EnvironmentVariable shuffled(kShuffle, std::to_string(seed));
    const std::vector<std::vector<float>> got = values_of(of);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(got[i] == want[i]) << "result " << i << ", seed " << seed;
    }
  }
}

TEST(VulkanOrder, ProductsInParts) {
  expect_the_same_in_any_order([](const Device& device) {
    const Tensor x = normal(device, {16, 784}, 1);
    return with_gradients(
        [&](const std::vector<Tensor>& w) {
          return matmul(relu(matmul(x, w[0])), w[1]) * matmul(relu(matmul(x * 2.0, w[0])), w[1]);
        },
        {normal(device, {784, 64}, 2), normal(device, {64, 10}, 3)});
  });
}

TEST(VulkanOrder, SumsInPasses) {
  expect_the_same_in_any_order([](const Device& device) {
    Tensor x = normal(device, {40000}, 1);
    for (int i = 0; i < 6; ++i) {
      const Tensor total = sum(x);
      const Tensor most = max(x * 0.5 + total);
      x = x / (abs(most) + abs(mean(x * x)));
    }
    return std::vector<Tensor>{x, sum(reshape(x, {200, 200}), {0})};
  });
}

TEST(VulkanOrder, SortsAndScans) {
  expect_the_same_in_any_order([](const Device& device) {
    Tensor x = normal(device, {4, 3000}, 1);
    for (int i = 0; i < 3; ++i) {
      const TopK most = topk(x, 500, {.axis = 1});
      const Tensor running = cumsum(most.values * 0.001, 1);
      x = concat(std::vector<Tensor>{gather(x, 1, most.positions) + running, x}, 1);
    }
    return std::vector<Tensor>{x, cumsum(x, 1)};
  });
}

TEST(VulkanOrder, ConvolutionsAndTheirGradients) {
  expect_the_same_in_any_order([](const Device& device) {
    const Tensor x = normal(device, {4, 3, 20, 20}, 1);
    return with_gradients(
        [&](const std::vector<Tensor>& in) {
          Tensor y = max_pool2d(relu(conv2d(in[2], in[0], {.padding = {1, 1}})));
          y = max_pool2d(relu(conv2d(y, in[1], {.padding = {1, 1}})));
          return y * y;
        },
        {normal(device, {8, 3, 3, 3}, 2), normal(device, {16, 8, 3, 3}, 3), x});
  });
}

TEST(VulkanOrder, AttentionAndItsGradients) {
  expect_the_same_in_any_order([](const Device& device) {
    const Shape shape{2, 2, 70, 16};
    return with_gradients(
        [](const std::vector<Tensor>& in) {
          const Tensor once = attention(in[0], in[1], in[2]);
          return attention(once, in[1], in[2] * 2.0) * once;
        },
        {normal(device, shape, 1), normal(device, shape, 2), normal(device, shape, 3)});
  });
}

TEST(VulkanOrder, RowsByIndexAndTheirGradients) {
  expect_the_same_in_any_order([](const Device& device) {
    Generator generator(4);
    const Tensor rows = cast(random_uniform(device, {600}, generator, 0, 50), DType::i64);
    return with_gradients(
        [&](const std::vector<Tensor>& in) {
          const Tensor taken = embedding(in[0], rows);
          const Tensor added =
              scatter_add(in[0], 0, expand(reshape(rows, {600, 1}), {600, 8}), taken);
          return log_softmax(added, 1) * added;
        },
        {normal(device, {50, 8}, 1)});
  });
}

// Each running sum reads the previous one, also if that is the last kernel of the batch before.
TEST(VulkanOrder, ChainsOfManyBatches) {
  expect_the_same_in_any_order([](const Device& device) {
    Tensor x = ones(device, {4});
    for (int i = 0; i < 300; ++i) {
      x = cumsum(x, 0);
    }
    return std::vector<Tensor>{x};
  });
}

// With a shuffled order a driver in software copies like a card, for loans too.
TEST(VulkanOrder, WhatALoanPinnedIsSeenAndGivenBack) {
  const EnvironmentVariable shuffled(kShuffle, "1");
  const Runtime runtime({.devices = {{.name = "vulkan:0"}}});
  const Device device = runtime.device();
  constexpr std::int64_t kSize = 100'000;
  EXPECT_EQ(device.memory_report().pinned_bytes, 0);
  Promise<LentRegion> lent(PendingOptions{.subject = "a region"});
  Pending<LentRegion> handed = lent.pending();
  const Tensor back = lend(
      ones(device, {kSize}),
      [promise = std::move(lent)](Result<LentRegion> ready) mutable {
        promise.set_value(std::move(ready).value());
      },
      Deadline::in(std::chrono::minutes(1)));
  LentRegion region = std::move(handed).get();
  const std::int64_t held = device.memory_report().pinned_bytes;
  EXPECT_GE(held, kSize * 4);
  EXPECT_LE(held, kSize * 8);
  device.trim();
  EXPECT_EQ(device.memory_report().pinned_bytes, held) << "it is on loan";
  region.done();
  EXPECT_EQ(back.to_vector<float>(), std::vector<float>(kSize, 1));
  region = LentRegion();
  EXPECT_EQ(device.memory_report().pinned_bytes, held) << "it is kept for the next loan";
  EXPECT_GE(device.trim(), held);
  EXPECT_EQ(device.memory_report().pinned_bytes, 0);
}

}  // namespace
}  // namespace hearth
