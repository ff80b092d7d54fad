#include <hearth/modules/data_loader.hpp>

#include "test_runtime.hpp"

#include <hearth/modules/digits.hpp>
#include <hearth/modules/epoch_order.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/sharded_loader.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/thread_executor.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Example i is the number i; one of them may be broken.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t size, std::int64_t broken = -1) : size_(size), broken_(broken) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Examples examples{HostArray(DType::i64, {count}), HostArray(DType::i64, {count})};
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] == broken_) {
        throw std::runtime_error("example is broken");
      }
      examples.inputs.values<std::int64_t>()[i] = indices[i];
      examples.targets.values<std::int64_t>()[i] = -indices[i];
    }
    return examples;
  }

 private:
  std::int64_t size_;
  std::int64_t broken_;
};

std::vector<std::int64_t> numbers_of(const HostBatch& batch) {
  const auto values = batch.examples.inputs.values<std::int64_t>();
  return {values.begin(), values.end()};
}

using Epoch = std::vector<std::vector<std::int64_t>>;

Epoch read_epoch(DataLoader& loader) {
  Epoch epoch;
  while (const std::optional<HostBatch> batch = loader.next()) {
    epoch.push_back(numbers_of(*batch));
  }
  return epoch;
}

std::vector<std::int64_t> joined(const Epoch& epoch) {
  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& batch : epoch) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(EpochOrder, IsAPermutationOfSeedAndEpochAlone) {
  const std::vector<std::int64_t> order = shuffled_order(1000, 7, 3);
  std::vector<std::int64_t> sorted = order;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, plain_order(1000));
  EXPECT_EQ(shuffled_order(1000, 7, 3), order);
  EXPECT_NE(shuffled_order(1000, 8, 3), order);
  EXPECT_NE(shuffled_order(1000, 7, 4), order);
  EXPECT_TRUE(shuffled_order(0, 1, 1).empty());
  EXPECT_THAT(shuffled_order(1, 1, 1), ElementsAre(0));
}

TEST(EpochOrder, PutsEveryExampleEverywhereAboutAsOften) {
  constexpr std::int64_t kSize = 5;
  constexpr std::int64_t kEpochs = 5000;
  std::vector<int> counts(kSize * kSize);
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<std::int64_t> order = shuffled_order(kSize, 1, epoch);
    for (std::int64_t place = 0; place < kSize; ++place) {
      ++counts[static_cast<std::size_t>(place * kSize + order[static_cast<std::size_t>(place)])];
    }
  }
  // 1000 expected, deviation 28.
  EXPECT_GT(*std::ranges::min_element(counts), 860);
  EXPECT_LT(*std::ranges::max_element(counts), 1140);
}

TEST(EpochOrder, ShardsCoverEveryRowOnce) {
  for (const std::int64_t count : {0, 1, 3, 8, 10}) {
    std::int64_t end = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const RowRange rows = shard_rows(count, rank, 4);
      EXPECT_EQ(rows.begin, end);
      EXPECT_LE(rows.size() - count / 4, 1);
      end = rows.end;
    }
    EXPECT_EQ(end, count);
  }
}

// A slow device without rows would never be measured again.
TEST(EpochOrder, EveryShareAboveZeroHasARowWhereThereAreEnough) {
  const std::vector<std::int64_t> shares{10, 0, 980, 10};
  for (const std::int64_t count : {0, 1, 2, 3, 4, 32, 1000}) {
    std::int64_t end = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const RowRange rows = shard_rows(count, rank, shares);
      EXPECT_EQ(rows.begin, end);
      EXPECT_TRUE(count < 3 || (rows.size() > 0) == (rank != 1)) << count << ", rank " << rank;
      end = rows.end;
    }
    EXPECT_EQ(end, count);
  }
  EXPECT_EQ(shard_rows(1000, 2, shares).size(), 980);
}

TEST(DataLoader, GivesTheSameBatchesForAnyNumberOfWorkers) {
  const Numbers data(103);
  ThreadExecutor executor;
  std::vector<Epoch> first;
  for (const int workers : {0, 1, 2, 5}) {
    DataLoader loader(data, executor, {.batch_size = 10, .seed = 5, .worker_count = workers});
    const std::vector<Epoch> epochs{read_epoch(loader), read_epoch(loader), read_epoch(loader)};
    EXPECT_EQ(epochs[0].size(), 11U);
    EXPECT_EQ(epochs[0].back().size(), 3U);
    EXPECT_NE(epochs[0], epochs[1]);
    first = first.empty() ? epochs : first;
    EXPECT_EQ(epochs, first) << workers << " workers";
  }
  for (const Epoch& epoch : first) {
    std::vector<std::int64_t> all = joined(epoch);
    std::ranges::sort(all);
    EXPECT_EQ(all, plain_order(103));
  }
}

TEST(DataLoader, GivesTheSameBatchesInEverySchedule) {
  const Numbers data(23);
  Epoch expected;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ManualExecutor executor(seed);
    Epoch got;
    executor.run([&] {
      DataLoader loader(data, executor, {.batch_size = 4, .worker_count = 3, .prefetch = 1});
      got = read_epoch(loader);
    });
    expected = expected.empty() ? got : expected;
    EXPECT_EQ(got, expected) << "seed " << seed;
  }
  EXPECT_EQ(expected.size(), 6U);
}

TEST(DataLoader, KeepsTheOrderWhenItIsNotToShuffle) {
  const Numbers data(5);
  ThreadExecutor executor;
  DataLoader loader(data, executor, {.batch_size = 2, .shuffle = false});
  EXPECT_THAT(read_epoch(loader),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
}

TEST(DataLoader, DropsTheLastBatchOnlyWhenItIsSmaller) {
  ThreadExecutor executor;
  const Numbers uneven(11);
  const Numbers even(12);
  const LoaderOptions options{.batch_size = 4, .drop_last = true};
  EXPECT_EQ(DataLoader(uneven, executor, options).batch_count(), 2);
  EXPECT_EQ(DataLoader(even, executor, options).batch_count(), 3);
  const Numbers few(3);
  EXPECT_THROW(DataLoader(few, executor, options), ArgumentError);
  static_assert(!std::is_constructible_v<DataLoader, Numbers, ThreadExecutor&, LoaderOptions>,
                "a temporary would not outlive the loader");
}

TEST(DataLoader, ShardsOfAllRanksAreTheGlobalBatch) {
  const Numbers data(21);
  ThreadExecutor executor;
  const LoaderOptions options{.batch_size = 8, .seed = 3};
  DataLoader whole(data, executor, options);
  const Epoch expected = read_epoch(whole);
  Epoch together(expected.size());
  for (int rank = 0; rank < 6; ++rank) {
    DataLoader part(data, executor, options.shard(rank, 6));
    std::size_t index = 0;
    while (const std::optional<HostBatch> batch = part.next()) {
      EXPECT_EQ(batch->global_size, static_cast<std::int64_t>(expected[index].size()));
      const std::vector<std::int64_t> rows = numbers_of(*batch);
      EXPECT_EQ(batch->size, static_cast<std::int64_t>(rows.size()));
      together[index].insert(together[index].end(), rows.begin(), rows.end());
      ++index;
    }
    EXPECT_EQ(index, expected.size());
  }
  EXPECT_EQ(together, expected);
}

TEST(DataLoader, GoesOnFromACursor) {
  const Numbers data(30);
  ThreadExecutor executor;
  const LoaderOptions options{.batch_size = 4, .seed = 9, .worker_count = 3};
  DataLoader loader(data, executor, options);
  static_cast<void>(read_epoch(loader));
  static_cast<void>(loader.next());
  static_cast<void>(loader.next());
  const LoaderCursor cursor = loader.cursor();
  EXPECT_EQ(cursor, (LoaderCursor{.epoch = 1, .batch = 2}));
  const Epoch rest = read_epoch(loader);
  const Epoch after = read_epoch(loader);

  DataLoader resumed(data, executor, options);
  resumed.seek(cursor);
  EXPECT_EQ(read_epoch(resumed), rest);
  EXPECT_EQ(read_epoch(resumed), after);
  resumed.seek(cursor);
  EXPECT_EQ(read_epoch(resumed), rest);
  resumed.seek({.epoch = 1, .batch = resumed.batch_count()});
  EXPECT_TRUE(read_epoch(resumed).empty());
  EXPECT_EQ(read_epoch(resumed), after);
  EXPECT_THROW(resumed.seek({.epoch = 0, .batch = 99}), ArgumentError);
}

TEST(DataLoader, RefusesAnEmptyDataSet) {
  ThreadExecutor executor;
  const Numbers data(0);
  try {
    const DataLoader loader(data, executor, {}, SourceLoc{"program.cpp", 7});
    FAIL() << "nothing was loaded";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("the data set is empty"), HasSubstr("program.cpp:7")));
  }
}

TEST(DataLoader, OneThatOutlivesItsRuntimeSaysSo) {
  const Numbers data(20);
  for (const int workers : {0, 2}) {
    std::optional<Runtime> runtime(std::in_place);
    DataLoader fresh(data, runtime->executor(), {.batch_size = 4, .worker_count = workers});
    DataLoader begun(data, runtime->executor(), {.batch_size = 4, .worker_count = workers});
    ShardedLoader sharded(data, runtime->executor(), {.batch_size = 4, .worker_count = workers}, 2);
    ASSERT_TRUE(begun.next());
    runtime.reset();
    EXPECT_TRUE(begun.next()) << "its workers have begun, or it needs none";
    begun.seek({});
    if (workers == 0) {
      EXPECT_EQ(fresh.next()->size, 4);
      continue;
    }
    const auto expect_refused = [](auto& loader, std::uint32_t line) {
      try {
        static_cast<void>(loader.next(SourceLoc{"program.cpp", line}));
        ADD_FAILURE() << "a dead executor was asked for a thread";
      } catch (const ArgumentError& error) {
        EXPECT_THAT(error.what(), HasSubstr("a loader must not outlive it"));
        EXPECT_EQ(error.error().location.line, line);
      }
    };
    expect_refused(fresh, 7);
    expect_refused(begun, 8);
    expect_refused(sharded, 9);
  }
}

TEST(DataLoader, WhatADataSetThrowsReachesTheReaderAtItsBatch) {
  ThreadExecutor executor;
  const Numbers data(20, 9);
  for (const int workers : {0, 3}) {
    DataLoader loader(data, executor, {.batch_size = 4, .shuffle = false, .worker_count = workers});
    static_cast<void>(loader.next());
    static_cast<void>(loader.next());
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        static_cast<void>(loader.next());
        FAIL() << "a broken example was read";
      } catch (const Exception& error) {
        EXPECT_EQ(error.code(), ErrorCode::worker_failed);
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr("batch 2 of epoch 0 of"),
                          HasSubstr("Numbers could not be read"),
                          HasSubstr("Numbers::read() threw: example is broken"),
                          Not(HasSubstr("continuation"))));
      }
    }
    loader.seek({.epoch = 0, .batch = 3});
    EXPECT_THAT(numbers_of(*loader.next()), ElementsAre(12, 13, 14, 15));
  }
}

// Returns arrays of these sizes for every request.
class WrongSizes final : public Dataset {
 public:
  WrongSizes(Shape inputs, Shape targets) : inputs_(inputs), targets_(targets) {}
  [[nodiscard]] std::int64_t size() const override { return 20; }
  [[nodiscard]] Examples read(std::span<const std::int64_t> /*indices*/) const override {
    return {HostArray(DType::f32, inputs_), HostArray(DType::i64, targets_)};
  }

 private:
  Shape inputs_;
  Shape targets_;
};

// Has no targets, and a name.
class Unlabelled final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 20; }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override {
    return {.inputs = HostArray(DType::f32, {static_cast<std::int64_t>(indices.size()), 2}),
            .targets = {}};
  }
  [[nodiscard]] std::string name() const override { return "the crawl of May"; }
};

std::string refusal_of(const Dataset& data, std::int64_t batch_size) {
  ThreadExecutor executor;
  for (const int workers : {0, 2}) {
    DataLoader loader(data, executor, {.batch_size = batch_size, .worker_count = workers});
    try {
      static_cast<void>(loader.next());
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::shape_mismatch);
      if (workers > 0) {
        return error.what();
      }
      continue;
    }
    ADD_FAILURE() << "taken with " << workers << " workers";
  }
  return {};
}

TEST(DataLoader, RefusesABatchOfOtherSizesThanItAskedFor) {
  EXPECT_THAT(refusal_of(WrongSizes({3, 2}, {4}), 4),
              AllOf(HasSubstr("batch 0 of epoch 0 of"),
                    HasSubstr("WrongSizes::read() of 4 examples returned [3, 2] inputs")));
  EXPECT_THAT(refusal_of(WrongSizes({4, 2}, {5}), 4),
              HasSubstr("of 4 examples returned [5] targets"));
  EXPECT_THAT(refusal_of(WrongSizes({}, {1}), 1), HasSubstr("of 1 examples returned [] inputs"));
  EXPECT_THAT(refusal_of(Unlabelled(), 4),
              HasSubstr("the crawl of May::read() of 4 examples returned no targets"));
}

// Returns nothing until the test releases it.
class PatientNumbers final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return numbers_.size(); }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override {
    ++reads;
    static_cast<void>(released_.wait({.deadline = Deadline::never()}));
    return numbers_.read(indices);
  }

  Promise<void> release;
  mutable int reads = 0;

 private:
  Numbers numbers_{8};
  const Pending<void> released_ = release.pending();
};

TEST(DataLoader, AWorkerThatIsLateEndsTheWaitAtItsDeadlineAndIsNamed) {
  ManualExecutor executor;
  executor.run([&] {
    PatientNumbers data;
    DataLoader loader(data,
                      executor,
                      {.batch_size = 4,
                       .shuffle = false,
                       .worker_count = 2,
                       .deadline = std::chrono::milliseconds(1)});
    try {
      static_cast<void>(loader.next());
      FAIL() << "nothing was there to be read";
    } catch (const DeadlineExceeded& error) {
      EXPECT_THAT(error.what(), HasSubstr("did not return batch 0 of epoch 0 in time"));
      EXPECT_THAT(error.error().report(), HasSubstr("the reader: waits for loader-0"));
    }
    data.release.set_value();
    loader.seek({.epoch = 0, .batch = 0});  // waits longer than next() did: no worker is abandoned
    EXPECT_EQ(data.reads, 2);
    EXPECT_THAT(numbers_of(*loader.next()), ElementsAre(0, 1, 2, 3));
  });
}

TEST(DataLoader, AReadThatDoesNotReturnIsLeftBehindAtTheDeadlineAndTheLoaderIsGone) {
  ManualExecutor executor;
  executor.run([&] {
    PatientNumbers data;
    std::vector<std::string> lines;
    detail::Log log(
        {.output = [&](detail::LogLevel, std::string_view line) { lines.emplace_back(line); }});
    {
      DataLoader loader(data,
                        executor,
                        {.batch_size = 4,
                         .shuffle = false,
                         .worker_count = 2,
                         .deadline = std::chrono::milliseconds(1),
                         .shutdown_limit = std::chrono::seconds(3),
                         .log = &log});
      EXPECT_THROW(static_cast<void>(loader.next()), DeadlineExceeded);
      const detail::TimePoint begin = executor.clock().now();
      loader.seek({.epoch = 0, .batch = 0});
      EXPECT_EQ(executor.clock().now() - begin, std::chrono::seconds(3)) << "for both workers";
      EXPECT_THAT(lines,
                  ElementsAre("DataLoader: loader-0 does not end: is in Dataset::read() for batch "
                              "0 of epoch 0; its thread is abandoned",
                              "DataLoader: loader-1 does not end: is in Dataset::read() for batch "
                              "1 of epoch 0; its thread is abandoned"));
    }
    data.release.set_value();
    detail::current_context().parker().park(Deadline::in(std::chrono::seconds(1)));
    EXPECT_EQ(data.reads, 2) << "each of those left behind has ended after its read";
    DataLoader loader(data, executor, {.batch_size = 4, .shuffle = false});
    EXPECT_THAT(numbers_of(*loader.next()), ElementsAre(0, 1, 2, 3));
  });
}

TEST(DataLoader, PutsBatchesOnADevice) {
  TestRuntime test;
  const Numbers data(5);
  DataLoader loader(data, test.runtime.executor(), {.batch_size = 4, .shuffle = false});
  const std::optional<Batch> batch = loader.next(test.cpu);
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(batch->inputs.to_vector<std::int64_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(batch->targets.to_vector<std::int64_t>(), ElementsAre(0, -1, -2, -3));
  EXPECT_EQ(loader.next(test.cpu)->size, 1);
  EXPECT_FALSE(loader.next(test.cpu).has_value());
}

TEST(DataLoader, ABatchThatNoDeviceTookIsTheNextOneAgain) {
  const TestRuntime test;
  auto closed = std::make_unique<TestRuntime>();
  const Device gone = closed->cpu;
  closed.reset();
  const Numbers data(10);
  for (const int workers : {0, 2}) {
    DataLoader loader(data,
                      test.runtime.executor(),
                      {.batch_size = 4, .shuffle = false, .worker_count = workers});
    static_cast<void>(loader.next());
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_THROW(static_cast<void>(loader.next(gone)), DeviceError);
      ASSERT_EQ(loader.cursor(), (LoaderCursor{.epoch = 0, .batch = 1}));
    }
    EXPECT_THAT(loader.next(test.cpu)->inputs.to_vector<std::int64_t>(), ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(numbers_of(*loader.next()), ElementsAre(8, 9));
  }
}

TEST(ImageDataset, ScalesPixels) {
  const LabelledImages images{.count = 2,
                              .height = 1,
                              .width = 2,
                              .class_count = 4,
                              .pixels = {0, 255, 51, 0},
                              .labels = {3, 1}};
  const std::vector<std::int64_t> indices{1, 0};
  const Examples plain = ImageDataset(images).read(indices);
  EXPECT_EQ(plain.inputs.shape(), (Shape{2, 1, 1, 2}));
  EXPECT_THAT(plain.inputs.values<float>(), ElementsAre(0.2F, 0, 0, 1));
  EXPECT_THAT(plain.targets.values<std::int64_t>(), ElementsAre(1, 3));
  const Examples scaled = ImageDataset(images, {.mean = 0.5F, .deviation = 0.25F}).read(indices);
  EXPECT_FLOAT_EQ(scaled.inputs.values<float>()[3], 2);
  EXPECT_THROW(static_cast<void>(plain.targets.values<float>()), DtypeError);
}

TEST(ImageDataset, RefusesImagesThatContradictThemselves) {
  LabelledImages images = make_digits({.count = 2});
  images.labels[1] = 10;
  EXPECT_THROW(ImageDataset{images}, ArgumentError);
  images.labels.pop_back();
  EXPECT_THROW(ImageDataset{images}, ArgumentError);
}

}  // namespace
}  // namespace hearth
