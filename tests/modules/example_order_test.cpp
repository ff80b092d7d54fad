#include <hearth/modules/array_dataset.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/example_order.hpp>
#include <hearth/modules/sharded_loader.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Indices = std::vector<std::int64_t>;

TEST(WeightedOrder, DrawsEachExampleAsOftenAsItsWeightWants) {
  const std::vector<double> weights{1, 0, 2, 5, 0};
  constexpr std::int64_t kCount = 20000;
  const ExampleOrder order = weighted_order(weights, {.count = kCount});
  EXPECT_EQ(order.size, 5);
  EXPECT_EQ(order.count, kCount);
  std::vector<double> share(weights.size());
  for (const std::int64_t i : order.indices(3, 1)) {
    share.at(static_cast<std::size_t>(i)) += 1.0 / kCount;
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    // Five deviations of a share of 20,000 draws.
    EXPECT_NEAR(share[i], weights[i] / 8, weights[i] == 0 ? 0 : 0.018);
  }
}

TEST(WeightedOrder, WithoutReplacementDrawsNoExampleTwiceAndHeavyOnesFirst) {
  const std::vector<double> weights{1, 0, 1000, 1, 1};
  const ExampleOrder order = weighted_order(weights, {.count = 4, .replacement = false});
  int first = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Indices drawn = order.indices(seed, 0);
    first += drawn.front() == 2 ? 1 : 0;
    std::ranges::sort(drawn);
    EXPECT_EQ(drawn, (Indices{0, 2, 3, 4}));
  }
  EXPECT_GE(first, 48);
}

TEST(WeightedOrder, DependsOnSeedAndEpochOnly) {
  const ExampleOrder order = weighted_order(std::vector<double>(40, 0.5));
  EXPECT_EQ(order.indices(1, 2), weighted_order(std::vector<double>(40, 0.5)).indices(1, 2));
  EXPECT_NE(order.indices(1, 2), order.indices(1, 3));
  EXPECT_NE(order.indices(1, 2), order.indices(2, 2));
}

Indices made_up_lengths(std::int64_t count) {
  Indices lengths;
  for (std::int64_t i = 0; i < count; ++i) {
    lengths.push_back((i * i * 7 + 3 * i) % 101);
  }
  return lengths;
}

TEST(BucketedOrder, ReadsEachExampleOnceInBatchesOfSimilarLength) {
  const Indices lengths = made_up_lengths(1003);
  const ExampleOrder order = bucketed_order(lengths, {.batch_size = 10, .pool = 20});
  const Indices indices = order.indices(5, 0);
  Indices sorted = indices;
  std::ranges::sort(sorted);
  Indices all(lengths.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
  const auto length = [&](std::size_t i) { return lengths[static_cast<std::size_t>(indices[i])]; };
  std::int64_t spread = 0;
  bool is_ascending = true;
  for (std::size_t batch = 0; batch < 100; ++batch) {
    std::int64_t least = length(10 * batch);
    std::int64_t most = least;
    for (std::size_t i = 1; i < 10; ++i) {
      least = std::min(least, length(10 * batch + i));
      most = std::max(most, length(10 * batch + i));
    }
    spread += most - least;
    is_ascending = is_ascending && (batch == 0 || length(10 * batch) >= length(10 * batch - 10));
  }
  EXPECT_LE(spread, 100 * 12) << "batches of ten have a spread of about 80 if shuffled";
  EXPECT_FALSE(is_ascending) << "batches come by chance";
  EXPECT_NE(indices, order.indices(5, 1));
  EXPECT_EQ(indices, order.indices(5, 0));
}

TEST(BucketedOrder, TakesBatchesLargerThanTheData) {
  const ExampleOrder order = bucketed_order({3, 1, 2}, {.batch_size = 8, .pool = INT64_MAX});
  EXPECT_THAT(order.indices(1, 0), ElementsAreArray(Indices{1, 2, 0}));
}

std::vector<std::int32_t> numbers(std::int64_t count) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
Indices examples_of(const HostBatch& batch) {
  const auto* const values =
      reinterpret_cast<const std::int32_t*>(batch.examples.inputs.bytes().data());
  return {values, values + batch.size};
}

TEST(DataLoader, ReadsAnOrderWithAnyNumberOfWorkersAndRanksAndFromAnyPosition) {
  const TestRuntime test;
  const ArrayDataset data(HostArray::from(numbers(23)), HostArray::from(numbers(23)));
  for (const ExampleOrder& order :
       {weighted_order(std::vector<double>(23, 2), {.count = 31}),
        bucketed_order(made_up_lengths(23), {.batch_size = 4, .pool = 2})}) {
    const LoaderOptions options{.batch_size = 4, .seed = 9, .order = order};
    for (const int workers : {0, 1, 3}) {
      LoaderOptions with = options;
      with.worker_count = workers;
      DataLoader loader(data, test.runtime.executor(), with);
      EXPECT_EQ(loader.batch_count(), (order.count + 3) / 4);
      for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
        Indices read;
        while (const auto batch = loader.next()) {
          const Indices part = examples_of(*batch);
          read.insert(read.end(), part.begin(), part.end());
        }
        EXPECT_EQ(read, order.indices(9, epoch)) << workers << " workers";
      }
      loader.seek({.epoch = 1, .batch = 3});
      const Indices wanted = order.indices(9, 1);
      EXPECT_EQ(examples_of(*loader.next()), (Indices{wanted.begin() + 12, wanted.begin() + 16}));
    }
    ShardedLoader shards(data, test.runtime.executor(), options, 3);
    Indices read;
    for (std::vector<HostBatch> parts = shards.next(); !parts.empty(); parts = shards.next()) {
      for (const HostBatch& part : parts) {
        const Indices own = examples_of(part);
        read.insert(read.end(), own.begin(), own.end());
      }
    }
    EXPECT_EQ(read, order.indices(9, 0)) << "three ranks";
  }
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.error().text;
  }
  return "nothing was refused";
}

TEST(WeightedOrder, RefusesWhatCannotBeDrawn) {
  const auto text = [](std::vector<double> weights, const WeightedOrderOptions& options = {}) {
    return refusal_of([&] { static_cast<void>(weighted_order(std::move(weights), options)); });
  };
  EXPECT_EQ(text({}), "weighted_order: there are no weights");
  EXPECT_EQ(text({1, -1}), "weighted_order: weight 1 is -1, but must be 0 or more and finite");
  EXPECT_EQ(text({std::nan("")}),
            "weighted_order: weight 0 is nan, but must be 0 or more and finite");
  EXPECT_EQ(text({0, 0}), "weighted_order: all weights are 0");
  EXPECT_EQ(text({1}, {.count = -1}), "weighted_order: count is -1, but must be 0 or more");
  EXPECT_EQ(text({1, 0, 1}, {.replacement = false}),
            "weighted_order: without replacement, 3 examples cannot be drawn from 2 with a weight "
            "above 0");
  EXPECT_EQ(refusal_of([] { static_cast<void>(bucketed_order({})); }),
            "bucketed_order: there are no lengths");
  EXPECT_EQ(refusal_of([] {
              static_cast<void>(bucketed_order({1, -2}));
            }),
            "bucketed_order: length 1 is -2, below 0");
  EXPECT_EQ(refusal_of([] { static_cast<void>(bucketed_order({1}, {.pool = 0})); }),
            "bucketed_order: batch_size is 32 and pool 0, but must be 1 or more");
}

TEST(DataLoader, RefusesAnOrderThatDoesNotFit) {
  const TestRuntime test;
  const ArrayDataset data(HostArray::from(numbers(6)), HostArray::from(numbers(6)));
  const auto text = [&](ExampleOrder order) {
    return refusal_of([&] {
      DataLoader loader(data,
                        test.runtime.executor(),
                        {.batch_size = 2, .order = std::move(order), .worker_count = 0});
      static_cast<void>(loader.next());
    });
  };
  EXPECT_EQ(text(weighted_order({1, 1})),
            "DataLoader: the order is one of 2 examples, the data set has 6");
  EXPECT_EQ(text(bucketed_order(Indices(6), {.batch_size = 3})),
            "DataLoader: the order is made for batches of 3, batch_size is 2");
  const auto own = [&](std::int64_t count, Indices indices) {
    return text({.size = 6, .count = count, .indices = [indices](auto, auto) { return indices; }});
  };
  EXPECT_EQ(own(0, {}), "DataLoader: the order has 0 examples, but must have 1 or more");
  EXPECT_THAT(own(3, {1, 2}),
              HasSubstr("the order returned 2 indices, but 3 from 0 to 5 are needed"));
  EXPECT_THAT(own(2, {1, 6}),
              HasSubstr("the order returned 2 indices, some out of range, but 2 from 0 to 5"));
  EXPECT_EQ(own(2, {5, 5}), "nothing was refused");
}

}  // namespace
}  // namespace hearth
