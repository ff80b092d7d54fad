// When a batch of a Vulkan device begins to run without a flush.
#include <vector>

#include <gtest/gtest.h>

#include "backends/gpu/launches/batch_length.hpp"

namespace hearth::gpu {
namespace {

/// The dispatch counts at which batches began, with `step` dispatches a launch; `has_work` by
/// batch.
std::vector<std::uint32_t> lengths(BatchLength& length,
                                   std::uint32_t step,
                                   const std::vector<bool>& has_work) {
  std::vector<std::uint32_t> all;
  for (const bool works : has_work) {
    std::uint32_t dispatches = step;
    while (!length.is_enough(dispatches, [works] { return works; })) {
      dispatches += step;
    }
    all.push_back(dispatches);
  }
  return all;
}

TEST(BatchLength, GrowsWhileTheDeviceHasNothingToDo) {
  BatchLength length;
  EXPECT_EQ(lengths(length, 1, std::vector<bool>(7, false)),
            (std::vector<std::uint32_t>{8, 16, 32, 64, 128, 128, 128}));
  length.begin_anew();
  EXPECT_EQ(lengths(length, 1, {false}), std::vector<std::uint32_t>{8});
}

TEST(BatchLength, IsTheMostWhereTheDeviceIsBusy) {
  BatchLength length;
  EXPECT_EQ(lengths(length, 1, {true, true, false, false}),
            (std::vector<std::uint32_t>{128, 128, 8, 16}));
}

// A product in two stages has two dispatches a launch; batches must begin as early as with one.
TEST(BatchLength, CountsLaunchesOfSeveralDispatches) {
  BatchLength length;
  EXPECT_EQ(lengths(length, 3, {false, false, false}), (std::vector<std::uint32_t>{9, 18, 33}));
}

TEST(BatchLength, AsksTheDeviceSeldom) {
  BatchLength length;
  int asked = 0;
  for (std::uint32_t dispatches = 1; dispatches < 128; ++dispatches) {
    EXPECT_FALSE(length.is_enough(dispatches, [&] {
      ++asked;
      return true;
    }));
  }
  EXPECT_EQ(asked, 15);
}

// Work on another queue makes a batch begin early; the next batch counts from its own beginning.
TEST(BatchLength, OfABatchThatSomebodyElseBeganIsForgotten) {
  BatchLength length;
  EXPECT_FALSE(length.is_enough(8, [] { return true; }));
  EXPECT_FALSE(length.is_enough(64, [] { return true; }));
  EXPECT_FALSE(length.is_enough(1, [] { return false; }));
  EXPECT_TRUE(length.is_enough(8, [] { return false; }));
}

}  // namespace
}  // namespace hearth::gpu
