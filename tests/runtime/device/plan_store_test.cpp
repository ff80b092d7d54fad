// The store of plans: forms are compared whole, and unused plans are evicted.
#include "runtime/device/fusion/plan_store.hpp"

#include <array>

#include <gtest/gtest.h>

namespace hearth {
namespace {

using Form = std::array<std::uint64_t, 2>;

TEST(PlanStore, FindsAFormByAllOfItsWords) {
  PlanStore store;
  EXPECT_EQ(store.find(Form{1, 2}), nullptr);
  static_cast<void>(store.keep(Form{1, 2}, nullptr));
  ASSERT_NE(store.find(Form{1, 2}), nullptr);
  EXPECT_EQ(store.find(Form{2, 1}), nullptr);
  EXPECT_EQ(store.find(std::array<std::uint64_t, 1>{1}), nullptr);
  EXPECT_EQ(store.size(), 1U);
}

TEST(PlanStore, TellsFormsOfOneHashApart) {
  // The hash of two words folds the second into that of the first, which starts from the count.
  const auto of_first = [](std::uint64_t word) {
    return PlanStore::hash_of(std::array<std::uint64_t, 1>{word ^ 1U ^ 2U});
  };
  const Form form{1, 2};
  const Form other{3, 2 ^ of_first(1) ^ of_first(3)};
  ASSERT_EQ(PlanStore::hash_of(form), PlanStore::hash_of(other));
  PlanStore store;
  static_cast<void>(store.keep(form, nullptr));
  EXPECT_EQ(store.find(other), nullptr);
  const PlanStore::Plan& second = store.keep(other, nullptr);
  EXPECT_EQ(store.find(other), &second);
  EXPECT_NE(store.find(form), &second);
  EXPECT_EQ(store.size(), 2U);
}

TEST(PlanStore, ForgetsWhatWasNotUsedSinceTheLastTime) {
  PlanStore store;
  for (std::uint64_t i = 0; i < PlanStore::kMostPlans; ++i) {
    static_cast<void>(store.keep(Form{i, 0}, nullptr));
  }
  EXPECT_TRUE(store.is_full());
  store.evict();  // all were new, and used
  EXPECT_EQ(store.size(), 0U);
  for (std::uint64_t i = 0; i < 100; ++i) {
    static_cast<void>(store.keep(Form{i, 0}, nullptr));
  }
  store.evict();
  EXPECT_EQ(store.size(), 100U) << "they were new";
  static_cast<void>(store.find(Form{7, 0}));
  store.evict();
  EXPECT_EQ(store.size(), 1U);
  EXPECT_NE(store.find(Form{7, 0}), nullptr);
}

}  // namespace
}  // namespace hearth
