#include "tests/runtime/stepped_runtime.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <optional>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::HeldStream;
using testing::stepped;
using testing::World;

TEST(Transfer, TheValuesArriveOnTheOtherDevice) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    stepped({.seed = seed}, [](const World& world) {
      const Device other = world.runtime.device("sim:1");
      const Tensor there = (world.f32({1, 2}) + 1).to(other);
      EXPECT_EQ(there.device(), other);
      EXPECT_THAT((there * 2).to_vector<float>(), ElementsAre(4, 6));
      EXPECT_THAT(there.to(world.device).to_vector<float>(), ElementsAre(2, 3));
    });
  }
}

TEST(Transfer, ATensorThatIsThereAlreadyIsItself) {
  stepped([](const World& world) {
    const Tensor x = world.f32({1});
    EXPECT_EQ(detail::TensorAccess::impl(x.to(world.device)), detail::TensorAccess::impl(x));
  });
}

TEST(Transfer, AViewIsPacked) {
  stepped([](const World& world) {
    const Tensor x = world.f32({1, 2, 3, 4});
    const Tensor there = transpose(reshape(x, {2, 2}), 0, 1).to(world.runtime.device("sim:1"));
    EXPECT_THAT(there.to_vector<float>(), ElementsAre(1, 3, 2, 4));
  });
}

TEST(Transfer, TheDestinationWaitsForTheSourceAndForNothingElse) {
  stepped([](const World& world) {
    const Device other = world.runtime.device("sim:1");
    HeldStream held(world.device);
    const Tensor there = world.f32({1}).to(other);
    Stream aside(other);
    {
      const StreamScope scope(aside);
      EXPECT_EQ(Tensor::from<float>(other, {3}, {1}).item(), 3);
    }
    const Pending<std::vector<std::byte>> bytes = there.read_bytes();
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(bytes, Deadline::in(1s)));
    held.unblock();
    EXPECT_EQ(there.item(), 1);
  });
}

TEST(Transfer, BytesThatDoNotComeInTimeFailTheTensorAndTheLaneGoesOn) {
  stepped([](const World& world) {
    const Device other = world.runtime.device("sim:1");
    HeldStream held(world.device);
    const Tensor there = world.f32({1}).to(other);
    const Tensor after = Tensor::from<float>(other, {3}, {1});
    const Error error = testing::read_error(there);
    EXPECT_EQ(error.code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(error.device, "sim:1");
    EXPECT_NE(error.report().find("device sim:1: generation 0, alive"), std::string::npos);
    EXPECT_EQ(after.item(), 3);
    held.unblock();  // the late bytes have no reader
    world.device.sync();
    EXPECT_EQ(after.item(), 3);
    EXPECT_EQ(testing::read_error(there).code, ErrorCode::deadline_exceeded);
  });
}

TEST(Transfer, BetweenTwoRuntimes) {
  stepped([](const World& world) {
    Runtime second({.devices = {{.name = "sim:0"}}, .executor = &world.executor});
    const Tensor there = (world.f32({1, 2}) + 1).to(second.device("sim:0"));
    EXPECT_THAT((there + 1).to_vector<float>(), ElementsAre(3, 4));
  });
}

TEST(Transfer, TheSourceMayBeDroppedAtOnce) {
  stepped([](const World& world) {
    Tensor there;
    {
      Tensor here = world.f32({1, 2});
      there = here.to(world.runtime.device("sim:1"));
    }
    EXPECT_THAT(there.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_EQ(testing::live_tensors(world.device), 0);
  });
}

}  // namespace
}  // namespace hearth
