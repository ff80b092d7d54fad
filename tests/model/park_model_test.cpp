// Sleeping and waking (ParkWord) and counting (RefCounted), in every order of steps.
#include <hearth/runtime/base/intrusive_ptr.hpp>

#include "protocols.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::model {
namespace {

using ::testing::HasSubstr;

struct Bed {
  ModelParker parker;          // atomic 0
  Atomic<std::uint32_t> a{0};  // 1
  Atomic<std::uint32_t> b{0};  // 2
  int plain = 0;
};

void wait_for(Bed& bed, const Atomic<std::uint32_t>& flag) {
  while (flag.load(std::memory_order_relaxed) == 0) {
    bed.parker.park(Sleep::for_ever);
  }
}

// The flag itself orders nothing here; only the parker's word does.
Program one_wakes() {
  const auto bed = std::make_shared<Bed>();
  return {.threads = {[=] { wait_for(*bed, bed->a); },
                      [=] {
                        bed->a.store(1, std::memory_order_relaxed);
                        bed->parker.unpark();
                      }}};
}

Program two_wake() {
  const auto bed = std::make_shared<Bed>();
  return {.threads = {[=] {
                        wait_for(*bed, bed->a);
                        wait_for(*bed, bed->b);
                      },
                      [=] {
                        bed->a.store(1, std::memory_order_relaxed);
                        bed->parker.unpark();
                      },
                      [=] {
                        bed->b.store(1, std::memory_order_relaxed);
                        bed->parker.unpark();
                      }}};
}

// A token left from an earlier wait, then a real one.
Program wake_twice() {
  const auto bed = std::make_shared<Bed>();
  return {.threads = {[=] {
                        wait_for(*bed, bed->a);
                        wait_for(*bed, bed->b);
                      },
                      [=] {
                        bed->parker.unpark();
                        bed->a.store(1, std::memory_order_relaxed);
                        bed->parker.unpark();
                        bed->b.store(1, std::memory_order_relaxed);
                        bed->parker.unpark();
                      }}};
}

// The parked thread sees all writes before the unpark, without any other atomic.
Program hand_over() {
  const auto bed = std::make_shared<Bed>();
  return {.threads = {[=] {
                        bed->parker.park(Sleep::for_ever);
                        Atomics::record_read(&bed->plain);
                      },
                      [=] {
                        Atomics::record_write(&bed->plain);
                        bed->parker.unpark();
                      }}};
}

TEST(ParkModel, NoWakeIsLost) {
  for (const auto& program : {one_wakes, two_wake, wake_twice, hand_over}) {
    const CheckResult result = check(program);
    EXPECT_TRUE(result.is_complete) << *result.counterexample;
    EXPECT_GT(result.executions, 3U);
  }
}

TEST(ParkModel, WithALoadAndAStoreForAnExchangeAWakeIsLost) {
  for (const auto& program : {one_wakes, two_wake, wake_twice}) {
    const CheckResult result = check(program, {.weakened = {{0, Weakening::split}}});
    ASSERT_TRUE(result.counterexample.has_value());
    EXPECT_THAT(*result.counterexample, HasSubstr("a lost wake"));
  }
}

TEST(ParkModel, WithoutAnAcquireAWakeIsLost) {
  const CheckResult result = check(one_wakes, {.weakened = {{0, Weakening::no_acquire}}});
  ASSERT_TRUE(result.counterexample.has_value());
  EXPECT_THAT(*result.counterexample, HasSubstr("a lost wake"));
}

TEST(ParkModel, WithoutAReleaseAWakeIsLost) {
  const CheckResult result = check(one_wakes, {.weakened = {{0, Weakening::no_release}}});
  ASSERT_TRUE(result.counterexample.has_value());
  EXPECT_THAT(*result.counterexample, HasSubstr("a lost wake"));
}

TEST(ParkModel, WithoutOrderWhatIsHandedOverRaces) {
  for (const Weakening weakening : {Weakening::no_acquire, Weakening::no_release}) {
    const CheckResult result = check(hand_over, {.weakened = {{0, weakening}}});
    ASSERT_TRUE(result.counterexample.has_value());
    EXPECT_THAT(*result.counterexample, HasSubstr("a data race"));
  }
}

// ---- the reference count ----

struct Counted final : RefCounted<Counted, Atomics> {
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  // The last holder destroys an object that all threads have used.
  ~Counted() {
    Atomics::record_write(&plain);
    ++*deaths;
  }

  int plain = 0;
  int* deaths = nullptr;
};

Program share(int threads) {
  const auto deaths = std::make_shared<int>(0);
  auto first = IntrusivePtr<Counted>(std::make_unique<Counted>().release());  // atomic 0
  first->deaths = deaths.get();
  Program program;
  for (int i = 0; i < threads; ++i) {
    // Each thread copies its handle, reads through it and drops it.
    const auto handle = std::make_shared<IntrusivePtr<Counted>>(first);
    program.threads.push_back([handle] {
      IntrusivePtr<Counted> copy = *handle;
      Atomics::record_read(&copy->plain);
      *handle = nullptr;
      Atomics::record_read(&copy->plain);
    });
  }
  first = nullptr;
  program.at_end = [deaths] { require(*deaths == 1, "it did not die exactly once"); };
  return program;
}

TEST(RefCountModel, TheObjectDiesOnceAndAfterEveryUse) {
  for (const int threads : {2, 3}) {
    const CheckResult result = check([=] { return share(threads); });
    EXPECT_TRUE(result.is_complete) << *result.counterexample;
    EXPECT_GT(result.executions, 1U);
  }
}

TEST(RefCountModel, WithoutOrderTheObjectDiesUnderAReader) {
  for (const Weakening weakening : {Weakening::no_acquire, Weakening::no_release}) {
    const CheckResult result = check([] { return share(2); }, {.weakened = {{0, weakening}}});
    ASSERT_TRUE(result.counterexample.has_value());
    EXPECT_THAT(*result.counterexample, HasSubstr("a data race"));
  }
}

// One thread checks whether it is the only holder, like an in-place update, while the other drops
// its handle.
Program look_whether_alone() {
  const auto deaths = std::make_shared<int>(0);
  const auto object =
      std::make_shared<IntrusivePtr<Counted>>(std::make_unique<Counted>().release());
  (*object)->deaths = deaths.get();
  const auto other = std::make_shared<IntrusivePtr<Counted>>(*object);
  return {.threads = {[=] {
                        Atomics::record_read(&(*other)->plain);
                        *other = nullptr;
                      },
                      [=] {
                        if ((*object)->use_count() == 1) {
                          Atomics::record_write(&(*object)->plain);
                        }
                        *object = nullptr;
                      }},
          .at_end = [=] { require(*deaths == 1, "it did not die exactly once"); }};
}

TEST(RefCountModel, TheOnlyHolderMayWrite) {
  EXPECT_TRUE(check(look_whether_alone).is_complete);
  const CheckResult weak = check(look_whether_alone, {.weakened = {{0, Weakening::no_acquire}}});
  ASSERT_TRUE(weak.counterexample.has_value());
  EXPECT_THAT(*weak.counterexample, HasSubstr("a data race"));
}

}  // namespace
}  // namespace hearth::model
