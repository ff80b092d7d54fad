#include <hearth/runtime/base/cores.hpp>

#include <hearth/runtime/base/thread_executor.hpp>

#include <algorithm>
#include <array>

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
