// Random programs on a DevicePool beside a plain model that keeps every byte range in a map.
#include <hearth/memory/device_pool.hpp>

#include "counting_pages.hpp"

#include <hearth/memory/host_page_provider.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace hearth {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGranule = 256;

std::int64_t granules(std::int64_t size_bytes) {
  return size_bytes == 0 ? kGranule : (size_bytes + kGranule - 1) / kGranule * kGranule;
}

struct Range {
  std::int64_t size_bytes = 0;
  PoolKind kind = PoolKind::temporary;
  bool is_released = false;
  LastUse last_use;
};

enum class PageStyle { fixed, growing, growing_with_gaps };

class Model {
 public:
  Model(std::uint64_t seed, PageStyle style)
      : budget_bytes_(style == PageStyle::growing_with_gaps ? 32 * kMiB : 64 * kMiB),
        random_(seed) {
    pages_.grows = style != PageStyle::fixed;
    pages_.has_gaps = style == PageStyle::growing_with_gaps;
  }

  void step() {
    const std::uint64_t dice = next(100);
    if (dice < 55) {
      acquire();
    } else if (dice < 90) {
      release();
    } else if (dice < 98) {
      retire();
    } else if (dice < 99) {
      pool_.trim();
    } else {
      pool_.reset_peak();
      peak_live_bytes_ = live_bytes_;
    }
    check();
  }

  void finish() {
    while (!live_.empty()) {
      release();
    }
    for (std::size_t stream = 0; stream < kMaxPhysicalStreams; ++stream) {
      completed_[stream] = submitted_[stream];
      pool_.retire(stream, completed_[stream]);
    }
    forget_ready();
    check();
    pool_.trim();
    EXPECT_EQ(pool_.report().total.reserved_bytes, 0);
    EXPECT_EQ(pages_.out_bytes, 0);
  }

  [[nodiscard]] int refused_count() const { return refused_count_; }

 private:
  std::uint64_t next(std::uint64_t limit) { return random_() % limit; }

  std::int64_t random_size() {
    const std::uint64_t dice = next(64);
    if (dice == 0) {
      return static_cast<std::int64_t>(next(24 * kMiB));
    }
    if (dice < 8) {
      return static_cast<std::int64_t>(next(2 * kMiB));
    }
    return dice < 16 ? 0 : static_cast<std::int64_t>(next(40'000));
  }

  void acquire() {
    const std::int64_t size_bytes = random_size();
    const PoolKind kind = next(4) == 0 ? PoolKind::exclusive : PoolKind::temporary;
    Block block;
    const Acquire answer = pool_.acquire(size_bytes, kind, block);
    if (answer != Acquire::ok) {
      expect_refusal_is_honest(answer);
      ++refused_count_;
      return;
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(block.data);
    const auto end = begin + static_cast<std::uintptr_t>(granules(size_bytes));
    EXPECT_EQ(begin % kGranule, 0U);
    expect_no_overlap(begin, end);
    expect_ready_after_covers(begin, end, block.ready_after);
    ranges_[begin] = {.size_bytes = granules(size_bytes), .kind = kind, .last_use = {}};
    live_.push_back(block);
    live_bytes_ += granules(size_bytes);
    peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
    ++acquire_count_;
  }

  void expect_refusal_is_honest(Acquire answer) {
    const bool may_help = waiting_bytes() > 0 || !home_uses_.empty();
    EXPECT_TRUE(answer != Acquire::needs_wait || may_help) << "there is nothing to wait for";
    EXPECT_TRUE(answer == Acquire::needs_wait || waiting_bytes() == 0) << "waiting would help";
  }

  void expect_no_overlap(std::uintptr_t begin, std::uintptr_t end) {
    const auto after = ranges_.lower_bound(begin);
    if (after != ranges_.end()) {
      EXPECT_LE(end, after->first) << "overlaps the next block";
    }
    if (after != ranges_.begin()) {
      const auto before = std::prev(after);
      EXPECT_LE(before->first + static_cast<std::uintptr_t>(before->second.size_bytes), begin)
          << "overlaps the block before";
    }
  }

  // ready_after must cover every home-stream use of these bytes named so far.
  void expect_ready_after_covers(std::uintptr_t begin,
                                 std::uintptr_t end,
                                 std::uint64_t ready_after) {
    for (const auto& [first, use] : home_uses_) {
      if (first < end && begin < use.first && use.second > completed_[0]) {
        EXPECT_GE(ready_after, use.second);
      }
    }
  }

  void release() {
    if (live_.empty()) {
      return;
    }
    const std::size_t at = next(live_.size());
    const Block block = live_[at];
    live_[at] = live_.back();
    live_.pop_back();
    LastUse use;
    for (std::size_t stream = 0; stream < kMaxPhysicalStreams; ++stream) {
      if (next(4) == 0) {
        use.add(stream, ++submitted_[stream]);
      }
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(block.data);
    Range& range = ranges_[begin];
    range.is_released = true;
    range.last_use = use;
    live_bytes_ -= range.size_bytes;
    if (use.values[0] > 0) {
      home_uses_.emplace(
          begin, std::pair{begin + static_cast<std::uintptr_t>(range.size_bytes), use.values[0]});
    }
    pool_.release(block, use);
    forget_ready();
  }

  void retire() {
    const std::size_t stream = next(kMaxPhysicalStreams);
    completed_[stream] += next(submitted_[stream] - completed_[stream] + 1);
    pool_.retire(stream, completed_[stream]);
    forget_ready();
  }

  void forget_ready() {
    std::erase_if(ranges_, [this](const auto& entry) {
      if (!entry.second.is_released) {
        return false;
      }
      for (std::size_t stream = 1; stream < kMaxPhysicalStreams; ++stream) {
        if (entry.second.last_use.values[stream] > completed_[stream]) {
          return false;
        }
      }
      return true;
    });
    std::erase_if(home_uses_,
                  [this](const auto& entry) { return entry.second.second <= completed_[0]; });
  }

  [[nodiscard]] std::int64_t waiting_bytes() const {
    std::int64_t sum_bytes = 0;
    for (const auto& [begin, range] : ranges_) {
      sum_bytes += range.is_released ? range.size_bytes : 0;
    }
    return sum_bytes;
  }

  void check() {
    const MemoryReport report = pool_.report();
    const MemoryUsage& total = report.total;
    const auto live_count = static_cast<std::int64_t>(live_.size());
    const std::int64_t free_bytes = pages_.out_bytes - live_bytes_ - waiting_bytes();
    EXPECT_EQ(numbers(total),
              (Numbers{live_bytes_,
                       live_count,
                       waiting_bytes(),
                       free_bytes,
                       pages_.out_bytes,
                       peak_live_bytes_}));
    EXPECT_EQ(total.acquire_count, acquire_count_);
    EXPECT_LE(total.reserved_bytes, budget_bytes_);
    EXPECT_LE(total.largest_free_bytes, total.free_bytes);
    EXPECT_EQ(total.largest_free_bytes == 0, total.free_bytes == 0);
    Numbers parts = numbers(report.temporary);
    const Numbers exclusive = numbers(report.exclusive);
    std::transform(parts.begin(), parts.end(), exclusive.begin(), parts.begin(), std::plus<>{});
    parts.back() = total.peak_live_bytes;  // the kinds' peaks need not coincide
    EXPECT_EQ(parts, numbers(total));
  }

  // live bytes, live count, waiting, free, reserved, peak live
  using Numbers = std::array<std::int64_t, 6>;
  static Numbers numbers(const MemoryUsage& usage) {
    return {usage.live_bytes,
            usage.live_count,
            usage.waiting_bytes,
            usage.free_bytes,
            usage.reserved_bytes,
            usage.peak_live_bytes};
  }

  const std::int64_t budget_bytes_;  // smaller where gaps make more fit
  std::mt19937_64 random_;
  test::CountingPages pages_;
  DevicePool pool_{pages_, {.budget_bytes = budget_bytes_, .page_bytes = 8 * kMiB}};
  std::map<std::uintptr_t, Range> ranges_;  // live, or released and waiting
  std::multimap<std::uintptr_t, std::pair<std::uintptr_t, std::uint64_t>> home_uses_;
  std::vector<Block> live_;
  std::array<std::uint64_t, kMaxPhysicalStreams> submitted_{};
  std::array<std::uint64_t, kMaxPhysicalStreams> completed_{};
  std::int64_t live_bytes_ = 0;
  std::int64_t peak_live_bytes_ = 0;
  std::uint64_t acquire_count_ = 0;
  int refused_count_ = 0;
};

class DevicePoolModel : public ::testing::TestWithParam<PageStyle> {};

TEST_P(DevicePoolModel, RandomProgramsNeverOverlapAndCountExactly) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed, GetParam());
    for (int i = 0; i < 2500 && !::testing::Test::HasFailure(); ++i) {
      model.step();
    }
    model.finish();
    EXPECT_GT(model.refused_count(), 0) << "the budget never bit: the programs are too tame";
  }
}

INSTANTIATE_TEST_SUITE_P(Pages,
                         DevicePoolModel,
                         ::testing::Values(PageStyle::fixed,
                                           PageStyle::growing,
                                           PageStyle::growing_with_gaps),
                         [](const auto& it) {
                           return it.param == PageStyle::fixed     ? "KeepTheirSize"
                                  : it.param == PageStyle::growing ? "Grow"
                                                                   : "GrowAndHaveGaps";
                         });

struct Marked {
  Block block;
  std::byte mark{};

  [[nodiscard]] bool is_intact() const {
    return std::all_of(
        block.data, block.data + block.size_bytes, [this](std::byte byte) { return byte == mark; });
  }
};

// Each block is filled with its own number, so a shared byte shows even if the bookkeeping is
// consistent.
TEST(DevicePoolBytes, RealBlocksKeepTheirBytes) {
  constexpr std::uint64_t seed = 20261121;
  HostPageProvider pages;
  DevicePool pool(pages);
  std::mt19937_64 random(seed);
  std::vector<Marked> live;
  const auto release_one = [&] {
    std::swap(live[random() % live.size()], live.back());
    EXPECT_TRUE(live.back().is_intact()) << "seed " << seed;
    pool.release(live.back().block, {});
    live.pop_back();
  };
  for (int i = 0; i < 4000; ++i) {
    Marked next{.block = {}, .mark = static_cast<std::byte>(i & 0xFF)};
    const auto size_bytes = static_cast<std::int64_t>(random() % 5000);
    ASSERT_EQ(pool.acquire(size_bytes, PoolKind::temporary, next.block), Acquire::ok);
    std::fill_n(next.block.data, size_bytes, next.mark);
    live.push_back(next);
    if (live.size() > 100 && random() % 3 != 0) {
      release_one();
    }
    if (i % 500 == 499) {
      while (live.size() > 20) {
        release_one();
      }
      pool.trim();
    }
  }
  while (!live.empty()) {
    release_one();
  }
  EXPECT_EQ(pool.report().total.live_bytes, 0);
}

}  // namespace
}  // namespace hearth
