#include <hearth/memory/device_pool.hpp>

#include "counting_pages.hpp"

#include <hearth/memory/host_page_provider.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace hearth {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Block must_acquire(MemoryStrategy& pool,
                   std::int64_t size_bytes,
                   PoolKind kind = PoolKind::temporary) {
  Block block;
  EXPECT_EQ(pool.acquire(size_bytes, kind, block), Acquire::ok);
  return block;
}

Acquire try_acquire(MemoryStrategy& pool, std::int64_t size_bytes) {
  Block block;
  return pool.acquire(size_bytes, PoolKind::temporary, block);
}

LastUse used(std::size_t stream, std::uint64_t value) {
  LastUse use;
  use.add(stream, value);
  return use;
}

bool is_balanced(const MemoryUsage& usage) {
  return usage.reserved_bytes == usage.live_bytes + usage.waiting_bytes + usage.free_bytes;
}

TEST(DevicePool, ReusesAReleasedBlockWithoutANewPage) {
  test::CountingPages pages;
  DevicePool pool(pages);
  const Block first = must_acquire(pool, 40 * kMiB);
  pool.release(first, {});
  for (int i = 0; i < 100; ++i) {
    const Block again = must_acquire(pool, 40 * kMiB);
    EXPECT_EQ(again.data, first.data);
    pool.release(again, {});
  }
  EXPECT_EQ(pages.allocate_count, 1);
  EXPECT_EQ(pages.free_count, 0);
}

TEST(DevicePool, HasEarlyPagesWhereTheyPay) {
  test::CountingPages pages;
  pages.early_bytes = 2 * kMiB;
  DevicePool pool(pages, {.budget_bytes = 512 * kMiB});
  EXPECT_EQ(pages.allocate_count, 4);
  EXPECT_EQ(pool.report().total.reserved_bytes, 8 * kMiB);
  static_cast<void>(must_acquire(pool, kMiB));
  static_cast<void>(must_acquire(pool, 64));
  static_cast<void>(must_acquire(pool, kMiB, PoolKind::exclusive));
  static_cast<void>(must_acquire(pool, kMiB, PoolKind::scratch));
  EXPECT_EQ(pages.allocate_count, 4);
  EXPECT_EQ(pool.trim(), 0);
}

TEST(DevicePool, HasNoEarlyPagesInASmallBudget) {
  test::CountingPages pages;
  pages.early_bytes = 2 * kMiB;
  DevicePool pool(pages, {.budget_bytes = 511 * kMiB});
  EXPECT_EQ(pages.allocate_count, 0);
}

TEST(DevicePool, GoesWithoutEarlyPagesThatItDoesNotGet) {
  test::CountingPages pages;
  pages.early_bytes = 2 * kMiB;
  pages.room_bytes = 3 * kMiB;
  DevicePool pool(pages, {.budget_bytes = 512 * kMiB});
  EXPECT_EQ(pool.report().total.reserved_bytes, 2 * kMiB);
}

TEST(DevicePool, GivesDistinctAddressesToBlocksOfNoBytes) {
  test::CountingPages pages;
  DevicePool pool(pages);
  const Block a = must_acquire(pool, 0);
  const Block b = must_acquire(pool, 0);
  EXPECT_NE(a.data, nullptr);
  EXPECT_NE(a.data, b.data);
  EXPECT_EQ(a.size_bytes, 0);
  pool.release(a, {});
  pool.release(b, {});
  EXPECT_EQ(pool.report().total.live_bytes, 0);
}

TEST(DevicePool, AlignsBlocksAsTheProviderAsks) {
  test::CountingPages pages;
  DevicePool pool(pages);
  for (int i = 0; i < 50; ++i) {
    const Block block = must_acquire(pool, 1 + std::int64_t{37} * i);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % 256, 0U);
  }
}

TEST(DevicePool, StartsSmallAndDoublesItsPages) {
  test::CountingPages pages;
  DevicePool pool(pages);
  static_cast<void>(must_acquire(pool, 100));
  EXPECT_EQ(pages.out_bytes, 2 * kMiB);
  for (int i = 0; i < 1000; ++i) {
    static_cast<void>(must_acquire(pool, kMiB / 2));
  }
  EXPECT_LE(pages.allocate_count, 20) << "half a MiB was large at first and small in the end";
  EXPECT_LT(pages.out_bytes, 600 * kMiB);
}

TEST(DevicePool, GivesHugeRequestsAPageOfTheirOwnSize) {
  test::CountingPages pages;
  DevicePool pool(pages);
  const Block block = must_acquire(pool, 1000 * kMiB);
  EXPECT_EQ(pages.out_bytes, 1000 * kMiB);
  pool.release(block, {});
}

TEST(DevicePool, KeepsWeightsOutOfThePagesOfActivations) {
  test::CountingPages pages;
  DevicePool pool(pages);
  std::vector<Block> activations;
  for (int i = 0; i < 16; ++i) {
    activations.push_back(must_acquire(pool, 4 * kMiB));
    static_cast<void>(must_acquire(pool, 100'000, PoolKind::exclusive));
    static_cast<void>(must_acquire(pool, 10'000));
  }
  for (const Block& block : activations) {
    pool.release(block, {});
  }
  const std::int64_t temporary_before = pool.report().temporary.reserved_bytes;
  EXPECT_GT(pool.trim(), 0);
  EXPECT_EQ(temporary_before - pool.report().temporary.reserved_bytes, 64 * kMiB);
}

TEST(DevicePool, SaysOverBudgetWhenWaitingCannotHelp) {
  test::CountingPages pages;
  DevicePool pool(pages, {.budget_bytes = 10 * kMiB});
  EXPECT_EQ(try_acquire(pool, 11 * kMiB), Acquire::over_budget);
  const Block block = must_acquire(pool, 8 * kMiB);
  EXPECT_EQ(try_acquire(pool, 4 * kMiB), Acquire::over_budget);
  EXPECT_LE(pages.out_bytes, 10 * kMiB);
  pool.release(block, {});
}

TEST(DevicePool, UsesTheLastBytesOfTheBudget) {
  test::CountingPages pages;
  DevicePool pool(pages, {.budget_bytes = 10 * kMiB});
  static_cast<void>(must_acquire(pool, 7 * kMiB));
  static_cast<void>(must_acquire(pool, 3 * kMiB));
  EXPECT_EQ(pool.report().total.reserved_bytes, 10 * kMiB);
}

TEST(DevicePool, NeverReservesOverTheBudgetWhenTheProviderRoundsUp) {
  HostPageProvider pages;
  DevicePool pool(pages, {.budget_bytes = 5 * kMiB});
  const Block block = must_acquire(pool, 4 * kMiB);
  EXPECT_EQ(try_acquire(pool, 3 * kMiB), Acquire::over_budget);
  EXPECT_EQ(pages.mapped_bytes(), 4 * kMiB);
  pool.release(block, {});
}

TEST(DevicePool, TrimsIdlePagesBeforeItSaysOverBudget) {
  test::CountingPages pages;
  DevicePool pool(pages, {.budget_bytes = 64 * kMiB});
  pool.release(must_acquire(pool, 40 * kMiB), {});
  const Block weights = must_acquire(pool, 50 * kMiB, PoolKind::exclusive);
  EXPECT_EQ(pages.free_count, 1);
  pool.release(weights, {});
}

TEST(DevicePool, SaysExhaustedWhenTheProviderRefuses) {
  test::CountingPages pages;
  pages.room_bytes = 4 * kMiB;
  DevicePool pool(pages);
  EXPECT_EQ(pool.report().refusal, "");
  EXPECT_EQ(try_acquire(pool, 8 * kMiB), Acquire::exhausted);
  EXPECT_EQ(pool.report().refusal, "counting pages: no room") << "as the provider said";
  EXPECT_EQ(try_acquire(pool, std::numeric_limits<std::int64_t>::max()), Acquire::exhausted);
  EXPECT_EQ(try_acquire(pool, 3 * kMiB), Acquire::ok);
}

TEST(DevicePool, SurvivesARefusedPageByAskingForASmallerOne) {
  HostPageProvider pages({.fail_allocation = 1});
  DevicePool pool(pages);
  pool.release(must_acquire(pool, 100), {});
  EXPECT_EQ(pool.report().page_acquire_count, 1U);
}

TEST(DevicePool, LeavesEverythingAsItWasWhenAnAcquireFails) {
  HostPageProvider pages({.fail_allocation = 2, .fail_count = 100});
  DevicePool pool(pages);
  const Block block = must_acquire(pool, kMiB);
  const MemoryReport before = pool.report();
  Block untouched;
  EXPECT_EQ(pool.acquire(4 * kMiB, PoolKind::temporary, untouched), Acquire::exhausted);
  EXPECT_EQ(untouched.data, nullptr);
  EXPECT_EQ(pool.report().total.live_bytes, before.total.live_bytes);
  EXPECT_EQ(pool.report().total.acquire_count, before.total.acquire_count);
  EXPECT_EQ(pool.report().total.reserved_bytes, before.total.reserved_bytes);
  pool.release(block, {});
}

TEST(DevicePool, ReusesBytesAtOnceBehindTheirLastUseOnTheHomeStream) {
  test::CountingPages pages;
  DevicePool pool(pages);
  const Block first = must_acquire(pool, 40 * kMiB);
  pool.release(first, used(0, 17));
  const Block second = must_acquire(pool, 40 * kMiB);
  EXPECT_EQ(second.data, first.data);
  EXPECT_EQ(second.ready_after, 17U);
}

TEST(DevicePool, KeepsBytesBackUntilEveryOtherStreamIsDoneWithThem) {
  test::CountingPages pages;
  DevicePool pool(pages, {.budget_bytes = 64 * kMiB});
  const Block block = must_acquire(pool, 60 * kMiB);
  LastUse use = used(1, 5);
  use.add(3, 9);
  pool.release(block, use);
  EXPECT_EQ(pool.report().total.live_bytes, 0);
  EXPECT_EQ(pool.report().total.waiting_bytes, 60 * kMiB);
  EXPECT_EQ(try_acquire(pool, 60 * kMiB), Acquire::needs_wait);
  pool.retire(3, 9);
  EXPECT_EQ(try_acquire(pool, 60 * kMiB), Acquire::needs_wait);
  pool.retire(1, 4);
  EXPECT_EQ(try_acquire(pool, 60 * kMiB), Acquire::needs_wait);
  pool.retire(1, 5);
  EXPECT_EQ(pool.report().total.waiting_bytes, 0);
  EXPECT_EQ(must_acquire(pool, 60 * kMiB).data, block.data);
}

TEST(DevicePool, DoesNotWaitForValuesThatWereRetiredBefore) {
  test::CountingPages pages;
  DevicePool pool(pages);
  pool.retire(2, 100);
  pool.release(must_acquire(pool, kMiB), used(2, 100));
  EXPECT_EQ(pool.report().total.waiting_bytes, 0);
}

TEST(DevicePool, TrimsNoPageThatTheHomeStreamMayStillUse) {
  test::CountingPages pages;
  DevicePool pool(pages, {.budget_bytes = 64 * kMiB});
  pool.release(must_acquire(pool, 40 * kMiB), used(0, 3));
  EXPECT_EQ(pool.trim(), 0);
  EXPECT_EQ(try_acquire(pool, 60 * kMiB), Acquire::needs_wait);
  pool.retire(0, 2);
  EXPECT_EQ(pool.trim(), 0) << "the last op may still run";
  pool.retire(0, 3);
  EXPECT_EQ(try_acquire(pool, 60 * kMiB), Acquire::ok);
}

TEST(DevicePool, CountsPeaksAndStartsThemAgain) {
  test::CountingPages pages;
  DevicePool pool(pages);
  const Block a = must_acquire(pool, 10 * kMiB);
  const Block b = must_acquire(pool, 20 * kMiB, PoolKind::exclusive);
  pool.release(a, {});
  EXPECT_EQ(pool.report().total.peak_live_bytes, 30 * kMiB);
  EXPECT_EQ(pool.report().temporary.peak_live_bytes, 10 * kMiB);
  EXPECT_EQ(pool.report().exclusive.live_count, 1);
  pool.reset_peak();
  EXPECT_EQ(pool.report().total.peak_live_bytes, 20 * kMiB);
  EXPECT_EQ(pool.report().temporary.peak_live_bytes, 0);
  pool.release(b, {});
  pool.trim();
  EXPECT_EQ(pool.report().total.peak_reserved_bytes, 30 * kMiB);
  EXPECT_EQ(pool.report().total.reserved_bytes, 0);
  pool.reset_peak();
  EXPECT_EQ(pool.report().total.peak_reserved_bytes, 0);
  EXPECT_EQ(pool.report().exclusive.peak_reserved_bytes, 0);
  EXPECT_EQ(pool.report().total.page_count, 0);
}

TEST(DevicePool, CountsInPlaceHits) {
  test::CountingPages pages;
  DevicePool pool(pages);
  pool.count_in_place(100);
  pool.count_in_place(28);
  EXPECT_EQ(pool.report().in_place_count, 2U);
  EXPECT_EQ(pool.report().in_place_bytes, 128);
  EXPECT_EQ(pool.report().total.acquire_count, 0U);
}

TEST(DevicePool, ReturnsAllPagesAtItsEnd) {
  test::CountingPages pages;
  {
    DevicePool pool(pages);
    static_cast<void>(must_acquire(pool, 100));
    static_cast<void>(must_acquire(pool, 100 * kMiB, PoolKind::exclusive));
  }
  EXPECT_EQ(pages.out_bytes, 0);
}

// One step of a 12-layer network: the forward sweep allocates activations, and the backward sweep
// releases them in reverse, with gradients of odd sizes between them.
void run_training_step(DevicePool& pool, std::int64_t batch) {
  std::vector<Block> saved;
  for (std::int64_t layer = 0; layer < 12; ++layer) {
    saved.push_back(must_acquire(pool, batch * 128 * 768 * 4 / (1 + layer % 4)));
    const Block scratch = must_acquire(pool, batch * 12 * 4096);
    saved.push_back(must_acquire(pool, batch * 512));
    pool.release(scratch, {});
  }
  Block gradient = must_acquire(pool, batch * 128 * 768 * 4);
  while (!saved.empty()) {
    const Block next = must_acquire(pool, saved.back().size_bytes);
    pool.release(gradient, {});
    pool.release(saved.back(), {});
    gradient = next;
    saved.pop_back();
  }
  pool.release(gradient, {});
}

// Every fourth step has a shorter batch, like the last one of an epoch.
MemoryReport run_training(DevicePool& pool, int steps) {
  for (int step = 0; step < steps; ++step) {
    run_training_step(pool, step % 4 == 3 ? 37 : 64);
  }
  return pool.report();
}

class TrainingTrace : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    pages.grows = GetParam();
    for (std::int64_t layer = 0; layer < 12; ++layer) {
      static_cast<void>(
          must_acquire(pool, (1 + layer % 3) * 2'359'296 + 3072, PoolKind::exclusive));
      static_cast<void>(must_acquire(pool, 3072, PoolKind::exclusive));
    }
  }

  test::CountingPages pages;
  DevicePool pool{pages};
};

INSTANTIATE_TEST_SUITE_P(Pages, TrainingTrace, ::testing::Values(false, true), [](const auto& it) {
  return it.param ? "Grow" : "KeepTheirSize";
});

TEST_P(TrainingTrace, StopsGrowingAfterTheFirstStepOfEachLength) {
  const MemoryReport warm = run_training(pool, 4);
  const MemoryReport later = run_training(pool, 36);
  EXPECT_EQ(later.total.reserved_bytes, warm.total.reserved_bytes);
  EXPECT_EQ(later.page_acquire_count, warm.page_acquire_count);
}

TEST_P(TrainingTrace, ReservesLittleMoreThanItsPeak) {
  const MemoryReport report = run_training(pool, 40);
  const double allowed_bytes =
      (GetParam() ? 1.1 : 1.2) * static_cast<double>(report.temporary.peak_live_bytes) +
      (GetParam() ? 0.0 : 64.0 * kMiB);
  EXPECT_LE(static_cast<double>(report.temporary.peak_reserved_bytes), allowed_bytes);
}

TEST_P(TrainingTrace, LeavesOnlyWholePagesFreeAtRest) {
  const MemoryReport report = run_training(pool, 40);
  EXPECT_EQ(report.temporary.live_bytes, 0);
  EXPECT_GE(pool.trim(), report.temporary.reserved_bytes);  // the weights' pages may be free too
  EXPECT_EQ(pool.report().temporary.reserved_bytes, 0);
  EXPECT_TRUE(is_balanced(pool.report().total));
  EXPECT_TRUE(is_balanced(pool.report().exclusive));
}

}  // namespace
}  // namespace hearth
