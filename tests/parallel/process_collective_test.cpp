// ProcessCollective against InprocCollective: the same ranks, in several processes and in one.
#include <hearth/parallel/inproc_collective.hpp>
#include <hearth/parallel/process_collective.hpp>

#include "fake_network.hpp"
#include "loan_desk.hpp"

#include <hearth/runtime/base/philox.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using testing::as_processes;
using testing::FakeNetwork;
using testing::LoanDesk;
using testing::Outcome;

constexpr std::size_t kSizes[] = {0, 1, 5, 17, 4099};

// Sums of these depend on the order of the ranks.
Tensor values_of(const Device& device, std::size_t rank, std::size_t count, DType dtype) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto word = philox::block(rank, i)[0];
    values[i] = (static_cast<float>(word) / 0x1p31F - 1) * (word % 5 == 0 ? 1000 : 1);
  }
  return Tensor::from(device, values, {static_cast<std::int64_t>(count)}).to(dtype);
}

using Call = std::function<void(Collective&, std::vector<LentRegion>, Collective::Finished)>;
using Bytes = std::vector<std::vector<std::byte>>;

// The regions' bytes after the call, by rank.
Bytes results_of(Collective& engine,
                 std::size_t first,
                 std::size_t rank_count,
                 std::size_t count,
                 DType dtype,
                 const Call& call) {
  const LoanDesk desk(static_cast<int>(rank_count));
  std::vector<Tensor> tensors;
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    tensors.push_back(values_of(desk.device(static_cast<int>(rank)), first + rank, count, dtype));
  }
  std::vector<Tensor> results;
  Outcome outcome;
  call(engine, desk.borrow(std::move(tensors), results), outcome.finished());
  EXPECT_TRUE(outcome.wait().has_value());
  Bytes bytes;
  for (const Tensor& result : results) {
    bytes.push_back(result.read_bytes().get());
  }
  return bytes;
}

// Ranks in processes of these counts, against all of them in one process.
void expect_the_bits_of_one_process(const std::vector<std::size_t>& counts,
                                    std::size_t count,
                                    DType dtype,
                                    const Call& call) {
  const ProcessRanks ranks{.counts = counts, .process = 0};
  InprocCollective inproc;
  const Bytes expected = results_of(inproc, 0, ranks.world(), count, dtype, call);
  const int size = static_cast<int>(counts.size());
  FakeNetwork network(size);
  as_processes(network, size, [&](const ProcessGroup& group) {
    const ProcessRanks own{.counts = counts, .process = static_cast<std::size_t>(group.rank())};
    ProcessCollective engine(group, own, kDefaultWait);
    const Bytes found = results_of(engine, own.first(), own.count(), count, dtype, call);
    for (std::size_t rank = 0; rank < own.count(); ++rank) {
      EXPECT_TRUE(found[rank] == expected[own.first() + rank])
          << count << " of " << name(dtype) << ", rank " << own.first() + rank;
    }
  });
}

void expect_for_all_worlds(const Call& call) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const std::size_t count : kSizes) {
      expect_the_bits_of_one_process({1, 1}, count, dtype, call);
      expect_the_bits_of_one_process({2, 1, 3}, count, dtype, call);
    }
  }
}

TEST(ProcessCollective, AllReduceHasTheBitsOfOneProcess) {
  expect_for_all_worlds([](Collective& engine, auto regions, auto finished) {
    engine.all_reduce(std::move(regions), ReduceOp::sum, std::move(finished));
  });
}

TEST(ProcessCollective, AllReduceOfSeveralPiecesHasTheBitsOfOneProcess) {
  expect_the_bits_of_one_process(
      {1, 1}, 4'300'001, DType::f32, [](Collective& engine, auto regions, auto finished) {
        engine.all_reduce(std::move(regions), ReduceOp::sum, std::move(finished));
      });
}

TEST(ProcessCollective, ReduceScatterHasTheBitsOfOneProcess) {
  expect_for_all_worlds([](Collective& engine, auto regions, auto finished) {
    engine.reduce_scatter(std::move(regions), ReduceOp::sum, std::move(finished));
  });
}

TEST(ProcessCollective, AllGatherHasTheBytesOfOneProcess) {
  expect_for_all_worlds([](Collective& engine, auto regions, auto finished) {
    engine.all_gather(std::move(regions), std::move(finished));
  });
}

TEST(ProcessCollective, BroadcastHasTheBytesOfOneProcess) {
  for (const int root : {0, 1}) {
    expect_for_all_worlds([root](Collective& engine, auto regions, auto finished) {
      engine.broadcast(std::move(regions), root, std::move(finished));
    });
  }
}

TEST(ProcessCollective, AProcessOfAFailedStepAddsZeros) {
  FakeNetwork network(2);
  as_processes(network, 2, [](const ProcessGroup& group) {
    ProcessCollective engine(
        group, {.counts = {1, 2}, .process = static_cast<std::size_t>(group.rank())}, kDefaultWait);
    if (group.is_first()) {
      const auto call = [](Collective& each, auto regions, auto finished) {
        each.all_reduce(std::move(regions), ReduceOp::sum, std::move(finished));
      };
      const LoanDesk desk(1);
      const Tensor own = values_of(desk.device(0), 0, 17, DType::f32);
      EXPECT_TRUE(results_of(engine, 0, 1, 17, DType::f32, call).front() == own.read_bytes().get());
    } else {
      Outcome outcome;
      engine.all_reduce_zeros(17 * sizeof(float), DType::f32, outcome.finished());
      EXPECT_TRUE(outcome.wait().has_value());
    }
  });
}

TEST(ProcessCollective, RejectsOtherCountsOfRegionsAndRootsOutOfTheWorld) {
  FakeNetwork network(2);
  as_processes(network, 2, [](const ProcessGroup& group) {
    ProcessCollective engine(
        group, {.counts = {1, 1}, .process = static_cast<std::size_t>(group.rank())}, kDefaultWait);
    const LoanDesk desk(2);
    std::vector<Tensor> results;
    Outcome two;
    engine.all_reduce(desk.borrow({values_of(desk.device(0), 0, 3, DType::f32),
                                   values_of(desk.device(1), 1, 3, DType::f32)},
                                  results),
                      ReduceOp::sum,
                      two.finished());
    EXPECT_EQ(two.wait().error().text, "collective: 2 regions for 1 ranks of this process");
    Outcome far;
    engine.broadcast(
        desk.borrow({values_of(desk.device(0), 0, 3, DType::f32)}, results), 2, far.finished());
    EXPECT_EQ(far.wait().error().text, "collective: root 2 of a world of 2");
  });
}

}  // namespace
}  // namespace hearth
