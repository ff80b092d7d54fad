// Tests of the checker: small programs whose outcomes follow from the C++ memory model.
#include "model.hpp"

#include <functional>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::model {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kBoth = std::memory_order_acq_rel;

struct Two {
  Atomic<std::uint32_t> x{0};
  Atomic<std::uint32_t> y{0};
  std::uint32_t a = 9;
  std::uint32_t b = 9;
  int plain = 0;
};

using Outcomes = std::set<std::pair<std::uint32_t, std::uint32_t>>;

/// The possible values of (a, b) after both threads.
Outcomes outcomes_of(const std::function<void(Two&)>& first,
                     const std::function<void(Two&)>& second) {
  Outcomes outcomes;
  const CheckResult result = check([&] {
    const auto two = std::make_shared<Two>();
    return Program{.threads = {[=] { first(*two); }, [=] { second(*two); }},
                   .at_end = [=, &outcomes] {
                     outcomes.insert({two->a, two->b});
                   }};
  });
  EXPECT_TRUE(result.is_complete) << result.counterexample.value_or("");
  return outcomes;
}

TEST(Checker, StoresLingerInBuffers) {
  EXPECT_THAT(outcomes_of(
                  [](Two& two) {
                    two.x.store(1, kRelease);
                    two.a = two.y.load(kAcquire);
                  },
                  [](Two& two) {
                    two.y.store(1, kRelease);
                    two.b = two.x.load(kAcquire);
                  }),
              UnorderedElementsAre(
                  std::pair(0U, 0U), std::pair(0U, 1U), std::pair(1U, 0U), std::pair(1U, 1U)));
}

TEST(Checker, ExchangesOnOneWordOrderWhatIsAroundThem) {
  // A lane's rung word: x is the record, y the word.
  EXPECT_THAT(outcomes_of(
                  [](Two& two) {
                    two.x.store(1, kRelease);
                    two.a = two.y.exchange(1, kBoth);
                  },
                  [](Two& two) {
                    two.y.exchange(2, kBoth);
                    two.b = two.x.load(kAcquire);
                  }),
              UnorderedElementsAre(std::pair(0U, 1U), std::pair(2U, 0U), std::pair(2U, 1U)))
      << "an exchange that saw nothing was first, so the other sees the record";
}

TEST(Checker, AMessageThatIsReleasedAndAcquiredIsSeenWhole) {
  const auto send = [](Two& two) {
    two.x.store(1, kRelaxed);
    two.y.store(1, kRelease);
  };
  EXPECT_THAT(outcomes_of(send,
                          [](Two& two) {
                            two.a = two.y.load(kAcquire);
                            two.b = two.x.load(kRelaxed);
                          }),
              UnorderedElementsAre(std::pair(0U, 0U), std::pair(0U, 1U), std::pair(1U, 1U)));
  EXPECT_THAT(outcomes_of(send,
                          [](Two& two) {
                            two.a = two.y.load(kRelaxed);
                            two.b = two.x.load(kRelaxed);
                          }),
              ::testing::Contains(std::pair(1U, 0U)))
      << "a relaxed load acquires nothing";
}

TEST(Checker, LoadsOfOneWordNeverGoBack) {
  const Outcomes seen = outcomes_of(
      [](Two& two) {
        two.x.store(1, kRelaxed);
        two.x.store(2, kRelaxed);
      },
      [](Two& two) {
        two.a = two.x.load(kRelaxed);
        two.b = two.x.load(kRelaxed);
      });
  EXPECT_EQ(seen.size(), 6U);
  for (const auto& [first, second] : seen) {
    EXPECT_LE(first, second);
  }
}

TEST(Checker, AReleaseSequenceGoesOnThroughExchanges) {
  EXPECT_THAT(outcomes_of(
                  [](Two& two) {
                    two.x.store(1, kRelaxed);
                    two.y.store(1, kRelease);
                    two.y.fetch_add(1, kRelaxed);
                  },
                  [](Two& two) {
                    two.a = two.y.load(kAcquire);
                    two.b = two.x.load(kRelaxed);
                  }),
              UnorderedElementsAre(
                  std::pair(0U, 0U), std::pair(0U, 1U), std::pair(1U, 1U), std::pair(2U, 1U)));
}

TEST(Checker, AddsAreNeverLostAndLoadsWithStoresAre) {
  const auto total = [](bool atomic) {
    std::set<std::uint32_t> totals;
    const CheckResult result = check([&] {
      const auto count = std::make_shared<Two>();
      const auto add = [=] {
        if (atomic) {
          count->x.fetch_add(1, kRelaxed);
        } else {
          count->x.store(count->x.load(kAcquire) + 1, kRelease);
        }
      };
      return Program{.threads = {add, add, add},
                     .at_end = [=, &totals] { totals.insert(count->x.load(kAcquire)); }};
    });
    EXPECT_TRUE(result.is_complete);
    return totals;
  };
  EXPECT_THAT(total(true), UnorderedElementsAre(3U));
  EXPECT_THAT(total(false), UnorderedElementsAre(1U, 2U, 3U));
}

TEST(Checker, OneOfTwoComparesWins) {
  std::set<std::uint32_t> winners;
  const CheckResult result = check([&] {
    const auto two = std::make_shared<Two>();
    const auto claim = [two](std::uint32_t who) {
      std::uint32_t expected = 0;
      if (two->x.compare_exchange_strong(expected, who, kBoth, kAcquire)) {
        two->y.fetch_add(1, kBoth);
        Atomics::record_write(&two->plain);
      }
    };
    return Program{.threads = {[=] { claim(1); }, [=] { claim(2); }}, .at_end = [=, &winners] {
                     require(two->y.load(kAcquire) == 1, "two have claimed it");
                     winners.insert(two->x.load(kAcquire));
                   }};
  });
  EXPECT_TRUE(result.is_complete) << *result.counterexample;
  EXPECT_THAT(winners, UnorderedElementsAre(1U, 2U));
}

Program hand_over_plain_memory(std::memory_order store, std::memory_order load) {
  const auto two = std::make_shared<Two>();
  return {.threads = {[=] {
                        Atomics::record_write(&two->plain);
                        two->x.store(1, store);
                      },
                      [=] {
                        if (two->x.load(load) == 1) {
                          Atomics::record_read(&two->plain);
                          Atomics::record_write(&two->plain);
                        }
                      }}};
}

TEST(Checker, PlainMemoryNeedsAReleaseAndAnAcquire) {
  EXPECT_TRUE(check([] { return hand_over_plain_memory(kRelease, kAcquire); }).is_complete);
  for (const auto& [store, load] : {std::pair(kRelaxed, kAcquire), std::pair(kRelease, kRelaxed)}) {
    const CheckResult result =
        check([store = store, load = load] { return hand_over_plain_memory(store, load); });
    ASSERT_TRUE(result.counterexample.has_value());
    EXPECT_THAT(*result.counterexample, HasSubstr("a data race"));
  }
}

TEST(Checker, AnAccessAfterAReleaseIsNotCarriedByIt) {
  const CheckResult result = check([] {
    const auto two = std::make_shared<Two>();
    return Program{.threads = {[=] {
                                 two->x.store(1, kRelease);
                                 Atomics::record_write(&two->plain);
                               },
                               [=] {
                                 if (two->x.load(kAcquire) == 1) {
                                   Atomics::record_read(&two->plain);
                                 }
                               }}};
  });
  ASSERT_TRUE(result.counterexample.has_value());
  EXPECT_THAT(*result.counterexample, HasSubstr("a data race"));
}

TEST(Checker, ASleeperThatNobodyWakesIsALostWake) {
  const CheckResult result = check([] {
    const auto two = std::make_shared<Two>();
    return Program{.threads = {[=] {
                                 if (two->x.load(kAcquire) == 0) {
                                   two->y.sleep_while(0, Sleep::for_ever);
                                 }
                               },
                               [=] {
                                 two->x.store(1, kRelease);
                                 two->y.wake_one();
                               }}};
  });
  ASSERT_TRUE(result.counterexample.has_value());
  EXPECT_THAT(*result.counterexample, HasSubstr("a lost wake"));
  EXPECT_THAT(*result.counterexample, HasSubstr("thread 1: atomic 0 load saw 0"));
}

TEST(Checker, AWordThatHasChangedLetsNobodySleep) {
  const CheckResult result = check([] {
    const auto two = std::make_shared<Two>();
    return Program{.threads = {[=] { two->y.sleep_while(0, Sleep::for_ever); },
                               [=] {
                                 two->y.store(1, kRelease);
                                 two->y.wake_one();
                               }}};
  });
  EXPECT_TRUE(result.is_complete) << *result.counterexample;
}

TEST(Checker, ADeadlineWakesWhenNobodyElseCanGoOn) {
  EXPECT_TRUE(check([] {
                const auto two = std::make_shared<Two>();
                return Program{.threads = {[=] { two->y.sleep_while(0, Sleep::with_deadline); }}};
              }).is_complete);
}

TEST(Checker, APollWithoutEndIsReported) {
  const CheckResult result = check([] {
    const auto two = std::make_shared<Two>();
    return Program{.threads = {[=] {
                     while (two->x.load(kAcquire) == 0) {
                     }
                   }}};
  });
  ASSERT_TRUE(result.counterexample.has_value());
  EXPECT_THAT(*result.counterexample, HasSubstr("polls without end"));
}

TEST(Checker, IndependentStepsAreNotTriedInEveryOrder) {
  const auto executions = [](bool same_word) {
    return check([=] {
             const auto two = std::make_shared<Two>();
             const auto count = [two](Atomic<std::uint32_t>& word) {
               for (int i = 0; i < 4; ++i) {
                 word.fetch_add(1, kBoth);
               }
             };
             return Program{
                 .threads = {[=] { count(two->x); }, [=] { count(same_word ? two->x : two->y); }}};
           })
        .executions;
  };
  EXPECT_EQ(executions(false), 1U);
  EXPECT_EQ(executions(true), 70U) << "eight steps, four of them of the first: 8! / (4! 4!)";
}

TEST(Checker, ASplitExchangeLosesWhatAWholeOneKeeps) {
  const auto program = [] {
    const auto two = std::make_shared<Two>();
    const auto claim = [two] {
      if (two->x.exchange(1, kBoth) == 0) {
        two->y.fetch_add(1, kBoth);
      }
    };
    return Program{.threads = {claim, claim},
                   .at_end = [=] { require(two->y.load(kAcquire) == 1, "two have claimed it"); }};
  };
  EXPECT_TRUE(check(program).is_complete);
  const CheckResult split = check(program, {.weakened = {{0, Weakening::split}}});
  ASSERT_TRUE(split.counterexample.has_value());
  EXPECT_THAT(*split.counterexample, HasSubstr("two have claimed it"));
}

/// Small random programs: each thread's final observations over all executions.
class RandomOutcomes {
 public:
  using Seen = std::vector<std::uint32_t>;

  RandomOutcomes(std::uint32_t seed, std::size_t threads, std::size_t steps) : threads_(threads) {
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < threads * steps; ++i) {
      steps_.push_back({.kind = random() % 5,
                        .word = random() % 2,
                        .order = random() % 2,
                        .value = static_cast<std::uint32_t>(i + 1)});
    }
  }
  [[nodiscard]] std::set<Seen> of(const CheckOptions& options) const {
    std::set<Seen> outcomes;
    const CheckResult result = check(
        [&] {
          const auto words = std::make_shared<Two>();
          const auto seen = std::make_shared<Seen>(steps_.size());
          Program program;
          for (std::size_t thread = 0; thread < threads_; ++thread) {
            program.threads.push_back([this, words, seen, thread] {
              for (std::size_t i = thread; i < steps_.size(); i += threads_) {
                (*seen)[i] = do_step(steps_[i], *words);
              }
            });
          }
          program.at_end = [seen, &outcomes] { outcomes.insert(*seen); };
          return program;
        },
        options);
    EXPECT_TRUE(result.is_complete) << result.counterexample.value_or("");
    return outcomes;
  }

 private:
  struct Random {
    std::uint64_t kind = 0;
    std::uint64_t word = 0;
    std::uint64_t order = 0;
    std::uint32_t value = 0;
  };
  static std::uint32_t do_step(const Random& step, Two& words) {
    Atomic<std::uint32_t>& word = step.word == 0 ? words.x : words.y;
    const bool orders = step.order == 0;
    std::uint32_t expected = step.value / 2;
    switch (step.kind) {
      case 0:
      case 1:
        return word.load(orders ? kAcquire : kRelaxed);
      case 2:
        word.store(step.value, orders ? kRelease : kRelaxed);
        return 0;
      case 3:
        return word.exchange(step.value, orders ? kBoth : kRelaxed);
      default:
        word.compare_exchange_strong(expected, step.value, orders ? kBoth : kRelaxed, kRelaxed);
        return expected;
    }
  }

  std::size_t threads_;
  std::vector<Random> steps_;
};

TEST(Checker, WhatItLeavesOutShowsNothingNew) {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    const std::size_t threads = 2 + seed % 2;
    const RandomOutcomes program(seed, threads, threads == 2 ? 4 : 2);
    EXPECT_EQ(program.of({}), program.of({.skips_equal_ones = false})) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hearth::model
