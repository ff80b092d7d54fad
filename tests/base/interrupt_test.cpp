#include <hearth/runtime/base/interrupt.hpp>

#include <csignal>

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(InterruptScope, SeesSignalsThatCameSinceItBegan) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const InterruptScope scope;
    EXPECT_FALSE(scope.is_requested());
    std::raise(signal);
    EXPECT_TRUE(scope.is_requested());
    const InterruptScope inner;
    EXPECT_FALSE(inner.is_requested());
  }
}

TEST(InterruptScope, GivesTheSignalsBackAtItsEnd) {
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  {
    const InterruptScope scope;
    struct sigaction within {};
    sigaction(SIGINT, nullptr, &within);
    EXPECT_NE(within.sa_handler, before.sa_handler);
  }
  struct sigaction after {};
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(InterruptScope, ASignalThatIsIgnoredStaysIgnored) {
  std::signal(SIGINT, SIG_IGN);
  {
    const InterruptScope scope;
    std::raise(SIGINT);
    EXPECT_FALSE(scope.is_requested());
  }
  std::signal(SIGINT, SIG_DFL);
}

TEST(InterruptScopeDeath, ASecondSignalEndsTheProgram) {
  const auto twice = [](int first, int second) {
    const InterruptScope scope;
    std::raise(first);
    std::raise(second);
  };
  EXPECT_EXIT(twice(SIGINT, SIGINT), ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(twice(SIGINT, SIGTERM), ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace hearth
