#include <hearth/parallel/bucket_plan.hpp>

#include <hearth/runtime/base/error.hpp>

#include <cstdint>

#include <gtest/gtest.h>

namespace hearth {
namespace {

ParameterForm form(std::int64_t count, DType dtype = DType::f32) {
  return {dtype, {count}};
}

TEST(BucketPlan, FillsFromTheLastParameterToTheFirst) {
  const BucketPlan plan({form(3), form(4), form(5)}, 1 << 20);
  ASSERT_EQ(plan.buckets().size(), 1U);
  const GradientBucket& bucket = plan.buckets()[0];
  EXPECT_EQ(bucket.element_count, 12);
  ASSERT_EQ(bucket.entries.size(), 3U);
  EXPECT_EQ(bucket.entries[0].parameter, 2U);
  EXPECT_EQ(bucket.entries[2].parameter, 0U);
  EXPECT_EQ(bucket.entries[2].offset, 9);
  EXPECT_EQ(bucket.entries[2].count, 3);
}

TEST(BucketPlan, RefusesAParameterThatIsNotThere) {
  const BucketPlan plan({form(3)}, 1 << 20);
  const std::uint32_t line = __LINE__ + 2;
  try {
    static_cast<void>(plan.place_of(1));
    FAIL() << "there is no parameter 1";
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.error().text,
              "BucketPlan: there is no parameter 1: there are 1, counted from 0");
    EXPECT_EQ(error.error().location.line, line);
  }
}

TEST(BucketPlan, ClosesABucketThatIsLargeEnough) {
  const BucketPlan plan({form(1), form(2), form(2), form(2), form(2)}, 4 * 5);
  ASSERT_EQ(plan.buckets().size(), 2U);
  EXPECT_EQ(plan.buckets()[0].element_count, 6);
  EXPECT_EQ(plan.buckets()[1].element_count, 3);
  EXPECT_EQ(plan.place_of(3)->bucket, 0U);
  EXPECT_EQ(plan.place_of(3)->entry, 1U);
}

TEST(BucketPlan, ALargeParameterIsABucketByItself) {
  const BucketPlan plan({form(1), form(3), form(1), form(10), form(2)}, 4 * 6);
  ASSERT_EQ(plan.buckets().size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(plan.buckets()[i].entries.size(), 1U);
    EXPECT_EQ(plan.place_of(i)->bucket, 4 - i);
  }
}

TEST(BucketPlan, KeepsTypesApart) {
  const BucketPlan plan({form(1), form(1, DType::f16), form(1), form(1)}, 1 << 20);
  ASSERT_EQ(plan.buckets().size(), 3U);
  EXPECT_EQ(plan.buckets()[0].dtype, DType::f32);
  EXPECT_EQ(plan.buckets()[0].element_count, 2);
  EXPECT_EQ(plan.buckets()[1].dtype, DType::f16);
}

TEST(BucketPlan, LeavesIntegersOut) {
  const BucketPlan plan({form(7, DType::i64), form(2)}, 1 << 20);
  ASSERT_EQ(plan.buckets().size(), 1U);
  EXPECT_EQ(plan.buckets()[0].element_count, 2);
  EXPECT_FALSE(plan.place_of(0).has_value());
  EXPECT_TRUE(BucketPlan({form(7, DType::i64)}, 1).buckets().empty());
}

}  // namespace
}  // namespace hearth
