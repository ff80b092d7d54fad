// A tensor that was adopted, more than once, while other streams still used it.
#include "runtime/device/dispatch/guests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;

constexpr SlotId kTensor{3};
constexpr SlotId kOther{4};

TEST(Guests, OfEveryAdoptionAreWaitedFor) {
  Guests guests;
  guests.add({.slot = kTensor, .uses = {{.lane = LaneId{1}, .sequence = 10}}});
  guests.add({.slot = kOther, .uses = {{.lane = LaneId{9}, .sequence = 90}}});
  guests.add({.slot = kTensor, .uses = {{.lane = LaneId{2}, .sequence = 20}}});
  std::vector<std::uint64_t> sequences;
  for (const DeferredDrop::Use& use : guests.take(kTensor)) {
    sequences.push_back(use.sequence);
  }
  EXPECT_THAT(sequences, ElementsAre(10, 20));
  EXPECT_FALSE(guests.has(kTensor)) << "nothing is left for the slot's next tensor";
  EXPECT_TRUE(guests.has(kOther));
}

}  // namespace
}  // namespace hearth
