#include <hearth/runtime/base/mailbox.hpp>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <memory>
#include <vector>

#include <gtest/gtest.h>

using namespace hearth;

TEST(Mailbox, GivesMessagesInTheOrderOfPushing) {
  detail::Mailbox<std::unique_ptr<int>> mailbox;
  mailbox.push(std::make_unique<int>(1));
  mailbox.push(std::make_unique<int>(2));
  EXPECT_EQ(mailbox.size(), 2U);
  EXPECT_EQ(**mailbox.pop(Deadline::never()), 1);
  EXPECT_EQ(**mailbox.try_pop(), 2);
  EXPECT_FALSE(mailbox.try_pop().has_value());
}

TEST(Mailbox, APopFromAnEmptyOneEndsAtItsDeadline) {
  detail::Mailbox<int> mailbox;
  EXPECT_FALSE(mailbox.pop(Deadline::in(std::chrono::nanoseconds::zero())).has_value());
  EXPECT_FALSE(mailbox.is_closed());
}

TEST(Mailbox, ARefusedMessageStaysWithItsSender) {
  detail::Mailbox<std::unique_ptr<int>> mailbox({.capacity = 1});
  mailbox.push(std::make_unique<int>(1));
  auto message = std::make_unique<int>(2);
  EXPECT_EQ(mailbox.try_push(std::move(message)), detail::MailboxPush::deadline);
  ASSERT_NE(message, nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(mailbox.push(std::move(message), Deadline::in(std::chrono::nanoseconds::zero())),
            detail::MailboxPush::deadline);
  ASSERT_NE(message, nullptr);  // NOLINT(bugprone-use-after-move)
  mailbox.close();
  EXPECT_EQ(mailbox.push(std::move(message)), detail::MailboxPush::closed);
  EXPECT_NE(message, nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST(Mailbox, AfterCloseTheRestCanBeTakenAndThenNothing) {
  detail::Mailbox<int> mailbox;
  mailbox.push(7);
  mailbox.close();
  EXPECT_EQ(mailbox.pop(Deadline::never()), 7);
  EXPECT_FALSE(mailbox.pop(Deadline::never()).has_value());
}

TEST(Mailbox, CloseWakesEveryWaitingThread) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    ManualExecutor executor(seed);
    executor.run([&] {
      detail::Mailbox<int> empty;
      detail::Mailbox<int> full({.capacity = 1});
      full.push(0);
      std::vector<std::unique_ptr<detail::Joinable>> threads;
      for (int i = 0; i < 3; ++i) {
        threads.push_back(executor.spawn({.name = "popper"},
                                         [&] { EXPECT_FALSE(empty.pop(Deadline::never())); }));
        threads.push_back(executor.spawn(
            {.name = "pusher"}, [&] { EXPECT_EQ(full.push(1), detail::MailboxPush::closed); }));
      }
      detail::current_context().parker().park(Deadline::in(std::chrono::seconds(1)));
      empty.close();
      full.close();
      threads.clear();
    });
  }
}

TEST(Mailbox, APushIntoAFullOneWaitsForRoom) {
  ManualExecutor executor;
  executor.run([&] {
    detail::Mailbox<int> mailbox({.capacity = 2});
    int pushed = 0;
    const auto producer = executor.spawn({.name = "producer"}, [&] {
      for (; pushed < 5; ++pushed) {
        mailbox.push(static_cast<int>(pushed));
      }
    });
    detail::current_context().parker().park(Deadline::in(std::chrono::seconds(1)));
    EXPECT_EQ(pushed, 2);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(mailbox.pop(Deadline::never()), i);
    }
  });
}

namespace {

/// Two producers, two consumers, room for three messages; returns the sum of the consumed numbers.
int exchange_numbers(detail::Executor& executor) {
  detail::Mailbox<int> mailbox({.capacity = 3});
  std::vector<int> sums(2, 0);
  std::vector<std::unique_ptr<detail::Joinable>> producers;
  std::vector<std::unique_ptr<detail::Joinable>> consumers;
  for (int& sum : sums) {
    producers.push_back(executor.spawn({.name = "producer"}, [&] {
      for (int i = 1; i <= 1000; ++i) {
        mailbox.push(static_cast<int>(i));
      }
    }));
    consumers.push_back(executor.spawn({.name = "consumer"}, [&] {
      while (const auto number = mailbox.pop(Deadline::never())) {
        sum += *number;
      }
    }));
  }
  producers.clear();
  mailbox.close();
  consumers.clear();
  return sums[0] + sums[1];
}

}  // namespace

TEST(Mailbox, LosesNothingBetweenManyThreads) {
  ThreadExecutor executor;
  EXPECT_EQ(exchange_numbers(executor), 1'001'000);
}

TEST(Mailbox, LosesNothingInAnyOrderOfSteps) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ManualExecutor executor(seed);
    executor.run([&] { EXPECT_EQ(exchange_numbers(executor), 1'001'000) << "seed " << seed; });
  }
}
