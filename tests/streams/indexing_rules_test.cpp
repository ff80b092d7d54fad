#include <hearth/streams/shape_rules.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

namespace hearth {
namespace {

TensorSpec f32(std::initializer_list<std::int64_t> dims) {
  return {DType::f32, Shape(dims)};
}
TensorSpec i64(std::initializer_list<std::int64_t> dims) {
  return {DType::i64, Shape(dims)};
}

template <class T>
std::string text(const Result<T>& result) {
  return result.has_value() ? "no error" : result.error().text;
}

TEST(Gather, GivesTheShapeOfTheIndex) {
  EXPECT_EQ(rules::gather(f32({5, 3}), i64({9, 3}), 0).value().shape, (Shape{9, 3}));
  EXPECT_EQ(rules::gather(f32({5, 3}), i64({2, 9}), -1).value().shape, (Shape{2, 9}));
  EXPECT_EQ(rules::gather(f32({5, 0}), i64({2, 0}), 1).value().shape, (Shape{2, 0}));
  const TensorSpec bools{DType::boolean, {4}};
  EXPECT_EQ(rules::gather(bools, {DType::i32, {2}}, 0).value().dtype, DType::boolean);
}

TEST(Gather, RefusesAnIndexThatDoesNotFit) {
  EXPECT_EQ(text(rules::gather(f32({5, 3}), i64({4}), 0)),
            "gather: the index must have rank 2, as what it names: x f32[5, 3], index i64[4]");
  EXPECT_EQ(text(rules::gather(f32({5, 3}), i64({2, 4}), 0)),
            "gather: the index is longer than [5, 3] along axis 1: x f32[5, 3], index i64[2, 4]");
  EXPECT_EQ(text(rules::gather(f32({0, 3}), i64({2, 3}), 0)),
            "gather: axis 0 of [0, 3] has no elements: x f32[0, 3], index i64[2, 3]");
  EXPECT_EQ(text(rules::gather(f32({5}), f32({4}), 0)),
            "gather: the index must be i32 or i64: f32[5], f32[4]");
  EXPECT_FALSE(rules::gather(f32({}), i64({}), 0).has_value());
  EXPECT_FALSE(rules::gather(f32({5}), i64({4}), 1).has_value());
}

TEST(IndexSelect, PutsTheIndexInPlaceOfTheAxis) {
  EXPECT_EQ(rules::index_select(f32({5, 3}), i64({9}), 0).value().shape, (Shape{9, 3}));
  EXPECT_EQ(rules::index_select(f32({5, 3}), i64({0}), -1).value().shape, (Shape{5, 0}));
  EXPECT_EQ(text(rules::index_select(f32({5, 3}), i64({1, 9}), 0)),
            "index_select: the index must have rank 1: x f32[5, 3], index i64[1, 9]");
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(rules::index_select(f32({1, huge}), i64({huge}), 0).error().code,
            ErrorCode::shape_mismatch);
}

TEST(ScatterAdd, TakesWhatGatherWouldGive) {
  EXPECT_EQ(rules::scatter_add(f32({9, 2}), i64({9, 2}), {5, 3}, 0).value().shape, (Shape{5, 3}));
  EXPECT_EQ(text(rules::scatter_add(f32({9, 3}), i64({9, 2}), {5, 3}, 0)),
            "scatter_add: the source must be [9, 2]: source f32[9, 3], index i64[9, 2]");
  EXPECT_EQ(text(rules::scatter_add({DType::boolean, {2}}, i64({2}), {5}, 0)),
            "scatter_add: does not take bool, only f32, f64, f16, bf16, i32, i64, u8, i8: bool[2], "
            "i64[2]");
}

TEST(IndexAdd, TakesWhatIndexSelectWouldGive) {
  EXPECT_EQ(rules::index_add(f32({9, 3}), i64({9}), {5, 3}, 0).value().shape, (Shape{5, 3}));
  EXPECT_EQ(text(rules::index_add(f32({8, 3}), i64({9}), {5, 3}, 0)),
            "index_add: the source must be [9, 3]: source f32[8, 3], index i64[9]");
}

}  // namespace
}  // namespace hearth
