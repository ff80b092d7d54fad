#include <hearth/streams/shape_rules.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

TensorSpec f32(std::initializer_list<std::int64_t> dims) {
  return {DType::f32, Shape(dims)};
}
TensorSpec f16_of(std::initializer_list<std::int64_t> dims) {
  return {DType::f16, Shape(dims)};
}
TensorSpec i32(std::initializer_list<std::int64_t> dims) {
  return {DType::i32, Shape(dims)};
}
TensorSpec i64(std::initializer_list<std::int64_t> dims) {
  return {DType::i64, Shape(dims)};
}
TensorSpec boolean(std::initializer_list<std::int64_t> dims) {
  return {DType::boolean, Shape(dims)};
}

template <class T>
std::string text(const Result<T>& result) {
  return result.has_value() ? "no error" : result.error().text;
}

Result<DType> dtype(OpKind kind, const std::vector<TensorSpec>& inputs) {
  return rules::result_dtype(kind, inputs);
}

constexpr std::int64_t kHuge = std::int64_t{1} << 40;

TEST(ResultDtype, FollowsTheRow) {
  EXPECT_EQ(dtype(OpKind::add, {i32({4}), i32({4})}).value(), DType::i32);
  EXPECT_EQ(dtype(OpKind::less, {i32({4}), i32({4})}).value(), DType::boolean);
  EXPECT_EQ(dtype(OpKind::argmax, {f32({4})}).value(), DType::i64);
  EXPECT_EQ(dtype(OpKind::where, {boolean({4}), i64({4}), i64({4})}).value(), DType::i64);
  EXPECT_EQ(dtype(OpKind::cross_entropy, {f16_of({4, 8}), i64({4})}).value(), DType::f16);
  EXPECT_EQ(dtype(OpKind::cross_entropy_backward, {f32({4}), f32({4, 8}), i32({4})}).value(),
            DType::f32);
  EXPECT_EQ(dtype(OpKind::max_pool2d_backward, {f16_of({4}), i32({4})}).value(), DType::f16);
}

TEST(ResultDtype, TakesOneInputBesideAScalar) {
  EXPECT_EQ(dtype(OpKind::mul, {f16_of({4})}).value(), DType::f16);
}

TEST(ResultDtype, SaysWhichOperandsDiffer) {
  const Result<DType> result = dtype(OpKind::add, {f32({4}), i32({4})});
  EXPECT_EQ(result.error().code, ErrorCode::dtype_mismatch);
  EXPECT_EQ(result.error().op, "add");
  EXPECT_EQ(text(result), "add: element types differ: lhs f32[4], rhs i32[4]");
}

TEST(ResultDtype, SaysWhatTheOpTakes) {
  EXPECT_EQ(text(dtype(OpKind::exp, {i32({4})})),
            "exp: does not take i32, only f32, f64, f16, bf16: i32[4]");
  EXPECT_EQ(text(dtype(OpKind::add, {boolean({4}), boolean({4})})),
            "add: does not take bool, only f32, f64, f16, bf16, i32, i64, u8, i8: lhs bool[4], rhs "
            "bool[4]");
}

TEST(ResultDtype, ChecksTheOperandsThatHaveAnotherType) {
  EXPECT_EQ(text(dtype(OpKind::where, {f32({4}), f32({4}), f32({4})})),
            "where: the condition is not bool: f32[4], f32[4], f32[4]");
  EXPECT_EQ(text(dtype(OpKind::cross_entropy, {f32({4, 8}), f32({4})})),
            "cross_entropy: targets must be i32 or i64: f32[4, 8], f32[4]");
  EXPECT_EQ(text(dtype(OpKind::max_pool2d_backward, {f32({4}), i64({4})})),
            "max_pool2d_backward: positions must be i32: f32[4], i64[4]");
}

TEST(ResultDtype, CountsTheInputs) {
  EXPECT_EQ(text(dtype(OpKind::relu, {})), "relu: takes 1 inputs, was given 0");
  EXPECT_EQ(text(dtype(OpKind::matmul, {f32({1, 1})})), "matmul: takes 2 to 3 inputs, was given 1");
  EXPECT_EQ(text(dtype(OpKind::concat, {})), "concat: takes 1 or more inputs, was given 0");
  EXPECT_EQ(dtype(OpKind::relu, {}).error().code, ErrorCode::invalid_argument);
}

TEST(Binary, Broadcasts) {
  const TensorSpec result = rules::binary(OpKind::less, f32({4, 1}), f32({8})).value();
  EXPECT_EQ(result.dtype, DType::boolean);
  EXPECT_EQ(result.shape, (Shape{4, 8}));
}

TEST(Binary, ShowsBothOperands) {
  const Result<TensorSpec> result = rules::binary(OpKind::add, f32({4, 8}), f32({9, 3}));
  EXPECT_EQ(result.error().code, ErrorCode::shape_mismatch);
  EXPECT_EQ(text(result), "add: shapes do not broadcast: lhs f32[4, 8], rhs f32[9, 3]");
}

TEST(Where, BroadcastsAllThree) {
  EXPECT_EQ(rules::where(boolean({3, 1}), f32({4}), f32({})).value().shape, (Shape{3, 4}));
  EXPECT_EQ(text(rules::where(boolean({5}), f32({4}), f32({}))),
            "where: shapes do not broadcast: condition bool[5], a f32[4], b f32[]");
}

Result<Shape> reshape(const Shape& from, const std::vector<std::int64_t>& to) {
  return rules::reshape(from, to);
}

TEST(Reshape, WorksOutOneMissingSize) {
  EXPECT_EQ(reshape(Shape{4, 6}, {3, -1}).value(), (Shape{3, 8}));
  EXPECT_EQ(reshape(Shape{4, 6}, {24}).value(), (Shape{24}));
  EXPECT_EQ(reshape(Shape{1}, {}).value(), (Shape{}));
  EXPECT_EQ(reshape(Shape{0, 6}, {-1, 3}).value(), (Shape{0, 3}));
}

TEST(Reshape, NeedsTheSameNumberOfElements) {
  EXPECT_EQ(text(reshape(Shape{4, 6}, {5, 5})), "reshape: [4, 6] has 24 elements, [5, 5] has 25");
}

TEST(Reshape, RefusesASizeThatCannotBeWorkedOut) {
  EXPECT_EQ(text(reshape(Shape{4, 6}, {-1, 5})),
            "reshape: -1 cannot be worked out from [4, 6] to [-1, 5]");
  EXPECT_EQ(text(reshape(Shape{4, 6}, {-1, -1})),
            "reshape: -1 cannot be worked out from [4, 6] to [-1, -1]");
  EXPECT_EQ(text(reshape(Shape{0, 6}, {0, -1})),
            "reshape: -1 cannot be worked out from [0, 6] to [0, -1]");
  EXPECT_FALSE(reshape(Shape{4}, {-2}).has_value());
  EXPECT_FALSE(reshape(Shape{4}, {-1, -2}).has_value());
  EXPECT_FALSE(reshape(Shape{4}, {kHuge, kHuge, -1}).has_value());
}

TEST(Reshape, RefusesNineDimensions) {
  EXPECT_FALSE(reshape(Shape{1}, std::vector<std::int64_t>(9, 1)).has_value());
  EXPECT_FALSE(reshape(Shape{1}, std::vector<std::int64_t>(50, 1)).has_value());
}

Result<Shape> permute(const Shape& from, const std::vector<int>& axes) {
  return rules::permute(from, axes);
}

TEST(Permute, ReordersTheAxes) {
  EXPECT_EQ(permute(Shape{2, 3, 4}, {2, 0, 1}).value(), (Shape{4, 2, 3}));
  EXPECT_EQ(permute(Shape{2, 3, 4}, {-1, 0, -2}).value(), (Shape{4, 2, 3}));
  EXPECT_EQ(permute(Shape{}, {}).value(), (Shape{}));
}

TEST(Permute, NeedsEachAxisOnce) {
  EXPECT_EQ(text(permute(Shape{2, 3}, {0, -2})),
            "permute: axes [0, -2] do not name each axis of [2, 3] once");
  EXPECT_FALSE(permute(Shape{2, 3}, {0}).has_value());
  EXPECT_FALSE(permute(Shape{2, 3}, {0, 2}).has_value());
}

TEST(Expand, StretchesAxesOfSizeOneAndAddsLeadingOnes) {
  EXPECT_EQ(rules::expand(Shape{3, 1}, Shape{2, 3, 4}).value(), (Shape{2, 3, 4}));
  EXPECT_EQ(rules::expand(Shape{1}, Shape{0}).value(), (Shape{0}));
}

TEST(Expand, RefusesToShrinkOrToDropAxes) {
  EXPECT_EQ(text(rules::expand(Shape{3}, Shape{4})), "expand: [3] does not broadcast to [4]");
  EXPECT_FALSE(rules::expand(Shape{3}, Shape{1}).has_value());
  EXPECT_FALSE(rules::expand(Shape{1, 3}, Shape{3}).has_value());
}

// The indices of Python's range(size)[start:stop:step].
std::vector<std::int64_t> sliced(std::int64_t size,
                                 std::int64_t start,
                                 std::int64_t stop,
                                 std::int64_t step) {
  SliceAttributes attributes;
  const Shape shape = rules::slice(Shape{2, size}, 1, start, stop, step, &attributes).value();
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(attributes.start[0], 0);
  EXPECT_EQ(attributes.step[0], 1);
  EXPECT_EQ(attributes.step[2], 0);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < shape[1]; ++i) {
    indices.push_back(attributes.start[1] + i * attributes.step[1]);
  }
  return indices;
}

TEST(Slice, FollowsPython) {
  using Indices = std::vector<std::int64_t>;
  constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(sliced(5, 1, 4, 1), (Indices{1, 2, 3}));
  EXPECT_EQ(sliced(5, 0, 5, 2), (Indices{0, 2, 4}));
  EXPECT_EQ(sliced(5, -2, kHighest, 1), (Indices{3, 4}));
  EXPECT_EQ(sliced(5, 3, -4, 1), (Indices{}));
  EXPECT_EQ(sliced(5, 4, kLowest, -2), (Indices{4, 2, 0}));
  EXPECT_EQ(sliced(5, 3, 0, -1), (Indices{3, 2, 1}));
  EXPECT_EQ(sliced(5, kLowest, kHighest, kHighest), (Indices{0}));
  EXPECT_EQ(sliced(5, kHighest, kLowest, kLowest), (Indices{4}));
  EXPECT_EQ(sliced(0, 0, 5, 1), (Indices{}));
  EXPECT_EQ(sliced(0, kHighest, kLowest, -1), (Indices{}));
}

TEST(Slice, RefusesAStepOfZeroAndAForeignAxis) {
  SliceAttributes attributes;
  EXPECT_EQ(text(rules::slice(Shape{2, 3}, 1, 0, 1, 0, &attributes)),
            "slice: the step along axis 1 of [2, 3] is 0");
  EXPECT_EQ(text(rules::slice(Shape{2, 3}, 2, 0, 1, 1, &attributes)),
            "slice: axis 2 is outside a tensor of rank 2, whose axes are -2 to 1");
}

Result<TensorSpec> concat(const std::vector<TensorSpec>& inputs, int axis) {
  return rules::concat(inputs, axis);
}

TEST(Concat, AddsTheLengths) {
  EXPECT_EQ(concat({f32({2, 3}), f32({2, 0}), f32({2, 4})}, -1).value().shape, (Shape{2, 7}));
  EXPECT_EQ(concat({i64({2, 3})}, 0).value().shape, (Shape{2, 3}));
}

TEST(Concat, NamesTheInputThatDiffers) {
  EXPECT_EQ(text(concat({f32({2, 3}), f32({2, 3}), f32({3, 3})}, 1)),
            "concat: input 2 differs outside axis 1: input 0 f32[2, 3], input 2 f32[3, 3]");
  EXPECT_FALSE(concat({f32({2, 3}), f32({2})}, 1).has_value());
  EXPECT_FALSE(concat({f32({}), f32({})}, 0).has_value());
  EXPECT_EQ(concat({f32({2}), i32({2})}, 0).error().code, ErrorCode::dtype_mismatch);
}

TEST(Concat, RefusesAResultThatIsTooLarge) {
  const TensorSpec half = f32({std::int64_t{1} << 58});
  EXPECT_EQ(concat({half, half, half}, 0).error().code, ErrorCode::shape_mismatch);
}

Result<Shape> reduce(OpKind kind, const Shape& from, const std::vector<int>& axes, bool keep_dims) {
  ReduceAttributes attributes;
  return rules::reduce(kind, from, axes, keep_dims, &attributes);
}

TEST(Reduce, DropsOrKeepsTheAxes) {
  EXPECT_EQ(reduce(OpKind::reduce_sum, Shape{2, 3, 4}, {0, -1}, false).value(), (Shape{3}));
  EXPECT_EQ(reduce(OpKind::reduce_sum, Shape{2, 3, 4}, {0, -1}, true).value(), (Shape{1, 3, 1}));
  EXPECT_EQ(reduce(OpKind::reduce_sum, Shape{2, 3, 4}, {}, false).value(), (Shape{}));
  EXPECT_EQ(reduce(OpKind::reduce_sum, Shape{}, {}, true).value(), (Shape{}));
}

TEST(Reduce, FillsTheMask) {
  ReduceAttributes attributes;
  const std::array axes{2, 0};
  EXPECT_TRUE(
      rules::reduce(OpKind::reduce_sum, Shape{2, 3, 4}, axes, true, &attributes).has_value());
  EXPECT_EQ(attributes.axes, 0b101U);
  EXPECT_EQ(attributes.keep_dims, 1U);
  EXPECT_TRUE(rules::reduce(OpKind::reduce_sum, Shape{2, 3}, {}, false, &attributes).has_value());
  EXPECT_EQ(attributes.axes, 0b11U);
}

TEST(Reduce, RefusesAnAxisTwice) {
  EXPECT_EQ(text(reduce(OpKind::reduce_sum, Shape{2, 3}, {1, -1}, false)),
            "sum: axes [1, -1] name axis 1 twice");
}

TEST(Reduce, HasNoMaximumOfNothing) {
  EXPECT_EQ(text(reduce(OpKind::reduce_max, Shape{2, 0}, {1}, false)),
            "max: axis 1 of [2, 0] has no elements");
  EXPECT_EQ(reduce(OpKind::reduce_sum, Shape{2, 0}, {1}, false).value(), (Shape{2}));
  EXPECT_EQ(reduce(OpKind::reduce_max, Shape{2, 0}, {0}, false).value(), (Shape{0}));
  EXPECT_EQ(text(reduce(OpKind::reduce_min, Shape{2, 0}, {1}, false)),
            "min: axis 1 of [2, 0] has no elements");
  EXPECT_EQ(reduce(OpKind::reduce_prod, Shape{2, 0}, {1}, false).value(), (Shape{2}));
}

TEST(Position, DropsOrKeepsItsAxis) {
  constexpr OpKind kMax = OpKind::argmax;
  EXPECT_EQ(rules::position(kMax, Shape{2, 3}, -1, false).value(), (Shape{2}));
  EXPECT_EQ(rules::position(kMax, Shape{2, 3}, 0, true).value(), (Shape{1, 3}));
  EXPECT_EQ(text(rules::position(kMax, Shape{2, 0}, 1, false)),
            "argmax: axis 1 of [2, 0] has no elements");
  EXPECT_EQ(text(rules::position(OpKind::argmin, Shape{}, 0, false)),
            "argmin: axis 0 is outside a tensor of rank 0, which has no axes");
}

}  // namespace
}  // namespace hearth
