// The store of plans: forms compared whole, room made by forgetting what is not used.
#include "runtime/device/plan_store.hpp"

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
