#include <hearth/runtime/base/wait_list.hpp>

#include <gtest/gtest.h>

using namespace hearth;

TEST(WaitList, TakesNodesInTheOrderInWhichTheyCame) {
  detail::WaitList list;
  detail::WaitNode first;
  detail::WaitNode second;
  detail::WaitNode third;
  list.add(first);
  list.add(second);
  list.add(second);
  list.add(third);
  list.remove(second);
  EXPECT_EQ(list.first(), &first);
  EXPECT_EQ(first.next(), &third);
  EXPECT_EQ(list.take_first().get(), &detail::current_context().parker());
  EXPECT_EQ(list.first(), &third);
  EXPECT_TRUE(list.take_first());
  EXPECT_FALSE(list.take_first());
  EXPECT_TRUE(list.empty());
}

TEST(WaitList, RemovingANodeThatWasTakenChangesNothing) {
  detail::WaitList list;
  detail::WaitNode first;
  detail::WaitNode second;
  list.add(first);
  list.add(second);
  static_cast<void>(list.take(first));
  list.remove(first);
  EXPECT_EQ(list.first(), &second);
  list.add(first);
  EXPECT_EQ(second.next(), &first);
  list.remove(second);
  list.remove(first);
  EXPECT_TRUE(list.empty());
}
