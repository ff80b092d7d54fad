// All ranks' parts of a batch from one object.
#include <hearth/modules/sharded_loader.hpp>

#include "test_runtime.hpp"

#include <hearth/modules/dataset.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

/// Example i has the input i and the target -i.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t count) : count_(count) {}
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Examples examples{HostArray(DType::i64, {count}), HostArray(DType::i64, {count})};
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] == broken) {
        throw std::runtime_error("the example is broken");
      }
      examples.inputs.values<std::int64_t>()[i] = indices[i];
      examples.targets.values<std::int64_t>()[i] = -indices[i];
    }
    return examples;
  }

  std::int64_t broken = -1;

 private:
  std::int64_t count_;
};

std::vector<std::int64_t> inputs_of(const std::vector<HostBatch>& shards) {
  std::vector<std::int64_t> all;
  for (const HostBatch& shard : shards) {
    const auto values = shard.examples.inputs.values<std::int64_t>();
    EXPECT_EQ(static_cast<std::int64_t>(values.size()), shard.size);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(ShardedLoader, DividesByShares) {
  TestRuntime test;
  const Numbers data(25);
  ShardedLoader even(data, test.runtime.executor(), {.batch_size = 10, .seed = 3}, 3);
  ShardedLoader loader(data, test.runtime.executor(), {.batch_size = 10, .seed = 3}, 3);
  EXPECT_EQ(inputs_of(loader.next()), inputs_of(even.next()));
  loader.set_shares({700, 100, 200});
  EXPECT_EQ(loader.cursor(), even.cursor());
  const auto sizes_of = [](const std::vector<HostBatch>& shards) {
    std::vector<std::int64_t> sizes;
    for (const HostBatch& shard : shards) {
      sizes.push_back(shard.size);
    }
    return sizes;
  };
  const std::vector<HostBatch> whole = loader.next();
  EXPECT_EQ(sizes_of(whole), (std::vector<std::int64_t>{7, 1, 2}));
  EXPECT_EQ(inputs_of(whole), inputs_of(even.next())) << "the batch is the same";
  const std::vector<HostBatch> last = loader.next();
  EXPECT_EQ(sizes_of(last), (std::vector<std::int64_t>{3, 1, 1}));
  EXPECT_EQ(inputs_of(last), inputs_of(even.next()));
  EXPECT_THROW(loader.set_shares({1, 1}), ArgumentError);
  EXPECT_THROW(loader.set_shares({0, 0, 0}), ArgumentError);
  EXPECT_THROW(loader.set_shares({1, -1, 1}), ArgumentError);
  loader.set_world(2);
  EXPECT_TRUE(loader.shares().empty()) << "of other ranks";
  EXPECT_TRUE(loader.next().empty()) << "the end of the epoch";
  EXPECT_EQ(sizes_of(loader.next()), (std::vector<std::int64_t>{5, 5}));
}

TEST(ShardedLoader, IsCalledByItsNameInWhatItsLoadersRefuse) {
  TestRuntime test;
  Numbers data(6);
  const auto refusal = [](const auto& fn) -> std::string {
    try {
      fn();
    } catch (const Exception& error) {
      return error.error().text;
    }
    return "nothing refused";
  };
  detail::Executor& executor = test.runtime.executor();
  EXPECT_EQ(refusal([&] { ShardedLoader(data, executor, {.batch_size = 0}, 2); }),
            "ShardedLoader: batch_size is 0, but must be 1 or more");
  EXPECT_EQ(refusal([&] { DataLoader(data, executor, {.batch_size = 0}); }),
            "DataLoader: batch_size is 0, but must be 1 or more");
  EXPECT_EQ(refusal([&] { ShardedLoader(data, executor, {.name = "Feed"}, 0); }),
            "Feed: the world is 0, but must be 1 rank or more");
  data.broken = 0;
  ShardedLoader sharded(data, executor, {.shuffle = false}, 2);
  EXPECT_THAT(refusal([&] { static_cast<void>(sharded.next()); }),
              HasSubstr("ShardedLoader: batch 0 of epoch 0 of"));
}

TEST(ShardedLoader, TheShardsTogetherAreTheBatchOfOneLoader) {
  TestRuntime test;
  const Numbers data(23);
  const LoaderOptions options{.batch_size = 5, .seed = 3, .worker_count = 1};
  DataLoader whole(data, test.runtime.executor(), options);
  ShardedLoader sharded(data, test.runtime.executor(), options, 3);
  EXPECT_EQ(sharded.batch_count(), 5);
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (const auto batch = whole.next()) {
      const std::vector<HostBatch> shards = sharded.next();
      ASSERT_EQ(shards.size(), 3U);
      const auto wanted = batch->examples.inputs.values<std::int64_t>();
      EXPECT_THAT(inputs_of(shards), ::testing::ElementsAreArray(wanted));
      EXPECT_EQ(sharded.cursor(), whole.cursor());
    }
    EXPECT_TRUE(sharded.next().empty()) << "at the end of the epoch, once";
  }
}

TEST(ShardedLoader, TheNumberOfRanksMayChangeAtAnyPlace) {
  TestRuntime test;
  const Numbers data(16);
  const LoaderOptions options{.batch_size = 4, .seed = 3, .worker_count = 0};
  DataLoader whole(data, test.runtime.executor(), options);
  ShardedLoader sharded(data, test.runtime.executor(), options, 4);
  for (const int world : {4, 2, 1, 3}) {
    sharded.set_world(world);
    const std::vector<HostBatch> shards = sharded.next();
    EXPECT_EQ(static_cast<int>(shards.size()), world);
    const auto batch = whole.next();
    const auto wanted = batch->examples.inputs.values<std::int64_t>();
    EXPECT_THAT(inputs_of(shards), ::testing::ElementsAreArray(wanted));
  }
}

TEST(ShardedLoader, GoesOnFromAPlace) {
  TestRuntime test;
  const Numbers data(10);
  ShardedLoader loader(data, test.runtime.executor(), {.batch_size = 4, .worker_count = 1}, 2);
  std::vector<std::vector<std::int64_t>> batches;
  for (auto shards = loader.next(); !shards.empty(); shards = loader.next()) {
    batches.push_back(inputs_of(shards));
  }
  loader.seek({.epoch = 0, .batch = 1});
  EXPECT_EQ(inputs_of(loader.next()), batches.at(1));
  EXPECT_EQ(loader.next().size(), 2U) << "of the last two rows each rank has one";
}

TEST(ShardedLoader, AfterAnErrorAllRanksStandAtTheSameBatch) {
  TestRuntime test;
  Numbers data(8);
  data.broken = 7;  // of the second rank
  ShardedLoader loader(
      data, test.runtime.executor(), {.batch_size = 8, .shuffle = false, .worker_count = 0}, 2);
  EXPECT_THROW(static_cast<void>(loader.next()), Exception);
  data.broken = -1;
  EXPECT_EQ(inputs_of(loader.next()), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(ShardedLoader, RefusesAWorldWithoutRanks) {
  TestRuntime test;
  const Numbers data(8);
  EXPECT_THROW(ShardedLoader(data, test.runtime.executor(), {}, 0), ArgumentError);
}

}  // namespace
}  // namespace hearth
