#include <hearth/runtime/base/shape.hpp>

#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Shape, OfAScalarHasOneElement) {
  EXPECT_EQ(Shape{}.rank(), 0);
  EXPECT_EQ(Shape{}.element_count(), 1);
  EXPECT_EQ(Shape{}.to_string(), "[]");
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ((Shape{4, 8}).element_count(), 32);
  EXPECT_EQ((Shape{4, 0, 8}).element_count(), 0);
}

TEST(Shape, ComparesRankAndSizes) {
  EXPECT_EQ((Shape{4, 8}), (Shape{4, 8}));
  EXPECT_NE((Shape{4, 8}), (Shape{8, 4}));
  EXPECT_NE((Shape{4}), (Shape{4, 1}));
  EXPECT_NE((Shape{}), (Shape{0}));
}

TEST(Shape, CountsAxesFromTheEndToo) {
  const Shape shape{2, 4, 16, 32};
  EXPECT_EQ(shape[-1], 32);
  EXPECT_EQ(shape[-4], 2);
  EXPECT_EQ(shape[3], 32);
  for (const int axis : {-5, 4, 100}) {
    try {
      static_cast<void>(shape[axis]);
      ADD_FAILURE() << "there is an axis " << axis;
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.error().text,
                "shape: axis " + std::to_string(axis) +
                    " is outside [2, 4, 16, 32], whose axes are -4 to 3");
      EXPECT_THAT(error.error().location.file, ::testing::EndsWith("shape_test.cpp"));
    }
  }
  EXPECT_THROW(static_cast<void>(Shape()[0]), ArgumentError);
  EXPECT_THROW(static_cast<void>(Shape()[-1]), ArgumentError);
}

TEST(Shape, RefusesNegativeSizesAndNineDimensions) {
  EXPECT_THROW((Shape{4, -1}), ShapeError);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
  EXPECT_NO_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST(Shape, RefusesMoreElementsThanItsBytesCanCount) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 30;
  EXPECT_THROW((Shape{kHalf, kHalf}), ShapeError);
  EXPECT_THROW((Shape{kHalf, 0, kHalf}), ShapeError);
  EXPECT_NO_THROW((Shape{kHalf, kHalf / 2}));
}

TEST(Shape, PrintsItsSizes) {
  std::ostringstream text;
  text << Shape{4, 8} << ' ' << Shape{};
  EXPECT_EQ(text.str(), "[4, 8] []");
}

TEST(Shape, ComesOfVectors) {
  const Shape wide = std::vector<std::int64_t>{4, 8};
  const Shape narrow = std::vector<int>{4, 8};
  EXPECT_EQ(wide, (Shape{4, 8}));
  EXPECT_EQ(narrow, (Shape{4, 8}));
  EXPECT_THROW(Shape(std::vector<int>{-1}), ShapeError);
}

TEST(MakeShape, ReturnsWhatTheConstructorThrows) {
  const std::array<std::int64_t, 2> good{4, 8};
  const std::array<std::int64_t, 2> bad{4, -8};
  EXPECT_EQ(make_shape(good).value(), (Shape{4, 8}));
  EXPECT_EQ(make_shape(bad).error().text, "shape: dimension 1 is negative: -8");
}

TEST(ContiguousStrides, AreRowMajor) {
  const Strides strides = contiguous_strides(Shape{2, 3, 4});
  EXPECT_EQ(strides[0], 12);
  EXPECT_EQ(strides[1], 4);
  EXPECT_EQ(strides[2], 1);
  EXPECT_EQ(strides[3], 0);
}

TEST(Layout, IsContiguousOnlyWithoutGaps) {
  EXPECT_TRUE(detail::Layout(Shape{2, 3}, Strides{3, 1}).contiguous);
  EXPECT_FALSE(detail::Layout(Shape{2, 3}, Strides{4, 1}).contiguous);
  EXPECT_FALSE(detail::Layout(Shape{2, 3}, Strides{1, 2}).contiguous);
  EXPECT_FALSE(detail::Layout(Shape{2, 3}, Strides{3, -1}).contiguous);
}

TEST(Layout, IgnoresTheStrideOfAnAxisOfSizeOne) {
  EXPECT_TRUE(detail::Layout(Shape{1, 3}, Strides{99, 1}).contiguous);
}

TEST(Layout, WithoutElementsIsContiguous) {
  EXPECT_TRUE(detail::Layout(Shape{0, 3}, Strides{7, 5}).contiguous);
}

TEST(Broadcast, StretchesAxesOfSizeOne) {
  EXPECT_EQ(broadcast(Shape{4, 1, 8}, Shape{3, 1}).value(), (Shape{4, 3, 8}));
  EXPECT_EQ(broadcast(Shape{}, Shape{2, 3}).value(), (Shape{2, 3}));
}

TEST(Broadcast, TakesNoElementsFromAnAxisOfSizeZero) {
  EXPECT_EQ(broadcast(Shape{0}, Shape{1}).value(), (Shape{0}));
  EXPECT_FALSE(broadcast(Shape{0}, Shape{2}).has_value());
}

TEST(Broadcast, NamesBothShapesAndTheAxis) {
  EXPECT_EQ(broadcast(Shape{4, 8}, Shape{9, 8}).error().text,
            "shapes do not broadcast: [4, 8] and [9, 8] differ in axis -2");
}

TEST(Broadcast, RefusesAResultThatIsTooLarge) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 30;
  EXPECT_EQ(broadcast(Shape{kHalf, 1}, Shape{1, kHalf}).error().code, ErrorCode::shape_mismatch);
}

TEST(BroadcastStrides, StandStillOnStretchedAxes) {
  const Strides strides = broadcast_strides(detail::Layout(Shape{3, 1}), Shape{2, 3, 5});
  EXPECT_EQ(strides[0], 0);
  EXPECT_EQ(strides[1], 1);
  EXPECT_EQ(strides[2], 0);
}

TEST(NormalizeAxis, CountsNegativeAxesFromTheEnd) {
  EXPECT_EQ(normalize_axis("softmax", -1, 3).value(), 2);
  EXPECT_EQ(normalize_axis("softmax", 0, 3).value(), 0);
}

TEST(NormalizeAxis, NamesTheOpTheAxisAndTheRank) {
  EXPECT_EQ(normalize_axis("softmax", 3, 3).error().text,
            "softmax: axis 3 is outside a tensor of rank 3, whose axes are -3 to 2");
  EXPECT_FALSE(normalize_axis("softmax", -4, 3).has_value());
  EXPECT_FALSE(normalize_axis("softmax", 0, 0).has_value());
}

TEST(Describe, WritesDtypeAndShape) {
  EXPECT_EQ(describe(DType::bf16, Shape{4, 8}), "bf16[4, 8]");
}

}  // namespace
}  // namespace hearth
