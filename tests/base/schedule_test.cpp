#include <hearth/runtime/base/schedule_search.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include <array>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

using namespace hearth;

namespace {

/// Two threads that write three letters each.
std::string letters(ScheduleFn schedule) {
  ManualExecutor executor(std::move(schedule));
  std::string order;
  executor.run([&] {
    std::vector<std::unique_ptr<detail::Joinable>> threads;
    for (const char letter : {'a', 'b'}) {
      threads.push_back(executor.spawn({.name = {letter}}, [&order, letter] {
        for (int i = 0; i < 3; ++i) {
          order += letter;
          detail::schedule_point();
        }
      }));
    }
  });
  return order;
}

std::map<std::string, int> all_orders(int max_preemptions) {
  ScheduleSearch search(max_preemptions);
  std::map<std::string, int> orders;
  do {
    ++orders[letters(search.schedule())];
  } while (search.advance());
  return orders;
}

}  // namespace

TEST(Schedule, EveryStrategyRepeatsItself) {
  EXPECT_EQ(letters(in_turn()), "ababab");
  std::set<std::string> chance;
  std::set<std::string> pct;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    EXPECT_EQ(letters(random_schedule(seed)), letters(random_schedule(seed)));
    EXPECT_EQ(letters(pct_schedule({.seed = seed, .step_count = 10})),
              letters(pct_schedule({.seed = seed, .step_count = 10})));
    chance.insert(letters(random_schedule(seed)));
    pct.insert(letters(pct_schedule({.seed = seed, .step_count = 10})));
  }
  EXPECT_GT(chance.size(), 8U);
  EXPECT_GT(pct.size(), 4U);
}

TEST(Schedule, PctOfDepthOneNeverInterrupts) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string order = letters(pct_schedule({.seed = seed, .depth = 1, .step_count = 10}));
    EXPECT_TRUE(order == "aaabbb" || order == "bbbaaa") << order;
  }
}

TEST(Schedule, AReplayTakesTheSameStepsAndThenGoesInTurn) {
  EXPECT_EQ(letters(replay_schedule({0, 2, 2, 2, 1, 1, 1})), "bbbaaa");
  EXPECT_EQ(letters(replay_schedule({0, 2, 2})), "bbabaa");
  EXPECT_EQ(letters(replay_schedule({})), "ababab");
}

TEST(Schedule, AReplayOfAThreadThatCannotRunFails) {
  try {
    static_cast<void>(letters(replay_schedule({0, 7})));
    FAIL() << "thread 7 does not exist";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_format);
    EXPECT_EQ(error.error().text,
              "replay: at step 2 thread 7 cannot run: this is not the program that was recorded");
  }
}

TEST(ScheduleSearch, FindsAllTwentyOrdersOfTwoTimesThreeLetters) {
  EXPECT_EQ(all_orders(100).size(), 20U);
}

TEST(ScheduleSearch, StaysWithinItsPreemptions) {
  EXPECT_EQ(all_orders(0).size(), 2U) << "one thread after the other";
  // aaabbb and bbbaaa, and each cut once: abbbaa, aabbba, baaabb, bbaaab.
  EXPECT_EQ(all_orders(1).size(), 6U);
}

TEST(ManualExecutor, StopsAtLocksWhenTold) {
  std::array<std::uint64_t, 2> steps{};
  for (const bool at_locks : {false, true}) {
    ManualExecutor executor(0, {.preempts_at_locks = at_locks});
    executor.run([] {
      detail::Mailbox<int> mailbox;
      EXPECT_EQ(mailbox.try_push(1), detail::MailboxPush::accepted);
      EXPECT_EQ(mailbox.try_pop(), 1);
    });
    steps.at(at_locks ? 1 : 0) = executor.step_count();
  }
  EXPECT_EQ(steps[0], 1U);
  EXPECT_EQ(steps[1], 3U);
}
