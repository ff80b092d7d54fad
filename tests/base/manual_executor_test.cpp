#include <hearth/runtime/base/manual_executor.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

using namespace hearth;

namespace {

/// Three threads: ping and pong pass a ball through mailboxes, and ping unparks the umpire after
/// every ten hits. Returns the umpire's observations and the last ball.
std::vector<int> play(detail::Executor& executor) {
  constexpr int kHits = 60;
  detail::Mailbox<int> to_ping;
  detail::Mailbox<int> to_pong({.capacity = 1});
  detail::Mailbox<IntrusivePtr<detail::Parker>> introductions;
  std::atomic<int> hits{0};
  std::vector<int> result;
  const auto umpire = executor.spawn({.name = "umpire"}, [&] {
    introductions.push(IntrusivePtr<detail::Parker>(&detail::current_context().parker()));
    for (int tens = 10; tens <= kHits; tens += 10) {
      while (hits.load(std::memory_order_acquire) < tens) {
        detail::current_context().parker().park(Deadline::in(kDefaultWait));
      }
      result.push_back(tens);
    }
  });
  const auto pong = executor.spawn({.name = "pong"}, [&] {
    while (const auto ball = to_pong.pop(Deadline::in(kDefaultWait))) {
      to_ping.push(*ball + 1);
    }
  });
  int last = 0;
  const auto ping = executor.spawn({.name = "ping"}, [&] {
    const IntrusivePtr<detail::Parker> waiting = *introductions.pop(Deadline::never());
    while (last < kHits) {
      to_pong.push(static_cast<int>(last));
      last = to_ping.pop(Deadline::in(kDefaultWait)).value_or(kHits);
      hits.store(last, std::memory_order_release);
      if (last % 10 == 0) {
        waiting->unpark();
      }
    }
    to_pong.close();
  });
  umpire->join();
  ping->join();
  pong->join();
  result.push_back(last);
  return result;
}

const std::vector<int> kPlayed = {10, 20, 30, 40, 50, 60, 60};

std::string message_of(ManualExecutor& executor, UniqueFunction<void()> main_body) {
  try {
    executor.run(std::move(main_body));
  } catch (const Exception& exception) {
    return exception.error().text;
  }
  return "no error";
}

}  // namespace

TEST(ManualExecutor, PlaysTheSameGameInAThousandOrdersOfSteps) {
  std::set<std::uint64_t> step_counts;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    ManualExecutor executor(seed);
    std::vector<int> result;
    executor.run([&] { result = play(executor); });
    ASSERT_EQ(result, kPlayed) << "seed " << seed;
    ASSERT_EQ(executor.clock().now().time_since_epoch(), std::chrono::nanoseconds::zero())
        << "seed " << seed;
    step_counts.insert(executor.step_count());
  }
  EXPECT_GT(step_counts.size(), 10U) << "the seeds do not change the order";
}

TEST(ManualExecutor, PlaysTheSameGameAsRealThreads) {
  ThreadExecutor executor;
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(play(executor), kPlayed);
  }
}

TEST(ManualExecutor, TheSameSeedGivesTheSameOrder) {
  const auto order_of = [](std::uint64_t seed) {
    ManualExecutor executor(seed);
    std::string order;
    executor.run([&] {
      std::vector<std::unique_ptr<detail::Joinable>> threads;
      for (const char letter : {'a', 'b', 'c'}) {
        threads.push_back(executor.spawn({.name = {letter}}, [&order, letter] {
          for (int i = 0; i < 5; ++i) {
            order += letter;
            detail::schedule_point();
          }
        }));
      }
    });
    return order;
  };
  EXPECT_EQ(order_of(0), "abcabcabcabcabc");
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(order_of(seed), order_of(seed)) << "seed " << seed;
    orders.insert(order_of(seed));
  }
  EXPECT_GT(orders.size(), 10U);
}

TEST(ManualExecutor, ADeadlockIsReportedWithTheNamesOfTheParked) {
  ManualExecutor executor(3);
  detail::Mailbox<int> silent;
  EXPECT_EQ(message_of(executor,
                       [&] {
                         executor
                             .spawn({.name = "cpu:0 actor"},
                                    [&] { static_cast<void>(silent.pop(Deadline::never())); })
                             ->join();
                       }),
            "deadlock: every thread is parked and none has a deadline: main, cpu:0 actor");
}

TEST(ManualExecutor, ADeadlockInADestructorIsReportedToo) {
  ManualExecutor executor;
  EXPECT_EQ(message_of(executor,
                       [&] {
                         const auto one = executor.spawn({.name = "worker"}, [] {
                           detail::current_context().parker().park(Deadline::never());
                         });
                         throw std::runtime_error("unwinds into the join");
                       }),
            "deadlock: every thread is parked and none has a deadline: main, worker");
}

TEST(ManualExecutor, ThreadsParkedForEverEndWithMain) {
  ManualExecutor executor;
  std::unique_ptr<detail::Joinable> idle;
  IntrusivePtr<detail::Parker> parker;
  executor.run([&] {
    idle = executor.spawn({.name = "idle"}, [&] {
      parker = IntrusivePtr<detail::Parker>(&detail::current_context().parker());
      detail::current_context().parker().park(Deadline::never());
      ADD_FAILURE() << "nobody wakes it";
    });
  });
  idle->join();
  parker->unpark();
}

TEST(ManualExecutor, ThreadsWithADeadlineGoOnAfterMain) {
  ManualExecutor executor;
  std::unique_ptr<detail::Joinable> late;
  bool has_run = false;
  executor.run([&] {
    late = executor.spawn({.name = "late"}, [&] {
      detail::current_context().parker().park(Deadline::in(std::chrono::hours(1)));
      has_run = true;
    });
  });
  EXPECT_TRUE(has_run);
}

TEST(ManualExecutor, DeadlinesPassInTheirOrder) {
  ManualExecutor executor(5);
  std::vector<int> order;
  executor.run([&] {
    std::vector<std::unique_ptr<detail::Joinable>> threads;
    for (const int seconds : {3, 1, 2}) {
      threads.push_back(executor.spawn({.name = "sleeper"}, [&, seconds] {
        detail::current_context().parker().park(Deadline::in(std::chrono::seconds(seconds)));
        order.push_back(seconds);
      }));
    }
  });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(ManualExecutor, ARunThatNeverEndsStopsAtItsStepLimit) {
  ManualExecutor executor(0, {.max_steps = 1000});
  EXPECT_EQ(message_of(executor,
                       [] {
                         for (;;) {
                           detail::schedule_point();
                         }
                       }),
            "manual executor: more than 1000 steps: a thread polls without end; the last to run "
            "was main");
  EXPECT_EQ(executor.step_count(), 1001U);
}

TEST(ManualExecutor, WhatABodyThrowsLeavesRun) {
  ManualExecutor executor;
  EXPECT_THROW(executor.run([] { throw std::out_of_range("mine"); }), std::out_of_range);
  EXPECT_EQ(
      message_of(executor,
                 [&] {
                   executor
                       .spawn({.name = "worker"},
                              [] {
                                throw_error(Error{.code = ErrorCode::cancelled, .text = "theirs"});
                              })
                       ->join();
                 }),
      "theirs");
  bool has_run = false;
  executor.run([&] { has_run = true; });
  EXPECT_TRUE(has_run);
}

TEST(ManualExecutor, ExceptionsOfThreadsThatParkWhileHandlingThemDoNotMix) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    ManualExecutor executor(seed);
    int right_count = 0;
    executor.run([&] {
      std::vector<std::unique_ptr<detail::Joinable>> threads;
      for (int i = 0; i < 4; ++i) {
        threads.push_back(executor.spawn({.name = "thrower"}, [&right_count, i] {
          try {
            throw i;
          } catch (const int& caught) {
            detail::schedule_point();
            try {
              throw;
            } catch (const int& again) {
              detail::schedule_point();
              right_count += caught == i && again == i ? 1 : 0;
            }
          }
          right_count += std::uncaught_exceptions() == 0 ? 1 : 0;
        }));
      }
    });
    ASSERT_EQ(right_count, 8) << "seed " << seed;
  }
}

TEST(ManualExecutor, EachLogicalThreadHasItsOwnContext) {
  ManualExecutor executor;
  detail::ThreadContext* const outside = &detail::current_context();
  executor.run([&] {
    detail::ThreadContext* const main = &detail::current_context();
    EXPECT_NE(main, outside);
    EXPECT_EQ(main->name(), "main");
    EXPECT_TRUE(main->is_manual());
    detail::ThreadContext* worker = nullptr;
    executor.spawn({.name = "worker"}, [&] { worker = &detail::current_context(); })->join();
    EXPECT_NE(worker, main);
    EXPECT_EQ(&detail::current_context(), main);
  });
  EXPECT_EQ(&detail::current_context(), outside);
}

TEST(ManualExecutor, AThreadSpawnedBeforeRunStartsWithIt) {
  ManualExecutor executor;
  int count = 0;
  const auto early = executor.spawn({.name = "early"}, [&] { ++count; });
  EXPECT_EQ(count, 0);
  executor.run([&] {
    early->join();
    EXPECT_EQ(count, 1);
  });
}
