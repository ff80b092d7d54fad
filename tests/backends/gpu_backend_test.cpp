// The backend of GPUs over a device in host memory: launches, copies, their order, losses, the end.
// Every kind of GPU device shares this code.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/gpu/gpu_backend.hpp"
#include "host_gpu.hpp"
#include "small_call.hpp"
#include "tests/support/environment_variable.hpp"

namespace hearth::gpu {
namespace {

using hearth::testing::SmallCall;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(float);

/// Parameter: memory is unified.
class GpuBackendTest : public ::testing::TestWithParam<bool> {
 protected:
  GpuBackendTest() { open({}); }
  void open(GpuOptions options) {
    backend_.reset();
    gpu_ = std::make_shared<const testing::HostGpu>(GetParam());
    options.staging = {.ring_bytes = 4096, .piece_bytes = 1024};
    backend_ = GpuBackend::open(gpu_, std::move(options)).value();
    page_ = backend_->pages().allocate_page(std::int64_t{1} << 16).value();
  }
  /// Operand `number` of kCount elements.
  [[nodiscard]] std::byte* data(int number) const { return page_.data + number * 4096; }
  [[nodiscard]] TensorView view(int number) const { return {data(number), &layout_, DType::f32}; }
  Issue add(int x, int y, int result) { return add(x, y, result, {}); }
  Issue add(int x, int y, int result, std::span<const TimelinePoint> after) {
    const SmallCall call(OpKind::add, {view(x), view(y)}, {view(result)});
    const Launch launch{.call = call.call()};
    return backend_->submit({&launch, 1}, after);
  }
  /// Uploads all values, in parts; the device goes on where a part has no room.
  TimelinePoint up(int to, const std::vector<float>& values) {
    std::span<const std::byte> left = std::as_bytes(std::span(values));
    std::byte* at = data(to);
    TimelinePoint last;
    while (!left.empty()) {
      const CopyPart part = backend_->copies().upload(at, left, {}).value();
      at += part.size_bytes;
      left = left.subspan(part.size_bytes);
      last = part.point;
      if (part.size_bytes == 0) {
        gpu_->let_go_on();
      }
    }
    return last;
  }
  std::vector<float> down(int from, std::span<const TimelinePoint> after) {
    std::vector<float> values(kCount);
    std::span<std::byte> left = std::as_writable_bytes(std::span(values));
    const std::byte* at = data(from);
    TimelinePoint last;
    while (!left.empty()) {
      const CopyPart part = backend_->copies().download(left, at, after).value();
      at += part.size_bytes;
      left = left.subspan(part.size_bytes);
      last = part.point;
      if (part.size_bytes == 0) {
        EXPECT_TRUE(backend_->wait({&last, 1}, soon()).has_value());
      }
    }
    EXPECT_TRUE(backend_->wait({&last, 1}, soon()).has_value());
    return values;
  }
  [[nodiscard]] static Deadline soon() { return Deadline::in(std::chrono::seconds(5)); }
  [[nodiscard]] static std::vector<float> from(float first) {
    std::vector<float> values(kCount);
    std::iota(values.begin(), values.end(), first);
    return values;
  }

  const hearth::testing::EnvironmentVariable no_cache_{"HEARTH_CACHE_DIR", "/dev/null"};
  const hearth::detail::Layout layout_{Shape({kCount})};
  std::shared_ptr<const testing::HostGpu> gpu_;
  std::unique_ptr<Backend> backend_;
  Page page_;
};

INSTANTIATE_TEST_SUITE_P(Memory,
                         GpuBackendTest,
                         ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& each) {
                           return each.param ? "Unified" : "Staged";
                         });

TEST_P(GpuBackendTest, AnAddAndItsCopiesRunWithoutADriver) {
  const std::array<TimelinePoint, 2> after{up(0, from(1)), up(1, from(0.5F))};
  const Issue issue = add(0, 1, 2, after);
  ASSERT_TRUE(issue.status.has_value()) << issue.status.error().text;
  EXPECT_EQ(issue.issued, 1U);
  const std::vector<float> sums = down(2, {&issue.point, 1});
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(sums[i], 2 * static_cast<float>(i) + 1.5F) << i;
  }
  EXPECT_EQ(gpu_->state().copies > 0, !GetParam()) << "the host copies unified memory";
  EXPECT_EQ(backend_->info().name, "host:0");
}

TEST_P(GpuBackendTest, PinnedBytesAreCopiedWhole) {
  const HostBytes from = backend_->copies().host_bytes(kBytes);
  EXPECT_EQ(backend_->copies().pinned_bytes() > 0, !GetParam());
  std::memset(from.first.get(), 7, kBytes);
  const CopyPart part = backend_->copies().upload(data(0), from.span(), {}).value();
  EXPECT_EQ(part.size_bytes, GetParam() ? 1024U : kBytes);
  EXPECT_EQ(gpu_->state().copies, GetParam() ? 0U : 1U);
}

TEST_P(GpuBackendTest, OnlyALaunchThatNeedsEarlierOnesStandsBehindABarrier) {
  static_cast<void>(add(0, 1, 2));
  static_cast<void>(add(0, 1, 3));
  static_cast<void>(add(2, 3, 4));
  static_cast<void>(add(0, 1, 5));
  ASSERT_TRUE(backend_->flush().has_value());
  EXPECT_THAT(gpu_->state().barriers, ElementsAre(true, false, true, false));
}

TEST_P(GpuBackendTest, OneTextServesAllLaunchesOfAForm) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(add(0, 1, 2 + i).status.has_value());
  }
  EXPECT_EQ(gpu_->state().texts.size(), 1U);
  EXPECT_THAT(gpu_->state().texts.front(), HasSubstr("void main()"));
  EXPECT_EQ(backend_->kernels().compile_counts().compiled, 1U);
}

TEST_P(GpuBackendTest, APointComesWhenItsBatchHasRun) {
  gpu_->state().holds = true;
  const Issue issue = add(0, 1, 2);
  ASSERT_TRUE(backend_->flush().has_value());
  EXPECT_EQ(backend_->completed(kOpStream), 0U);
  const Status early = backend_->wait({&issue.point, 1}, Deadline::in(std::chrono::seconds(0)));
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code, ErrorCode::deadline_exceeded);
  gpu_->let_go_on();
  EXPECT_EQ(backend_->completed(kOpStream), issue.point.value);
  EXPECT_TRUE(backend_->wait({&issue.point, 1}, soon()).has_value());
}

TEST_P(GpuBackendTest, ALaunchWaitsForItsUpload) {
  static_cast<void>(up(1, std::vector<float>(kCount, 0.0F)));
  gpu_->state().holds = true;
  const TimelinePoint uploaded = up(0, from(1));
  const Issue issue = add(0, 1, 2, {&uploaded, 1});
  ASSERT_TRUE(issue.status.has_value());
  ASSERT_TRUE(backend_->flush().has_value());
  gpu_->let_go_on();
  EXPECT_EQ(backend_->completed(kOpStream), issue.point.value);
  gpu_->state().holds = false;
  EXPECT_EQ(down(2, {&issue.point, 1}), from(1));
}

TEST_P(GpuBackendTest, ALongRunOfLaunchesBeginsBeforeItsFlush) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(add(0, 1, 2).status.has_value());
  }
  EXPECT_GT(gpu_->state().batches.size(), 1U);
  ASSERT_TRUE(backend_->flush().has_value());
  const std::vector<std::size_t>& sizes = gpu_->state().batches;
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), 1000U);
}

TEST_P(GpuBackendTest, ALossIsTheAnswerToAllCallsBehindIt) {
  const Issue issue = add(0, 1, 2);
  gpu_->state().is_lost = true;
  const Status flushed = backend_->flush();
  ASSERT_FALSE(flushed.has_value());
  EXPECT_EQ(flushed.error().code, ErrorCode::device_lost);
  gpu_->state().is_lost = false;
  const Issue later = add(0, 1, 2);
  ASSERT_FALSE(later.status.has_value());
  EXPECT_EQ(later.issued, 0U);
  EXPECT_FALSE(later.may_have_begun);
  EXPECT_THAT(later.status.error().text, HasSubstr("the test wants it"));
  EXPECT_FALSE(backend_->wait({&issue.point, 1}, soon()).has_value());
  EXPECT_FALSE(backend_->cell_status(1).has_value());
}

TEST_P(GpuBackendTest, WrongResultsOfADeviceAreALoss) {
  const Issue issue = add(0, 1, 2);
  ASSERT_TRUE(backend_->flush().has_value());
  gpu_->state().flaw = "its results are wrong";
  EXPECT_EQ(backend_->completed(kOpStream), 0U) << "nobody reads " << issue.point.value;
  const Issue later = add(0, 1, 2);
  ASSERT_FALSE(later.status.has_value());
  EXPECT_EQ(later.status.error().code, ErrorCode::device_lost);
  EXPECT_THAT(later.status.error().text, HasSubstr("its results are wrong"));
}

TEST_P(GpuBackendTest, MemoryOfWorkThatHangsStaysUntilTheWorkHasEnded) {
  const std::shared_ptr<const testing::HostGpu> gpu = gpu_;
  const std::shared_ptr<AbandonedObjects> left = gpu->left();
  gpu->state().holds = true;
  static_cast<void>(add(0, 1, 2));
  ASSERT_TRUE(backend_->flush().has_value());
  const int pieces = gpu->state().pieces;
  const Page unused = backend_->pages().allocate_page(4096).value();
  EXPECT_EQ(gpu->state().pieces, pieces + 1);
  backend_->pages().free_page(unused);
  EXPECT_EQ(gpu->state().pieces, pieces) << "before the rest a page is freed at once";
  backend_->drain();
  backend_->pages().free_page(page_);
  backend_.reset();
  EXPECT_EQ(gpu->state().pieces, pieces) << "the queue may still touch them";
  EXPECT_EQ(left->sweep({}), 0);
  gpu->let_go_on();
  EXPECT_EQ(left->sweep({}), std::int64_t{1} << 16);
  EXPECT_EQ(gpu->state().pieces, 0);
}

TEST_P(GpuBackendTest, HostMemoryOutlivesTheBackend) {
  const HostBytes bytes = backend_->copies().host_bytes(kBytes);
  const std::shared_ptr<const testing::HostGpu> gpu = gpu_;
  backend_.reset();
  EXPECT_EQ(gpu->state().pieces, GetParam() ? 0 : 1);
  std::memset(bytes.first.get(), 1, kBytes);
}

TEST_P(GpuBackendTest, APlannedLossDrainsADeviceThatStillRuns) {
  open({.faults = {.lost_at_submit = 2}});
  EXPECT_TRUE(add(0, 1, 2).status.has_value());
  const Issue lost = add(0, 1, 2);
  ASSERT_FALSE(lost.status.has_value());
  EXPECT_EQ(lost.status.error().code, ErrorCode::device_lost);
  EXPECT_EQ(gpu_->state().drains, 0);
  open({.faults = {.lost_at_call = 1000}});
  const std::shared_ptr<const testing::HostGpu> gpu = gpu_;
  backend_.reset();
  EXPECT_EQ(gpu->state().drains, 1);
}

TEST_P(GpuBackendTest, AShuffleKeepsBarriersInTheirPlaces) {
  open({.shuffle_seed = 7});
  static_cast<void>(up(0, from(1)));
  static_cast<void>(up(1, from(0)));
  static_cast<void>(add(0, 1, 2));
  static_cast<void>(add(0, 1, 3));
  const Issue last = add(2, 3, 4);
  ASSERT_TRUE(backend_->flush().has_value());
  EXPECT_THAT(gpu_->state().barriers, ElementsAre(true, false, true));
  const std::vector<float> sums = down(4, {&last.point, 1});
  EXPECT_EQ(sums.front(), 2.0F);
  EXPECT_EQ(sums.back(), 2.0F * (kCount + kCount - 1));
}

}  // namespace
}  // namespace hearth::gpu
