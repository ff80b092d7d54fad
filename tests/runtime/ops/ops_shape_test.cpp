// Views, reductions, contractions and rows: values and refused mistakes, on the reference device.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "tests/runtime/reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace hearth {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::thrown_text;
using OpsShapeTest = testing::ReferenceTest;

using Dims = std::initializer_list<std::int64_t>;

// These functions consist of ops with other names.
TEST_F(OpsShapeTest, MistakesNameWhatTheCallerWrote) {
  const auto mistake = [](const auto& call) {
    try {
      static_cast<void>(call());
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.error().text, StartsWith(error.error().op + ": "));
      EXPECT_THAT(error.error().location.file, EndsWith("ops_shape_test.cpp"));
      return error.error().op;
    }
    return std::string("nothing was refused");
  };
  const Tensor x = counting({2, 3});
  EXPECT_EQ(mistake([&] { return maximum(x, counting({4})); }), "maximum");
  EXPECT_EQ(mistake([&] { return minimum(x, Tensor()); }), "minimum");
  EXPECT_EQ(mistake([&] { return full(device(), {2}, 300.0, DType::u8); }), "full");
  EXPECT_EQ(mistake([&] { return full(device(), {2}, 1 << 20, DType::u8); }), "full");
  EXPECT_EQ(mistake([&] { return zeros_like(Tensor()); }), "zeros_like");
  EXPECT_EQ(mistake([&] { return stack({x, Tensor()}); }), "stack");
  EXPECT_EQ(mistake([&] { return stack(std::span<const Tensor>()); }), "stack");
  EXPECT_EQ(mistake([&] { return stack({x, counting({3, 2})}); }), "stack");
  EXPECT_EQ(mistake([&] { return flatten(x, 2); }), "flatten");
  EXPECT_EQ(mistake([&] { return flatten(Tensor()); }), "flatten");
  EXPECT_EQ(mistake([&] { return transpose(counting({3})); }), "transpose");
  EXPECT_EQ(mistake([&] { return unsqueeze(counting({1, 1, 1, 1, 1, 1, 1, 1}), 0); }), "unsqueeze");
  EXPECT_EQ(mistake([&] { return squeeze(x, 0); }), "squeeze");
  EXPECT_EQ(mistake([&] { return contiguous(Tensor()); }), "contiguous");
}

// Sizes are std::int64_t, so axes computed from them are too.
TEST_F(OpsShapeTest, AnAxisMayBeOfAnyWholeNumberType) {
  const Tensor x = counting({2, 3});
  const std::int64_t last = x.rank() - 1;
  EXPECT_EQ(sum(x, last).shape(), Shape{2});
  EXPECT_EQ(sum(x, std::size_t{0}).shape(), Shape{3});
  EXPECT_EQ(mean(x, {0, last}).shape(), Shape{});
  EXPECT_EQ(max(x, std::vector<std::int64_t>{-1}).shape(), Shape{2});
  EXPECT_EQ(max(x, std::vector<int>{-1}, {.keep_dims = true}).shape(), (Shape{2, 1}));
  EXPECT_THROW((void)sum(x, std::int64_t{1} << 40), ArgumentError);
  EXPECT_THROW((void)sum(x, {std::int64_t{1} << 32}), ArgumentError) << "not axis 0";
}

// ---- views ----

TEST_F(OpsShapeTest, ReshapeWorksOutOneSize) {
  EXPECT_EQ(reshape(counting({2, 6}), {3, -1}).shape(), (Shape{3, 4}));
  EXPECT_EQ(flatten(counting({2, 3, 4}), 1).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(counting({2, 3})).shape(), Shape{6});
  EXPECT_EQ(flatten(counting({})).shape(), Shape{1});
  EXPECT_THAT(reals(reshape(transpose(counting({2, 3})), {6})), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)reshape(counting({2, 3}), {4, 2});
              }),
              HasSubstr("[2, 3] has 6"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)reshape(counting({2, 3}), {4, -1});
              }),
              HasSubstr("-1"));
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{-2, 3}, {-2, -3}, {-1, -2}}) {
    EXPECT_THAT(thrown_text<ShapeError>([&] {
                  (void)reshape(counting({2, 3}), sizes);
                }),
                HasSubstr("reshape: the size -2 in [-"));
  }
}

TEST_F(OpsShapeTest, PermuteAndTransposeReorderAxes) {
  EXPECT_EQ(permute(counting({2, 3, 4}), {2, 0, 1}).shape(), (Shape{4, 2, 3}));
  EXPECT_THAT(reals(transpose(counting({2, 3}))), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(transpose(counting({2, 3, 4}), 0, -1).shape(), (Shape{4, 3, 2}));
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)permute(counting({2, 3}), {0, 0});
              }),
              HasSubstr("do not name each axis"));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)transpose(counting({3})); }),
            "transpose: axis -2 is outside a tensor of rank 1, whose axes are -1 to 0");
}

TEST_F(OpsShapeTest, SliceIsPythons) {
  const Tensor x = counting({7});
  EXPECT_THAT(reals(slice(x, 0, {2, 5})), ElementsAre(2, 3, 4));
  EXPECT_THAT(reals(slice(x, 0, {.start = -2})), ElementsAre(5, 6));
  EXPECT_THAT(reals(slice(x, 0, {.stop = -5})), ElementsAre(0, 1));
  EXPECT_THAT(reals(slice(x, 0, {.step = 3})), ElementsAre(0, 3, 6));
  EXPECT_THAT(reals(slice(x, 0, {.step = -2})), ElementsAre(6, 4, 2, 0));
  EXPECT_THAT(reals(slice(x, 0, {.start = 4, .stop = 1, .step = -1})), ElementsAre(4, 3, 2));
  EXPECT_THAT(reals(slice(x, 0, {.start = 5, .stop = 100})), ElementsAre(5, 6));
  EXPECT_EQ(slice(x, 0, {.start = 5, .stop = 2}).shape(), Shape{0});
  EXPECT_THAT(reals(slice(counting({2, 3}), -1, {.start = 1})), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)slice(x, 0, {.step = 0}); }),
              HasSubstr("step"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)slice(x, 1, {}); }), HasSubstr("axis 1"));
}

TEST_F(OpsShapeTest, ExpandRepeatsAxesOfSizeOne) {
  EXPECT_THAT(reals(expand(f64({1, 2}, {2, 1}), {2, 2})), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(reals(expand(f64({1, 2}, {2}), {2, 2})), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)expand(counting({2}), {3}); }),
              HasSubstr("[2] does not broadcast to [3]"));
}

TEST_F(OpsShapeTest, UnsqueezeAndSqueezeAddAndRemoveAxes) {
  EXPECT_EQ(unsqueeze(counting({2, 3}), 1).shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(unsqueeze(counting({2, 3}), -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(squeeze(counting({2, 1, 3}), -2).shape(), (Shape{2, 3}));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)squeeze(counting({2, 3}), 0);
              }),
              HasSubstr("axis 0 of [2, 3] has not size 1"));
}

TEST_F(OpsShapeTest, ReshapeTakesShapesAndVectors) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(reshape(x, counting({3, 2}).shape()).shape(), (Shape{3, 2}));
  EXPECT_EQ(reshape(x, std::vector<std::int64_t>{-1, 2}).shape(), (Shape{3, 2}));
  EXPECT_EQ(reshape(x, std::vector<int>{6, -1}).shape(), (Shape{6, 1}));
}

TEST_F(OpsShapeTest, ContiguousKeepsTheValues) {
  EXPECT_THAT(reals(contiguous(transpose(counting({2, 3})))), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST_F(OpsShapeTest, ViewsThatChangeNothingAreFree) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(detail::TensorAccess::impl(reshape(x, {2, 3})), detail::TensorAccess::impl(x));
  EXPECT_EQ(detail::TensorAccess::impl(permute(x, {0, 1})), detail::TensorAccess::impl(x));
  EXPECT_EQ(detail::TensorAccess::impl(slice(x, 0, {})), detail::TensorAccess::impl(x));
  EXPECT_EQ(detail::TensorAccess::impl(expand(x, {2, 3})), detail::TensorAccess::impl(x));
}

TEST_F(OpsShapeTest, ConcatTakesAnyNumberOfTensors) {
  std::vector<Tensor> parts;
  for (int i = 0; i < 9; ++i) {
    parts.push_back(full(device(), {2, 1}, i, DType::f64));
  }
  const Tensor joined = concat(parts, -1);
  EXPECT_EQ(joined.shape(), (Shape{2, 9}));
  EXPECT_THAT(reals(slice(joined, 0, {.start = 1})), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(reals(concat(std::vector{counting({1, 2}), counting({0, 2}), counting({2, 2})}, 0)),
              ElementsAre(0, 1, 0, 1, 2, 3));
  EXPECT_THAT(thrown_text<ArgumentError>([] { (void)concat({}, 0); }), HasSubstr("was given 0"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)concat(std::vector{counting({1, 2}), counting({1, 3})}, 0);
              }),
              HasSubstr("input 1 differs outside axis 0"));
}

TEST_F(OpsShapeTest, SplitCutsAnAxisIntoViews) {
  const Tensor x = counting({2, 5});
  const std::vector<Tensor> pairs = split(x, 2, 1);
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_THAT(reals(pairs[1]), ElementsAre(2, 3, 7, 8));
  EXPECT_EQ(pairs[2].shape(), (Shape{2, 1}));
  const std::vector<Tensor> parts = split(x, {1, 0, 4}, -1);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT(reals(parts[0]), ElementsAre(0, 5));
  EXPECT_EQ(parts[1].shape(), (Shape{2, 0}));
  EXPECT_THAT(reals(concat(parts, 1)), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(split(zeros(device(), {0, 2}), 3).size(), 1U);
  const auto summed = [](const std::vector<Tensor>& in) {
    const std::vector<Tensor> halves = split(in[0], 1);
    return sum(halves[0] * halves[1]);
  };
  EXPECT_THAT(reals(grad(summed, {f64({1, 2, 3, 4}, {2, 2})})[0]), ElementsAre(3, 4, 1, 2));
}

TEST_F(OpsShapeTest, SplitRefusesSizesThatDoNotMakeUpTheAxis) {
  const Tensor x = counting({2, 5});
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)split(x, {2, 2}, 1);
            }),
            "split: the sizes [2, 2] do not make up axis 1 of [2, 5]");
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)split(x, {6, -1}, 1);
              }),
              HasSubstr("do not make up"));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)split(x, 0); }),
            "split: parts of size 0 do not make up [2, 5]");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)split(x, 1, 2); }),
            "split: axis 2 is outside a tensor of rank 2, whose axes are -2 to 1");
}

TEST_F(OpsShapeTest, ChunkGivesAtMostSoManyParts) {
  const auto sizes = [&](std::int64_t length, std::int64_t count) {
    std::vector<std::int64_t> all;
    for (const Tensor& part : chunk(counting({length}), count)) {
      all.push_back(part.size(0));
    }
    return all;
  };
  EXPECT_THAT(sizes(6, 3), ElementsAre(2, 2, 2));
  EXPECT_THAT(sizes(7, 3), ElementsAre(3, 3, 1));
  EXPECT_THAT(sizes(6, 4), ElementsAre(2, 2, 2)) << "as PyTorch";
  EXPECT_THAT(sizes(2, 5), ElementsAre(1, 1));
  EXPECT_THAT(sizes(0, 2), ElementsAre(0, 0));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)chunk(counting({3}), 0); }),
            "chunk: 0 is no number of parts");
}

// ---- reductions ----

TEST_F(OpsShapeTest, ReductionsTakeAxesOrAll) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(reals(sum(x)), ElementsAre(15));
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_THAT(reals(sum(x, {0})), ElementsAre(3, 5, 7));
  EXPECT_THAT(reals(mean(x, {-1})), ElementsAre(1, 4));
  EXPECT_THAT(reals(max(x, {1}, {.keep_dims = true})), ElementsAre(2, 5));
  EXPECT_EQ(max(x, {1}, {.keep_dims = true}).shape(), (Shape{2, 1}));
  EXPECT_THAT(reals(sum(x, {0, 1}, {.keep_dims = true})), ElementsAre(15));
  EXPECT_THAT(integers(sum(i32({1, 2}, {2}))), ElementsAre(3));
  EXPECT_THAT(reals(sum(zeros(device(), {0, 2}), {0})), ElementsAre(0, 0));
  EXPECT_THAT(reals(mean(f64({4}, {}))), ElementsAre(4));
}

TEST_F(OpsShapeTest, ReductionsRefuseBadAxesAndTypes) {
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)sum(counting({2, 3}), {2});
              }),
              HasSubstr("axis 2"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)sum(counting({2, 3}), {0, -2});
              }),
              HasSubstr("twice"));
  EXPECT_THAT(thrown_text<DtypeError>([&] {
                (void)var(i32({1, 2}, {2}));
              }),
              HasSubstr("does not take i32"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)max(counting({0})); }),
              HasSubstr("no elements"));
}

TEST_F(OpsShapeTest, ArgmaxGivesTheFirstPosition) {
  const Tensor x = f64({1, 5, 5, 7, 0, 7}, {2, 3});
  EXPECT_THAT(argmax(x, 1).to_vector<std::int64_t>(), ElementsAre(1, 0));
  EXPECT_THAT(argmax(x, -2).to_vector<std::int64_t>(), ElementsAre(1, 0, 1));
  EXPECT_EQ(argmax(x, 1, {.keep_dims = true}).shape(), (Shape{2, 1}));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)argmax(x, 2); }), HasSubstr("axis 2"));
}

// ---- contractions ----

TEST_F(OpsShapeTest, MatmulMultipliesMatricesAndBatches) {
  const Tensor a = counting({2, 3});
  const Tensor b = counting({3, 2});
  EXPECT_THAT(reals(matmul(a, b)), ElementsAre(10, 13, 28, 40));
  EXPECT_THAT(reals(matmul(a, b, f64({1, 2}, {2}))), ElementsAre(11, 15, 29, 42));
  EXPECT_EQ(matmul(counting({5, 1, 2, 3}), counting({4, 3, 2})).shape(), (Shape{5, 4, 2, 2}));
  EXPECT_THAT(
      reals(matmul(zeros(device(), {1, 0}, DType::f64), zeros(device(), {0, 2}, DType::f64))),
      ElementsAre(0, 0));
}

TEST_F(OpsShapeTest, MatmulOfVectorsIsNumPys) {
  const Tensor v = f64({1, 2, 3}, {3});
  EXPECT_THAT(reals(matmul(v, v)), ElementsAre(14));
  EXPECT_EQ(matmul(v, v).shape(), Shape{});
  EXPECT_THAT(reals(matmul(counting({2, 3}), v)), ElementsAre(8, 26));
  EXPECT_THAT(reals(matmul(v, counting({3, 2}))), ElementsAre(16, 22));
  EXPECT_EQ(matmul(v, counting({4, 3, 2})).shape(), (Shape{4, 2}));
  EXPECT_EQ(matmul(counting({4, 2, 3}), v).shape(), (Shape{4, 2}));
}

TEST_F(OpsShapeTest, MatmulNamesTheInnerDimensions) {
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)matmul(zeros(device(), {4, 8}), zeros(device(), {9, 3}));
            }),
            "matmul: inner dimensions differ: lhs f32[4, 8], rhs f32[9, 3]");
  const std::uint32_t line = __LINE__ + 2;
  try {
    (void)matmul(zeros(device(), {3}), zeros(device(), {4}));
    ADD_FAILURE() << "vectors of 3 and 4 have a product";
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.error().text, "matmul: inner dimensions differ: lhs f32[3], rhs f32[4]");
    EXPECT_EQ(error.error().location.line, line);
  }
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)matmul(zeros(device(), {3}), zeros(device(), {2, 4, 5}));
            }),
            "matmul: inner dimensions differ: lhs f32[3], rhs f32[2, 4, 5]");
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)matmul(counting({2, 3}), counting({3, 2}), counting({3}));
              }),
              HasSubstr("bias must be [2]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)matmul(counting({}), counting({3, 2}));
              }),
              HasSubstr("rank"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)matmul(counting({2, 3}), 2);
              }),
              HasSubstr("is a number"));
}

TEST_F(OpsShapeTest, Conv2dSlidesTheWindow) {
  const Tensor x = counting({1, 1, 3, 3});
  const Tensor w = f64({1, 0, 0, 1}, {1, 1, 2, 2});
  EXPECT_THAT(reals(conv2d(x, w)), ElementsAre(4, 6, 10, 12));
  EXPECT_THAT(reals(conv2d(x, w, f64({100}, {1}))), ElementsAre(104, 106, 110, 112));
  EXPECT_THAT(reals(conv2d(x, w, Conv2dOptions{.stride = {2, 2}, .padding = {1, 1}})),
              ElementsAre(0, 2, 6, 12));
  EXPECT_EQ(conv2d(counting({2, 4, 5, 6}),
                   counting({6, 2, 3, 2}),
                   Conv2dOptions{.dilation = {2, 1}, .groups = 2})
                .shape(),
            (Shape{2, 6, 1, 5}));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)conv2d(counting({1, 2, 3, 3}), w);
              }),
              HasSubstr("input channels"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)conv2d(counting({1, 1, 1, 1}), w);
              }),
              HasSubstr("window"));
}

TEST_F(OpsShapeTest, PoolsTakeTheLargestOrTheMean) {
  const Tensor x = counting({1, 1, 4, 4});
  EXPECT_THAT(reals(max_pool2d(x)), ElementsAre(5, 7, 13, 15));
  EXPECT_THAT(reals(avg_pool2d(x)), ElementsAre(2.5, 4.5, 10.5, 12.5));
  EXPECT_EQ(max_pool2d(x, {.kernel = {3, 3}, .stride = {{1, 1}}}).shape(), (Shape{1, 1, 2, 2}));
  const Tensor one = ones(device(), {1, 1, 2, 2}, DType::f64);
  EXPECT_THAT(reals(avg_pool2d(one, {.padding = {1, 1}})), Each(0.25));
  EXPECT_THAT(reals(avg_pool2d(one, {.padding = {1, 1}, .count_include_pad = false})), Each(1));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)max_pool2d(counting({4, 4}));
              }),
              HasSubstr("needs rank 4"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)avg_pool2d(x, {.padding = {2, 0}});
              }),
              HasSubstr("padding"));
}

TEST_F(OpsShapeTest, PoolsRefusePlanesWithoutElements) {
  for (const Shape& shape : {Shape{1, 1, 0, 7}, Shape{1, 1, 7, 0}, Shape{0, 2, 0, 0}}) {
    const Tensor x = zeros(device(), shape);
    EXPECT_THAT(thrown_text<ShapeError>([&] {
                  (void)max_pool2d(x, {.padding = {1, 1}});
                }),
                HasSubstr("has no elements"));
    EXPECT_THAT(thrown_text<ShapeError>([&] {
                  (void)avg_pool2d(x, {.padding = {1, 1}});
                }),
                HasSubstr("has no elements"));
  }
  EXPECT_EQ(max_pool2d(zeros(device(), {0, 2, 4, 4})).shape(), (Shape{0, 2, 2, 2}));
}

TEST_F(OpsShapeTest, MaxPoolRefusesPlanesWhosePlacesNoPositionCanName) {
  const Tensor x = expand(zeros(device(), {1, 1, 1, 1}), {1, 1, 1 << 16, 1 << 16});
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)max_pool2d(x); }),
              HasSubstr("positions are i32"));
}

TEST_F(OpsShapeTest, CrossEntropyRefusesRowsWithoutClasses) {
  const Tensor targets = i64({0, 0}, {2});
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)cross_entropy(zeros(device(), {2, 0}), targets);
              }),
              HasSubstr("there are no classes"));
}

// ---- rows ----

TEST_F(OpsShapeTest, SoftmaxRowsSumToOne) {
  const Tensor x = counting({2, 3});
  const std::vector<double> sums = reals(sum(softmax(x), {1}));
  const testing::Tolerance tolerance = testing::tolerance(testing::Precision::function, DType::f64);
  for (const double value : sums) {
    EXPECT_TRUE(tolerance.accepts(value, 1)) << value;
  }
  EXPECT_THAT(reals(softmax(zeros(device(), {4}, DType::f64), 0)), Each(0.25));
  const std::vector<double> logs = reals(exp(log_softmax(x, 0)));
  const std::vector<double> direct = reals(softmax(x, 0));
  for (std::size_t i = 0; i < logs.size(); ++i) {
    EXPECT_TRUE(tolerance.accepts(logs[i], direct[i])) << i;
  }
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)softmax(x, 2); }),
              HasSubstr("softmax: axis 2"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)softmax(i32({1}, {1})); }),
              HasSubstr("does not take i32"));
}

TEST_F(OpsShapeTest, CrossEntropyIsTheNegativeLogarithmOfTheTarget) {
  const Tensor logits = zeros(device(), {2, 4}, DType::f64);
  const Tensor targets = i64({3, 0}, {2});
  const testing::Tolerance tolerance = testing::tolerance(testing::Precision::function, DType::f64);
  const std::vector<double> losses = reals(cross_entropy_per_row(logits, targets));
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_TRUE(tolerance.accepts(losses[0], std::log(4.0)));
  EXPECT_TRUE(tolerance.accepts(cross_entropy(logits, targets).item(), std::log(4.0)));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)cross_entropy(logits, i64({1}, {1})); }),
              HasSubstr("rows"));
  EXPECT_THAT(thrown_text<DtypeError>([&] {
                (void)cross_entropy(logits, f64({1, 1}, {2}));
              }),
              HasSubstr("targets must be i32 or i64"));
}

TEST_F(OpsShapeTest, AClassOutOfRangePoisonsTheLoss) {
  const Tensor losses = cross_entropy_per_row(zeros(device(), {1, 4}), i64({4}, {1}));
  try {
    (void)losses.to_vector<float>();
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
  }
}

}  // namespace
}  // namespace hearth
