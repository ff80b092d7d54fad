#include <hearth/runtime/base/cores.hpp>

#include <hearth/runtime/base/thread_executor.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>

#include <gtest/gtest.h>

using namespace hearth;

TEST(Cores, AvailableOnesAreAscendingAndAtLeastOne) {
  const std::vector<int> cores = available_cores();
  ASSERT_FALSE(cores.empty());
  EXPECT_TRUE(std::ranges::is_sorted(cores));
  EXPECT_GE(cores.front(), 0);
}

TEST(Cores, APinnedThreadSeesOnlyItsCore) {
  const std::vector<int> last = {available_cores().back()};
  ThreadExecutor executor;
  std::vector<int> seen;
  executor.spawn({.name = "pinned", .cores = last}, [&] { seen = available_cores(); })->join();
  EXPECT_EQ(seen, last);
}

TEST(Cores, PinningToNoUsableCoreIsAnError) {
  const std::array<int, 2> nowhere = {-1, 1 << 20};
  const Status status = pin_current_thread(nowhere);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(status.error().text.find("{-1, 1048576}"), std::string::npos) << status.error().text;
}

TEST(Cores, AShareOfThemIsRoundedUpAndNoMoreThanThereAre) {
  using detail::core_share_of;
  EXPECT_EQ(core_share_of(2, {}, {}), 2);
  EXPECT_EQ(core_share_of(2, {}, 0.5), 1);
  EXPECT_EQ(core_share_of(8, {}, 1.01), 2);
  EXPECT_EQ(core_share_of(8, {}, 3.0), 3);
  EXPECT_EQ(core_share_of(8, {}, 1e300), 8);
  EXPECT_EQ(core_share_of(8, 5, 0.5), 5) << "what was set comes first";
  EXPECT_EQ(core_share_of(8, 500, {}), 8);
}

TEST(Cores, OfAShareBeginAtTheOwnOne) {
  using detail::cores_from;
  const std::vector<int> all{2, 3, 5, 7};
  EXPECT_EQ(cores_from(all, 3, 2), (std::vector<int>{3, 5}));
  EXPECT_EQ(cores_from(all, 7, 3), (std::vector<int>{2, 3, 7}));
  EXPECT_EQ(cores_from(all, 4, 1), (std::vector<int>{5}));
  EXPECT_EQ(cores_from(all, 9, 1), (std::vector<int>{2})) << "the thread has moved meanwhile";
}

TEST(Cores, AVariableSetsTheShare) {
  ASSERT_EQ(::setenv("HEARTH_CORES", "1", 1), 0);
  const std::vector<int> one = shared_cores();
  ASSERT_EQ(::unsetenv("HEARTH_CORES"), 0);
  EXPECT_EQ(one.size(), 1U);
  EXPECT_TRUE(std::ranges::includes(available_cores(), one));
}
