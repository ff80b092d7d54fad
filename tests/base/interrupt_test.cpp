#include <hearth/runtime/base/interrupt.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

namespace hearth {
namespace {

TEST(InterruptScope, SeesSignalsThatCameSinceItBegan) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
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

// Two trainings of one process; the first one ends first.
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

// A clock that only the test advances.
std::atomic<std::int64_t> test_time_ns{0};

class InterruptTime : public ::testing::Test {
 protected:
  InterruptTime()
      : before_(detail::exchange_interrupt_clock(
            []() noexcept { return std::chrono::nanoseconds(test_time_ns.load()); })) {
    test_time_ns = 0;
  }
  ~InterruptTime() override { detail::exchange_interrupt_clock(before_); }

  // Raises two signals at this distance in a program with a scope, which exits with 7 if it
  // survives.
  static void raise_two(int first, int second, std::chrono::nanoseconds apart) {
    const InterruptScope scope;
    std::raise(first);
    test_time_ns += apart.count();
    std::raise(second);
    std::_Exit(scope.is_requested() ? 7 : 8);
  }

 private:
  detail::InterruptClock before_;
};
using InterruptScopeDeath = InterruptTime;

TEST_F(InterruptScopeDeath, ASecondSignalAfterThePauseEndsTheProgram) {
  for (const auto& [first, second] :
       {std::pair(SIGINT, SIGINT), {SIGINT, SIGTERM}, {SIGTERM, SIGINT}, {SIGHUP, SIGHUP}}) {
    EXPECT_EXIT(raise_two(first, second, kInterruptPause), ::testing::KilledBySignal(second), "");
  }
}

// One signal of the terminal, and one of a parent process that forwards it.
TEST_F(InterruptScopeDeath, SignalsWithinThePauseAreOneWish) {
  constexpr std::chrono::nanoseconds kJustBefore = kInterruptPause - std::chrono::nanoseconds(1);
  for (const std::chrono::nanoseconds apart : {std::chrono::nanoseconds(0), kJustBefore}) {
    EXPECT_EXIT(raise_two(SIGINT, SIGINT, apart), ::testing::ExitedWithCode(7), "");
    EXPECT_EXIT(raise_two(SIGINT, SIGTERM, apart), ::testing::ExitedWithCode(7), "");
    EXPECT_EXIT(raise_two(SIGHUP, SIGHUP, apart), ::testing::ExitedWithCode(7), "");
  }
}

// Each thread's handler reads the clock first, so the later reading may be recorded first.
TEST_F(InterruptScopeDeath, SignalsThatAreHandledSideBySideAreOneWish) {
  EXPECT_EXIT(
      raise_two(SIGINT, SIGTERM, std::chrono::nanoseconds(-1)), ::testing::ExitedWithCode(7), "");
}

TEST_F(InterruptTime, APauseBelongsToTheScopesOfItsTime) {
  for (int round = 0; round < 3; ++round) {
    const InterruptScope scope;
    EXPECT_FALSE(scope.is_requested());
    std::raise(SIGINT);
    std::raise(SIGINT);
    EXPECT_TRUE(scope.is_requested());
    test_time_ns += std::chrono::nanoseconds(kInterruptPause).count();
  }
}

TEST(InterruptScope, AClosedPipeEndsNoProgram) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  {
    const InterruptScope scope;
    EXPECT_EQ(::write(ends[1], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
    EXPECT_FALSE(scope.is_requested());
  }
  struct sigaction after {};
  sigaction(SIGPIPE, nullptr, &after);
  EXPECT_EQ(after.sa_handler, SIG_DFL);
  ::close(ends[1]);
}

TEST(InterruptScope, LeavesAHandlerOfAClosedPipeAlone) {
  for (void (*const handler)(int) : {SIG_IGN, +[](int) {}}) {
    std::signal(SIGPIPE, handler);
    {
      const InterruptScope scope;
      struct sigaction within {};
      sigaction(SIGPIPE, nullptr, &within);
      EXPECT_EQ(within.sa_handler, handler);
    }
    std::signal(SIGPIPE, SIG_DFL);
  }
}

}  // namespace
}  // namespace hearth
