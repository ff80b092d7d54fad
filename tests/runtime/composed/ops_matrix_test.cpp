// Diagonals, grids and products of all pairs beside plain loops.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/matrix_ops.hpp>

#include "tests/runtime/composed/composed_test.hpp"
#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using MatrixTest = testing::ComposedTest;
using Tensors = std::vector<Tensor>;

TEST_P(MatrixTest, DiagonalMatchesPlainLoops) {
  for (const Shape& shape : {Shape{3, 5}, Shape{5, 3}, Shape{4, 4}, Shape{1, 1}}) {
    for (std::int64_t offset = -6; offset <= 6; ++offset) {
      std::vector<double> wanted;
      for (std::int64_t i = 0; i < shape[0]; ++i) {
        if (i + offset >= 0 && i + offset < shape[1]) {
          wanted.push_back(static_cast<double>(i * shape[1] + i + offset));
        }
      }
      const Tensor got = diagonal(counting(shape), {.offset = offset});
      EXPECT_EQ(got.shape(), Shape{static_cast<std::int64_t>(wanted.size())}) << offset;
      EXPECT_EQ(reals(got), wanted) << offset;
    }
  }
}

TEST_P(MatrixTest, DiagonalTakesAxesTypesAndViews) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_THAT(reals(diagonal(x)), ElementsAre(0, 5, 10, 12, 17, 22));
  EXPECT_EQ(diagonal(x).shape(), (Shape{2, 3}));
  EXPECT_THAT(reals(diagonal(x, {.rows = 0, .columns = 1})),
              ElementsAre(0, 16, 1, 17, 2, 18, 3, 19));
  EXPECT_THAT(reals(diagonal(transpose(counting({2, 3})), {.offset = -1})), ElementsAre(1, 5));
  EXPECT_EQ(diagonal(zeros(device(), {0, 3, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(diagonal(zeros(device(), {3, 0})).shape(), Shape{0});
  for (const DType dtype : testing::kAllTypes) {
    EXPECT_EQ(diagonal(cast(x, dtype)).dtype(), dtype);
    EXPECT_EQ(diag_embed(cast(x, dtype), {.offset = 1}).dtype(), dtype);
  }
}

TEST_P(MatrixTest, DiagEmbedIsTheInverseOfDiagonal) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {2, 3});
  for (std::int64_t offset = -3; offset <= 3; ++offset) {
    const Tensor matrices = diag_embed(x, {.offset = offset});
    const std::int64_t size = 3 + (offset < 0 ? -offset : offset);
    EXPECT_EQ(matrices.shape(), (Shape{2, size, size}));
    EXPECT_EQ(reals(diagonal(matrices, {.offset = offset})), reals(x)) << offset;
    EXPECT_EQ(sum(not_equal(matrices, 0)).item(), 6) << offset;
  }
  const Tensor moved = diag_embed(x, {.offset = 1, .rows = 2, .columns = 0});
  EXPECT_EQ(moved.shape(), (Shape{4, 2, 4}));
  EXPECT_EQ(reals(diagonal(moved, {.offset = 1, .rows = 2, .columns = 0})), reals(x));
  EXPECT_EQ(diag_embed(zeros(device(), {2, 0})).shape(), (Shape{2, 0, 0}));
  EXPECT_EQ(diag_embed(zeros(device(), {0}), {.offset = 2}).shape(), (Shape{2, 2}));
  EXPECT_THAT(reals(diag_embed(f64({1, 2}))), ElementsAre(1, 0, 0, 2));
}

TEST_P(MatrixTest, TraceSumsTheDiagonal) {
  EXPECT_EQ(trace(counting({3, 4})).item(), 0 + 5 + 10);
  EXPECT_THAT(reals(trace(counting({2, 2, 2}))), ElementsAre(3, 11));
  EXPECT_EQ(trace(cast(counting({3, 3}), DType::i32)).dtype(), DType::i64);
  EXPECT_EQ(trace(zeros(device(), {0, 3})).item(), 0);
}

TEST_P(MatrixTest, DiagonalsHaveGradients) {
  check_gradients(device(),
                  [](const Tensors& in) {
                    return square(diagonal(in[0], {.offset = 1, .rows = 1, .columns = 0}));
                  },
                  {HostRandom(21).uniform({3, 2, 2}, -1, 1)});
  check_gradients(device(),
                  [](const Tensors& in) { return square(diag_embed(in[0], {.offset = -1})); },
                  {HostRandom(22).uniform({2, 3}, -1, 1)});
  check_gradients(device(),
                  [](const Tensors& in) { return square(trace(in[0])); },
                  {HostRandom(23).uniform({3, 3}, -1, 1)});
}

TEST_P(MatrixTest, DiagonalsRefuseOtherAxes) {
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)diagonal(counting({3})); }),
              HasSubstr("diagonal: needs matrices: f64[3]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)trace(counting({3})); }),
              HasSubstr("trace: needs matrices: f64[3]"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)diagonal(counting({3, 3}), {.rows = 1, .columns = -1});
              }),
              HasSubstr("diagonal: rows and columns are both axis 1: f64[3, 3]"));
  EXPECT_THROW((void)diagonal(counting({3, 3}), {.rows = 2}), ArgumentError);
  EXPECT_THROW((void)diag_embed(full(device(), {}, 1)), ShapeError);
  EXPECT_THROW((void)diag_embed(counting({3}), {.rows = 2}), ArgumentError);
}

TEST_P(MatrixTest, MeshgridVariesOneAxisEach) {
  const Tensor a = f64({1, 2});
  const Tensor b = f64({3, 4, 5});
  const Tensors ij = meshgrid({a, b});
  EXPECT_THAT(reals(ij[0]), ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_THAT(reals(ij[1]), ElementsAre(3, 4, 5, 3, 4, 5));
  const Tensors xy = meshgrid({a, b}, {.order = MeshgridOrder::xy});
  EXPECT_EQ(xy[0].shape(), (Shape{3, 2}));
  EXPECT_THAT(reals(xy[0]), ElementsAre(1, 2, 1, 2, 1, 2));
  EXPECT_THAT(reals(xy[1]), ElementsAre(3, 3, 4, 4, 5, 5));
  const Tensors three = meshgrid({a, full(device(), {}, 7), cast(b, DType::i32)});
  EXPECT_EQ(three[1].shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(three[2].dtype(), DType::i32);
  EXPECT_EQ(meshgrid({a}, {.order = MeshgridOrder::xy})[0].shape(), Shape{2});
  EXPECT_EQ(meshgrid({a, f64({})})[0].shape(), (Shape{2, 0}));
  check_gradients(device(),
                  [](const Tensors& in) {
                    const Tensors grid = meshgrid({in[0], in[1]});
                    return grid[0] * grid[1];
                  },
                  {HostRandom(24).uniform({2}, -1, 1), HostRandom(25).uniform({3}, -1, 1)});
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)meshgrid(std::span<const Tensor>()); }),
              HasSubstr("meshgrid: needs at least one tensor"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)meshgrid({a, counting({2, 2})});
              }),
              HasSubstr("meshgrid: tensor 1 is no row [n]: f64[2, 2]"));
}

TEST_P(MatrixTest, OuterAndKronMultiplyAllPairs) {
  const Tensor a = f64({1, 2});
  const Tensor b = f64({3, 4, 5});
  EXPECT_THAT(reals(outer(a, b)), ElementsAre(3, 4, 5, 6, 8, 10));
  EXPECT_EQ(outer(cast(a, DType::i32), cast(b, DType::f32)).dtype(), DType::f32);
  EXPECT_EQ(outer(f64({}), b).shape(), (Shape{0, 3}));
  EXPECT_THAT(reals(kron(a, b)), ElementsAre(3, 4, 5, 6, 8, 10));
  const Tensor matrix = f64({1, 2, 3, 4}, {2, 2});
  EXPECT_THAT(reals(kron(matrix, f64({1, 10}, {1, 2}))), ElementsAre(1, 10, 2, 20, 3, 30, 4, 40));
  EXPECT_THAT(reals(kron(a, matrix)), ElementsAre(1, 2, 2, 4, 3, 4, 6, 8));
  EXPECT_THAT(reals(kron(matrix, a)), ElementsAre(1, 2, 2, 4, 3, 6, 4, 8));
  EXPECT_THAT(reals(kron(transpose(matrix), f64({1}))), ElementsAre(1, 3, 2, 4));
  EXPECT_EQ(kron(cast(matrix, DType::u8), cast(a, DType::u8)).dtype(), DType::u8);
  EXPECT_EQ(kron(full(device(), {}, 2), full(device(), {}, 3)).item(), 6);
  for (const bool is_kron : {false, true}) {
    check_gradients(
        device(),
        [&](const Tensors& in) { return is_kron ? kron(in[0], in[1]) : outer(in[0], in[1]); },
        {HostRandom(26).uniform({2}, -1, 1), HostRandom(27).uniform({3}, -1, 1)});
  }
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)outer(matrix, a); }),
              HasSubstr("outer: needs two rows [n] and [m]: f64[2, 2]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)kron(ones(device(), {1, 1, 1, 1, 1}), a);
              }),
              HasSubstr("kron: has more than 4 axes: f32[1, 1, 1, 1, 1]"));
  EXPECT_THROW((void)outer(greater(a, 0), a), DtypeError);
}

HEARTH_ON_COMPOSED_DEVICES(MatrixTest);

}  // namespace
}  // namespace hearth
