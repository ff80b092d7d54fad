#include <hearth/runtime/base/interrupt.hpp>

#include <csignal>
#include <memory>

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(InterruptScope, SeesSignalsThatCameSinceItBegan) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const InterruptScope scope;
    EXPECT_FALSE(scope.is_requested());
    {
      const InterruptScope inner;
      std::raise(signal);
      EXPECT_TRUE(inner.is_requested());
    }
    EXPECT_TRUE(scope.is_requested());
    const InterruptScope later;
    EXPECT_FALSE(later.is_requested());
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

// Two trainings of one process, of which the first ends first.
TEST(InterruptScope, ScopesEndInAnyOrder) {
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  auto first = std::make_unique<InterruptScope>();
  auto second = std::make_unique<InterruptScope>();
  first.reset();
  std::raise(SIGINT);
  EXPECT_TRUE(second->is_requested());
  second.reset();
  struct sigaction after {};
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  const InterruptScope third;
  std::raise(SIGINT);
  EXPECT_TRUE(third.is_requested());
}

TEST(InterruptScope, TheOtherSignalDoesNotEndThatOneIsIgnored) {
  std::signal(SIGINT, SIG_IGN);
  {
    const InterruptScope scope;
    std::raise(SIGTERM);
    EXPECT_TRUE(scope.is_requested());
    struct sigaction now {};
    sigaction(SIGINT, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_IGN);
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
