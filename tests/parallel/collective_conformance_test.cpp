// Requirements on every engine: op × type × size × world. An engine adds its line at the end.
#include <hearth/parallel/inproc_collective.hpp>

#include "loan_desk.hpp"

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/philox.hpp>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using testing::LoanDesk;
using testing::Outcome;

constexpr int kMostRanks = 8;
// Empty, tails, one block, several chunks with a tail.
constexpr std::size_t kSizes[] = {0, 1, 17, 1024, 40'013};

struct Engine {
  std::string name;
  std::unique_ptr<Collective> (*make)();
};

// Values whose sums are exact in 32 and 64 bits, and rounded in 16.
template <class T>
std::vector<T> values_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto word = philox::block(static_cast<std::uint64_t>(rank), i)[0];
    const auto value = static_cast<std::int32_t>(word % 2001) - 1000;
    if constexpr (std::is_integral_v<T>) {
      values[i] = static_cast<T>(value);
    } else {
      values[i] = static_cast<T>(static_cast<float>(value) / 8);
    }
  }
  return values;
}

template <class T>
std::vector<T> sum_of(int world, std::size_t count) {
  using Wide = std::conditional_t<std::is_same_v<T, f16> || std::is_same_v<T, bf16>, float, T>;
  std::vector<Wide> sums(count);
  for (int rank = 0; rank < world; ++rank) {
    const std::vector<T> values = values_of<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] += static_cast<Wide>(values[i]);
    }
  }
  std::vector<T> rounded;
  for (const Wide sum : sums) {
    rounded.push_back(static_cast<T>(sum));
  }
  return rounded;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span<const T>(values));
  return {bytes.begin(), bytes.end()};
}

class CollectiveConformance : public ::testing::TestWithParam<Engine> {
 protected:
  template <class T>
  std::vector<Tensor> tensors(int world, std::size_t count) {
    std::vector<Tensor> all;
    for (int rank = 0; rank < world; ++rank) {
      all.push_back(Tensor::from(
          desk_.device(rank), values_of<T>(rank, count), {static_cast<std::int64_t>(count)}));
    }
    return all;
  }
  template <class T>
  void expect_sums(int world, std::size_t count) {
    std::vector<Tensor> results;
    Outcome outcome;
    engine_->all_reduce(
        desk_.borrow(tensors<T>(world, count), results), ReduceOp::sum, outcome.finished());
    ASSERT_TRUE(outcome.wait().has_value());
    const std::vector<std::byte> expected = bytes_of(sum_of<T>(world, count));
    for (int rank = 0; rank < world; ++rank) {
      EXPECT_TRUE(results[static_cast<std::size_t>(rank)].read_bytes().get() == expected)
          << count << " of " << name(dtype_of<T>) << ", rank " << rank << " of " << world;
    }
  }
  template <class T>
  void expect_copies(int world, int root, std::size_t count) {
    std::vector<Tensor> results;
    Outcome outcome;
    engine_->broadcast(desk_.borrow(tensors<T>(world, count), results), root, outcome.finished());
    ASSERT_TRUE(outcome.wait().has_value());
    const std::vector<std::byte> expected = bytes_of(values_of<T>(root, count));
    for (const Tensor& result : results) {
      EXPECT_TRUE(result.read_bytes().get() == expected)
          << count << " of " << name(dtype_of<T>) << ", root " << root << " of " << world;
    }
  }
  /// Chunk r of region r has the sums, the rest its old values.
  template <class T>
  void expect_scattered_sums(int world, std::size_t count) {
    std::vector<Tensor> results;
    Outcome outcome;
    engine_->reduce_scatter(
        desk_.borrow(tensors<T>(world, count), results), ReduceOp::sum, outcome.finished());
    ASSERT_TRUE(outcome.wait().has_value());
    const std::vector<T> sums = sum_of<T>(world, count);
    for (int rank = 0; rank < world; ++rank) {
      std::vector<T> expected = values_of<T>(rank, count);
      const auto [begin, end] = chunk_of(count, ranks_of(world), ranks_of(rank));
      std::copy(sums.begin() + static_cast<std::ptrdiff_t>(begin),
                sums.begin() + static_cast<std::ptrdiff_t>(end),
                expected.begin() + static_cast<std::ptrdiff_t>(begin));
      EXPECT_TRUE(results[ranks_of(rank)].read_bytes().get() == bytes_of(expected))
          << count << " of " << name(dtype_of<T>) << ", rank " << rank << " of " << world;
    }
  }
  template <class T>
  void expect_gathered_chunks(int world, std::size_t count) {
    std::vector<Tensor> results;
    Outcome outcome;
    engine_->all_gather(desk_.borrow(tensors<T>(world, count), results), outcome.finished());
    ASSERT_TRUE(outcome.wait().has_value());
    std::vector<T> expected;
    for (int rank = 0; rank < world; ++rank) {
      const std::vector<T> values = values_of<T>(rank, count);
      const auto [begin, end] = chunk_of(count, ranks_of(world), ranks_of(rank));
      expected.insert(expected.end(),
                      values.begin() + static_cast<std::ptrdiff_t>(begin),
                      values.begin() + static_cast<std::ptrdiff_t>(end));
    }
    for (const Tensor& result : results) {
      EXPECT_TRUE(result.read_bytes().get() == bytes_of(expected))
          << count << " of " << name(dtype_of<T>) << " on " << world;
    }
  }
  static std::size_t ranks_of(int number) { return static_cast<std::size_t>(number); }
  template <class T>
  void expect_all() {
    for (int world = 1; world <= kMostRanks; ++world) {
      for (const std::size_t count : kSizes) {
        expect_sums<T>(world, count);
        expect_scattered_sums<T>(world, count);
        expect_gathered_chunks<T>(world, count);
        expect_copies<T>(world, world / 2, count);
      }
    }
  }

  LoanDesk desk_{kMostRanks};
  std::unique_ptr<Collective> engine_ = GetParam().make();
};

TEST_P(CollectiveConformance, CombinesF32) {
  expect_all<float>();
}
TEST_P(CollectiveConformance, CombinesF64) {
  expect_all<double>();
}
TEST_P(CollectiveConformance, CombinesF16) {
  expect_all<f16>();
}
TEST_P(CollectiveConformance, CombinesBf16) {
  expect_all<bf16>();
}
TEST_P(CollectiveConformance, CombinesI32) {
  expect_all<std::int32_t>();
}
TEST_P(CollectiveConformance, CombinesI64) {
  expect_all<std::int64_t>();
}

TEST_P(CollectiveConformance, RefusesToSumOtherTypes) {
  std::vector<Tensor> results;
  Outcome outcome;
  engine_->all_reduce(
      desk_.borrow(tensors<std::uint8_t>(2, 5), results), ReduceOp::sum, outcome.finished());
  EXPECT_EQ(outcome.wait().error().code, ErrorCode::unsupported);
  EXPECT_THROW((void)results[0].to_vector<std::uint8_t>(), DeviceError);
}

TEST_P(CollectiveConformance, BroadcastsAnyType) {
  for (const int root : {0, 1, 2}) {
    expect_copies<std::uint8_t>(3, root, 20'001);
  }
}

TEST_P(CollectiveConformance, RanksThatDisagreeGetTheErrorAll) {
  for (const bool is_size : {true, false}) {
    std::vector<Tensor> given = tensors<float>(3, 6);
    given[2] = is_size ? ones(desk_.device(2), {7}) : ones(desk_.device(2), {6}, DType::i32);
    std::vector<Tensor> results;
    Outcome outcome;
    engine_->all_reduce(desk_.borrow(std::move(given), results), ReduceOp::sum, outcome.finished());
    const Status status = outcome.wait();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(status.error().text, ::testing::HasSubstr("rank 2"));
    for (const Tensor& result : results) {
      EXPECT_THROW(static_cast<void>(result.read_bytes().get()), ArgumentError);
    }
  }
}

TEST_P(CollectiveConformance, RefusesARootOutsideOfTheWorld) {
  for (const int root : {-1, 2}) {
    std::vector<Tensor> results;
    Outcome outcome;
    engine_->broadcast(desk_.borrow(tensors<float>(2, 3), results), root, outcome.finished());
    EXPECT_EQ(outcome.wait().error().code, ErrorCode::out_of_range);
  }
}

TEST_P(CollectiveConformance, ScatteredSumsThatAreGatheredAreTheReducedOnes) {
  constexpr std::size_t kCount = 20'011;
  const auto inexact = [&] {
    std::vector<Tensor> given;
    for (int rank = 0; rank < 3; ++rank) {
      given.push_back(full(desk_.device(rank), {kCount}, 0.1 + rank * 1000.7));
    }
    return given;
  };
  std::vector<Tensor> reduced;
  engine_->all_reduce(desk_.borrow(inexact(), reduced), ReduceOp::sum, {});
  std::vector<Tensor> scattered;
  engine_->reduce_scatter(desk_.borrow(inexact(), scattered), ReduceOp::sum, {});
  std::vector<Tensor> gathered;
  engine_->all_gather(desk_.borrow(std::move(scattered), gathered), {});
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(gathered[rank].to_vector<float>(), reduced[rank].to_vector<float>());
  }
}

TEST_P(CollectiveConformance, WhatRanksDisagreeOnIsRefusedByAllKinds) {
  const auto expect_refusal = [&](const auto& call) {
    std::vector<Tensor> given = tensors<float>(3, 6);
    given[1] = ones(desk_.device(1), {7});
    std::vector<Tensor> results;
    Outcome outcome;
    call(desk_.borrow(std::move(given), results), outcome.finished());
    EXPECT_EQ(outcome.wait().error().code, ErrorCode::invalid_argument);
    for (const Tensor& result : results) {
      EXPECT_THROW(static_cast<void>(result.read_bytes().get()), ArgumentError);
    }
  };
  expect_refusal([&](std::vector<LentRegion> regions, Collective::Finished finished) {
    engine_->reduce_scatter(std::move(regions), ReduceOp::sum, std::move(finished));
  });
  expect_refusal([&](std::vector<LentRegion> regions, Collective::Finished finished) {
    engine_->all_gather(std::move(regions), std::move(finished));
  });
}

// One rank has ended its loan: all others get the error, and none waits for ever.
TEST_P(CollectiveConformance, ARankThatIsGoneEndsItForAll) {
  std::vector<Tensor> results;
  std::vector<LentRegion> regions = desk_.borrow(tensors<float>(3, 6), results);
  regions[1].done(Error{.code = ErrorCode::cancelled, .text = "it went home"});
  Outcome outcome;
  engine_->reduce_scatter(std::move(regions), ReduceOp::sum, outcome.finished());
  EXPECT_EQ(outcome.wait().error().code, ErrorCode::invalid_argument);
  EXPECT_THROW(static_cast<void>(results[0].read_bytes().get()), ArgumentError);
  EXPECT_EQ(results[1].read_bytes().wait().error().code, ErrorCode::cancelled);
  EXPECT_THROW(static_cast<void>(results[2].read_bytes().get()), ArgumentError);
}

// A tensor whose loan has expired stays poisoned, whatever the engine writes later.
TEST_P(CollectiveConformance, ALoanThatHasRunOutIsNotFilledLater) {
  ManualExecutor executor;
  executor.run([&] {
    const LoanDesk desk(2, &executor);
    const auto engine = GetParam().make();
    std::vector<Tensor> given;
    given.push_back(ones(desk.device(0), {5}));
    given.push_back(ones(desk.device(1), {5}));
    std::vector<Tensor> results;
    std::vector<LentRegion> regions =
        desk.borrow(std::move(given), results, Deadline::in(std::chrono::seconds(5)));
    detail::current_context().parker().park(Deadline::in(std::chrono::seconds(6)));
    Outcome outcome;
    engine->all_reduce(std::move(regions), ReduceOp::sum, outcome.finished());
    EXPECT_TRUE(outcome.wait().has_value());
    for (const Tensor& result : results) {
      EXPECT_EQ(result.read_bytes().wait().error().code, ErrorCode::deadline_exceeded);
    }
  });
}

// A device that stops drops its pending work: the others are notified at once.
TEST_P(CollectiveConformance, ADeviceThatStopsEndsItForAll) {
  ManualExecutor executor;
  executor.run([&] {
    const LoanDesk desk(1, &executor);
    LoanDesk other(1, &executor);
    const auto engine = GetParam().make();
    constexpr std::int64_t kCount = 40'013;  // so that both devices get work
    const auto lend_ones = [](const LoanDesk& at, std::vector<Tensor>& results) {
      std::vector<Tensor> given;
      given.push_back(ones(at.device(0), {kCount}));
      return std::move(at.borrow(std::move(given), results)[0]);
    };
    std::vector<Tensor> here;
    std::vector<Tensor> there;
    std::vector<LentRegion> regions;
    regions.push_back(lend_ones(desk, here));
    regions.push_back(lend_ones(other, there));
    other.end();
    Outcome outcome;
    engine->all_reduce(std::move(regions), ReduceOp::sum, outcome.finished());
    EXPECT_EQ(outcome.wait().error().code, ErrorCode::collective_failed);
    EXPECT_EQ(here[0].read_bytes().wait().error().code, ErrorCode::collective_failed);
  });
}

TEST_P(CollectiveConformance, RefusesNoRegionsAtAll) {
  Outcome outcome;
  engine_->all_reduce({}, ReduceOp::sum, outcome.finished());
  EXPECT_EQ(outcome.wait().error().code, ErrorCode::invalid_argument);
  Outcome scattered;
  engine_->reduce_scatter({}, ReduceOp::sum, scattered.finished());
  EXPECT_EQ(scattered.wait().error().code, ErrorCode::invalid_argument);
  Outcome gathered;
  engine_->all_gather({}, gathered.finished());
  EXPECT_EQ(gathered.wait().error().code, ErrorCode::invalid_argument);
}

TEST_P(CollectiveConformance, ATensorThatSomeoneHoldsKeepsItsValues) {
  std::vector<Tensor> given = tensors<float>(2, 100);
  const Tensor held = given[0];
  std::vector<Tensor> results;
  Outcome outcome;
  engine_->all_reduce(desk_.borrow(std::move(given), results), ReduceOp::sum, outcome.finished());
  ASSERT_TRUE(outcome.wait().has_value());
  EXPECT_EQ(held.to_vector<float>(), values_of<float>(0, 100));
  EXPECT_EQ(results[0].to_vector<float>(), sum_of<float>(2, 100));
}

// Values like 0.1f have inexact sums: another order would give other bits.
TEST_P(CollectiveConformance, AddsInRankOrder) {
  std::vector<Tensor> given;
  float expected = 0;
  for (int rank = 0; rank < kMostRanks; ++rank) {
    const float value = 0.1F + static_cast<float>(rank) * 1000.7F;
    expected = rank == 0 ? value : expected + value;
    given.push_back(full(desk_.device(rank), {33'333}, value));
  }
  std::vector<Tensor> results;
  Outcome outcome;
  engine_->all_reduce(desk_.borrow(std::move(given), results), ReduceOp::sum, outcome.finished());
  ASSERT_TRUE(outcome.wait().has_value());
  for (const Tensor& result : results) {
    EXPECT_THAT(result.to_vector<float>(), ::testing::Each(expected));
  }
}

TEST_P(CollectiveConformance, SeveralRunAtOnce) {
  constexpr int kRounds = 50;
  std::vector<std::vector<Tensor>> results(kRounds);
  for (std::vector<Tensor>& each : results) {
    engine_->all_reduce(desk_.borrow(tensors<float>(4, 9'000), each), ReduceOp::sum, {});
  }
  for (const std::vector<Tensor>& each : results) {
    EXPECT_TRUE(each[3].to_vector<float>() == sum_of<float>(4, 9'000));
  }
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         CollectiveConformance,
                         ::testing::Values(Engine{"inproc",
                                                  []() -> std::unique_ptr<Collective> {
                                                    return std::make_unique<InprocCollective>();
                                                  }}),
                         [](const auto& engine) { return engine.param.name; });

}  // namespace
}  // namespace hearth
