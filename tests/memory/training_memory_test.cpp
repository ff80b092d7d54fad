// The device memory that whole programs hold: training, decoding with a growing cache, batches of
// all sizes, a budget that is too small.
#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/modules/adam.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "bench/bench_models.hpp"

namespace hearth {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

using bench::Cnn;

class Trainer {
 public:
  Trainer(Device device, std::uint64_t seed)
      : device_(std::move(device)),
        generator_(seed),
        model_(device_, generator_),
        adam_({.learning_rate = 1e-3}) {}

  double step(std::int64_t batch) {
    const Tensor x = random_normal(device_, {batch, 1, 28, 28}, generator_);
    const Tensor classes = zeros(device_, {batch}, DType::i64);
    auto [loss, gradients] = value_and_grad(
        model_, [&](const Cnn& tracked) { return cross_entropy(tracked.forward(x), classes); });
    adam_.step(model_, std::move(gradients)).get();
    return loss.item();
  }

 private:
  Device device_;
  Generator generator_;
  Cnn model_;
  Adam adam_;
};

/// A sim without arithmetic: the pool gets the same requests in the same order as on any device.
Runtime idle_sim() {
  return Runtime({.devices = {{.name = "sim:0", .sim_computes = false}}});
}

double waste(const MemoryUsage& usage) {
  return 1.0 - static_cast<double>(usage.peak_live_bytes) /
                   static_cast<double>(usage.peak_reserved_bytes);
}

TEST(TrainingMemory, IsFlatFromTheThirdStepAndHardlyMoreThanTheTensors) {
  const Runtime runtime = idle_sim();
  const Device device = runtime.device("sim:0");
  Trainer trainer(device, 1);
  for (int i = 0; i < 3; ++i) {
    trainer.step(64);
  }
  const std::int64_t warm_bytes = device.memory().reserved_bytes;
  for (int i = 0; i < 100; ++i) {
    trainer.step(64);
  }
  const MemoryUsage total = device.memory_report().total;
  EXPECT_LE(static_cast<double>(total.peak_reserved_bytes), 1.02 * static_cast<double>(warm_bytes));
  EXPECT_LE(waste(total), 0.10);
}

TEST(TrainingMemory, WastesAtMostATenthOnBatchesOfAllSizes) {
  const Runtime runtime = idle_sim();
  const Device device = runtime.device("sim:0");
  Trainer trainer(device, 1);
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    trainer.step(1 + static_cast<std::int64_t>(random() % 128));
  }
  EXPECT_LE(waste(device.memory_report().total), 0.10);
}

// Eight layers, each with a cache of keys and one of values that every token extends by a row.
TEST(TrainingMemory, WastesAtMostATenthOnAGrowingCache) {
  const Runtime runtime = idle_sim();
  const Device device = runtime.device("sim:0");
  std::vector<std::pair<Tensor, Tensor>> caches;
  for (int layer = 0; layer < 8; ++layer) {
    caches.emplace_back(zeros(device, {32, 512}), zeros(device, {32, 512}));
  }
  for (int token = 0; token < 300; ++token) {
    Tensor x = ones(device, {1, 512});
    for (auto& [keys, values] : caches) {
      keys = concat({keys, x * 2}, 0);
      values = concat({values, x * 3}, 0);
      x = matmul(softmax(matmul(x, permute(keys, {1, 0})), 1), values);
    }
    static_cast<void>(x.to_vector<float>());
  }
  EXPECT_LE(waste(device.memory_report().total), 0.10);
}

TEST(TrainingMemory, IsGoneWithTheThreadsAndHardlyMoreThanTheirTensors) {
  const Runtime runtime = idle_sim();
  const Device device = runtime.device("sim:0");
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    threads.emplace_back([&device, seed] {
      Trainer trainer(device, seed);
      for (int step = 0; step < 20; ++step) {
        trainer.step(64);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(waste(device.memory_report().total), 0.13);
  device.sync();
  EXPECT_EQ(device.memory().live_bytes, 0) << "a thread's model is gone with the thread";
}

TEST(TrainingMemory, AfterAShortageASmallerBatchTrainsOn) {
  const Runtime runtime({.devices = {{.name = "cpu:0", .memory_budget_bytes = 64 * kMiB}}});
  const Device device = runtime.device("cpu:0");
  Trainer trainer(device, 1);
  const double first = trainer.step(32);
  const std::int64_t live_bytes = device.memory().live_bytes;
  try {
    trainer.step(512);
    FAIL() << "a step of over 100 MiB went into 64";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("the largest live tensors"));
    EXPECT_THAT(error.what(), HasSubstr("training_memory_test.cpp"));
  }
  EXPECT_EQ(device.memory().live_bytes, live_bytes) << "the failed step left something behind";
  double last = first;
  for (int i = 0; i < 20; ++i) {
    last = trainer.step(32);
  }
  EXPECT_LT(last, first);
  EXPECT_GT(device.memory_report().rungs.refuse_count, 0U);
  EXPECT_LE(device.memory_report().total.peak_reserved_bytes, 64 * kMiB);
}

}  // namespace
}  // namespace hearth
