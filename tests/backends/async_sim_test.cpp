// The asynchronous sim through the seam: points, order, cells and guards.
#include <hearth/backends/sim/async_sim.hpp>

#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/manual_executor.hpp>

#include "async_world.hpp"

namespace hearth::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AsyncSim, AnOpHasItsEffectAtItsEndAndTimePassesWhileSomebodyWaits) {
  AsyncWorld world;
  const TimelinePoint put = world.put(0, kOnes);
  const TimelinePoint negated = world.negate(0, 1, {put});
  EXPECT_FALSE(negated.is_done());
  EXPECT_EQ(world.sim.completed(kOpStream), 0U);
  EXPECT_EQ(world.sim.now(), nanoseconds(0));
  EXPECT_THAT(world.bytes_at(1), ElementsAre(0, 0, 0, 0));
  world.wait(negated).value();
  EXPECT_EQ(world.sim.now(), nanoseconds(116)) << "16 bytes in, then the op";
  EXPECT_EQ(world.sim.completed(kOpStream), negated.value);
  EXPECT_EQ(world.sim.completed(kUploadStream), put.value);
  EXPECT_THAT(world.bytes_at(1), ElementsAre(-1, -2, -3, -4));
}

TEST(AsyncSim, AnOpWithoutThePointOfItsUploadIsFound) {
  AsyncWorld world;
  static_cast<void>(world.put(0, kOnes));
  EXPECT_THAT(world.refused(OpKind::neg, {0}, 1, {}), HasSubstr("read_before_produce"));
}

}  // namespace
}  // namespace hearth::sim
