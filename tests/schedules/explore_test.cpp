// Known bugs: each strategy of exploration finds each of them, and its replay file repeats it.
#include "tests/support/explore.hpp"

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/mailbox.hpp>

#include <array>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::testing {
namespace {

using ::testing::HasSubstr;

// The sleeper reads the flag, then publishes its parker, and does not read the flag again.
void lose_a_wake(ManualExecutor& executor) {
  bool is_ready = false;
  IntrusivePtr<detail::Parker> sleeper;
  const auto waiting = executor.spawn({.name = "sleeper"}, [&] {
    detail::schedule_point();
    if (!is_ready) {
      detail::schedule_point();
      sleeper = IntrusivePtr<detail::Parker>(&detail::current_context().parker());
      detail::current_context().parker().park(Deadline::never());
    }
  });
  const auto waking = executor.spawn({.name = "waker"}, [&] {
    detail::schedule_point();
    is_ready = true;
    if (sleeper) {
      sleeper->unpark();
    }
  });
  waiting->join();
  waking->join();
}

// Reads, yields, writes.
void lose_an_update(ManualExecutor& executor) {
  int count = 0;
  const auto increment = [&count] {
    for (int i = 0; i < 3; ++i) {
      const int seen = count;
      detail::schedule_point();
      count = seen + 1;
      detail::schedule_point();
    }
  };
  const auto one = executor.spawn({.name = "one"}, increment);
  const auto two = executor.spawn({.name = "two"}, increment);
  one->join();
  two->join();
  require(count == 6, "an update was lost: " + std::to_string(count));
}

// Two keys, taken in opposite orders.
void embrace(ManualExecutor& executor) {
  std::array<detail::Mailbox<int>, 2> keys;
  keys[0].push(1);
  keys[1].push(1);
  const auto hold_both = [&keys](std::size_t first) {
    const std::optional<int> a = keys[first].pop(Deadline::never());
    const std::optional<int> b = keys[1 - first].pop(Deadline::never());
    keys[first].push(int{*a});
    keys[1 - first].push(int{*b});
  };
  const auto one = executor.spawn({.name = "left"}, [&] { hold_both(0); });
  const auto two = executor.spawn({.name = "right"}, [&] { hold_both(1); });
  one->join();
  two->join();
}

// The size is read under one lock and the message taken under another.
void ask_then_take(ManualExecutor& executor) {
  detail::Mailbox<int> mailbox;
  mailbox.push(1);
  const auto take = [&mailbox] {
    if (mailbox.size() > 0) {
      require(mailbox.try_pop().has_value(), "the message went to somebody else");
    }
  };
  const auto one = executor.spawn({.name = "one"}, take);
  const auto two = executor.spawn({.name = "two"}, take);
  one->join();
  two->join();
}

struct KnownBug {
  std::string name;
  void (*program)(ManualExecutor&);
  std::string text;
};

const std::vector<KnownBug>& known_bugs() {
  static const std::vector<KnownBug> bugs{
      {"lose_a_wake",
       &lose_a_wake,
       "deadlock: every thread is parked and none has a deadline: main"},
      {"lose_an_update", &lose_an_update, "an update was lost"},
      {"embrace", &embrace, "deadlock"},
      {"ask_then_take", &ask_then_take, "the message went to somebody else"},
  };
  return bugs;
}

// Correct programs that resemble those above.
void keep_the_wake(ManualExecutor& executor) {
  detail::Mailbox<int> mailbox;
  const auto waiting = executor.spawn({.name = "sleeper"}, [&] {
    require(mailbox.pop(Deadline::never()) == 1, "not the message");
  });
  const auto waking = executor.spawn({.name = "waker"}, [&] { mailbox.push(1); });
  waiting->join();
  waking->join();
}

class Explore : public ::testing::TestWithParam<Strategy> {};

TEST_P(Explore, FindsEachKnownBugAndReplaysIt) {
  for (const KnownBug& bug : known_bugs()) {
    const ExploreOptions options{.name = bug.name + "_" + std::to_string(int(GetParam())),
                                 .strategy = GetParam(),
                                 .schedules = 2000};
    const Exploration found = explore(options, bug.program);
    ASSERT_TRUE(found.failure.has_value()) << bug.name << ", " << found.schedules << " schedules";
    EXPECT_THAT(found.failure->text, HasSubstr(bug.text)) << bug.name;
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(replay(options, found.failure->replay_file, bug.program), found.failure->text)
          << bug.name;
    }
  }
}

TEST_P(Explore, FindsNothingWhereNothingIs) {
  const Exploration found =
      explore({.name = "keep_the_wake", .strategy = GetParam(), .schedules = 2000}, &keep_the_wake);
  EXPECT_FALSE(found.failure.has_value()) << found.failure->text;
  EXPECT_EQ(found.is_complete, GetParam() == Strategy::exhaustive);
}

INSTANTIATE_TEST_SUITE_P(Strategies,
                         Explore,
                         ::testing::Values(Strategy::random, Strategy::pct, Strategy::exhaustive));

TEST(Exploration, WithoutPreemptionsTheLostUpdateStaysHidden) {
  const Exploration none = explore({.name = "lose_an_update_0",
                                    .strategy = Strategy::exhaustive,
                                    .schedules = 10'000,
                                    .max_preemptions = 0},
                                   &lose_an_update);
  EXPECT_TRUE(none.is_complete);
  EXPECT_FALSE(none.failure.has_value());
  const Exploration one = explore({.name = "lose_an_update_1",
                                   .strategy = Strategy::exhaustive,
                                   .schedules = 10'000,
                                   .max_preemptions = 1},
                                  &lose_an_update);
  EXPECT_TRUE(one.failure.has_value());
}

// Ten pairs of threads distract from the two that matter; the bug needs the second to run
// completely between two adjacent steps of the first.
void hide_among_many(ManualExecutor& executor) {
  int stage = 0;
  std::vector<std::unique_ptr<detail::Joinable>> threads;
  for (int i = 0; i < 20; ++i) {
    threads.push_back(executor.spawn({.name = "crowd"}, [] {
      for (int step = 0; step < 10; ++step) {
        detail::schedule_point();
      }
    }));
  }
  threads.push_back(executor.spawn({.name = "first"}, [&] {
    for (int step = 0; step < 10; ++step) {
      stage = 1;
      detail::schedule_point();
      require(stage == 1, "the second went in between");
      stage = 0;
      detail::schedule_point();
    }
  }));
  threads.push_back(executor.spawn({.name = "second"}, [&] {
    detail::schedule_point();
    const int seen = stage;
    for (int step = 0; step < 20; ++step) {
      detail::schedule_point();
      if (stage != 1) {
        return;
      }
    }
    stage = seen + 1;
  }));
  for (const auto& thread : threads) {
    thread->join();
  }
}

TEST(Exploration, PctFindsWhatChanceDoesNot) {
  const Exploration chance = explore(
      {.name = "hide_random", .strategy = Strategy::random, .schedules = 1000}, &hide_among_many);
  EXPECT_FALSE(chance.failure.has_value()) << "the bug is too easy";
  const Exploration pct =
      explore({.name = "hide_pct", .strategy = Strategy::pct, .schedules = 1000, .depth = 3},
              &hide_among_many);
  ASSERT_TRUE(pct.failure.has_value());
  EXPECT_EQ(pct.failure->text, "the second went in between");
}

TEST(Exploration, AThreadThatPollsIsNoHang) {
  for (const Strategy strategy : {Strategy::random, Strategy::pct, Strategy::exhaustive}) {
    const Exploration found =
        explore({.name = "polling", .strategy = strategy, .schedules = 50, .max_preemptions = 1},
                [](ManualExecutor& executor) {
                  bool is_ready = false;
                  const auto setter = executor.spawn({.name = "setter"}, [&] {
                    detail::schedule_point();
                    is_ready = true;
                  });
                  while (!is_ready) {
                    detail::schedule_point();
                  }
                  setter->join();
                });
    EXPECT_FALSE(found.failure.has_value()) << found.failure->text;
  }
}

TEST(Exploration, APollThatNeverEndsIsReported) {
  const Exploration found =
      explore({.name = "polling_for_ever", .max_steps = 5000}, [](ManualExecutor& executor) {
        const auto other = executor.spawn({.name = "poller"}, [] {
          for (;;) {
            detail::schedule_point();
          }
        });
        other->join();
      });
  ASSERT_TRUE(found.failure.has_value());
  EXPECT_THAT(found.failure->text, HasSubstr("more than 5000 steps"));
}

TEST(Exploration, AProgramThatChangedIsNotReplayed) {
  const ExploreOptions options{.name = "changed"};
  const Exploration found = explore(options, &lose_an_update);
  ASSERT_TRUE(found.failure.has_value());
  EXPECT_THAT(*replay(options, found.failure->replay_file, &keep_the_wake),
              HasSubstr("this is not the program that was recorded"));
  EXPECT_THROW(
      static_cast<void>(replay({.name = "another"}, found.failure->replay_file, &lose_an_update)),
      Exception);
}

TEST(Exploration, AProgramThatDoesNotRepeatItselfIsReported) {
  int runs = 0;
  const Exploration found = explore(
      {.name = "forgetful", .strategy = Strategy::exhaustive}, [&](ManualExecutor& executor) {
        std::vector<std::unique_ptr<detail::Joinable>> threads;
        const int count = ++runs == 1 ? 3 : 2;
        for (int i = 0; i < count; ++i) {
          threads.push_back(executor.spawn({.name = "thread"}, [] { detail::schedule_point(); }));
        }
        for (const auto& thread : threads) {
          thread->join();
        }
      });
  ASSERT_TRUE(found.failure.has_value());
  EXPECT_THAT(found.failure->text, HasSubstr("does not repeat itself"));
}

TEST(ExplorationDeathTest, AnAbortLeavesAReplayFile) {
  const ExploreOptions options{.name = "aborting"};
  const auto program = [](ManualExecutor& executor) {
    bool is_set = false;
    const auto setter = executor.spawn({.name = "setter"}, [&] { is_set = true; });
    detail::schedule_point();
    if (is_set) {
      detail::assert_failed("!is_set", "the seeded bug", SourceLoc::current());
    }
    setter->join();
  };
  EXPECT_DEATH(static_cast<void>(explore(options, program)), "to run it again: EXPLORE_REPLAY=");
}

}  // namespace
}  // namespace hearth::testing
