// QR, symmetric eigenvalues and singular values: identities, errors, and first and second
// derivatives beside differences.
#include <hearth/runtime/linalg_ops.hpp>
#include <hearth/runtime/matrix_ops.hpp>

#include "linear_test.hpp"

#include <limits>

namespace hearth {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using testing::kMatrixSizes;
using testing::kReals;
using testing::Tensors;
using testing::thrown_text;

class DecomposeTest : public testing::LinearTest {
 protected:
  void expect_orthonormal_columns(const Tensor& q, std::int64_t n) const {
    const Tensor one = eye(device(), q.shape()[-1], {}, q.dtype());
    const Tensor product = matmul(transpose(q), q);
    expect_close(product, expand(one, product.shape()), n, "orthonormal columns");
  }
};

TEST_P(DecomposeTest, QrGivesOrthonormalColumnsTimesATriangle) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kMatrixSizes) {
      for (const Shape& shape : {Shape{n, n}, Shape{n + 2, n}, Shape{n, n + 3}}) {
        for (const bool complete : {false, true}) {
          const Tensor x = random(shape, dtype);
          const auto [q, r] = qr(x, {.complete = complete});
          const std::int64_t width = complete ? shape[0] : std::min(shape[0], shape[1]);
          EXPECT_EQ(q.shape(), (Shape{shape[0], width}));
          EXPECT_EQ(r.shape(), (Shape{width, shape[1]}));
          expect_close(matmul(q, r), x, n, "Q·R");
          expect_close(triu(r), r, n, "the triangle");
          expect_orthonormal_columns(q, n);
        }
      }
    }
  }
  const Tensor batch = random({2, 3, 5, 4});
  const auto [q, r] = qr(batch);
  expect_close(matmul(q, r), batch, 5, "Q·R of a batch");
}

TEST_P(DecomposeTest, EighDiagonalisesSymmetricMatrices) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kMatrixSizes) {
      const Tensor x = symmetric(random({2, n, n}, dtype));
      const auto [values, vectors] = eigh(x);
      EXPECT_EQ(values.shape(), (Shape{2, n}));
      expect_close(matmul(x, vectors), vectors * unsqueeze(values, -2), n, "x·V");
      expect_orthonormal_columns(vectors, n);
      if (n > 1) {
        const Tensor steps = slice(values, -1, {.start = 1}) - slice(values, -1, {.stop = -1});
        EXPECT_GE(min(steps).item(), 0);
      }
      // Only the lower triangle counts.
      expect_close(eigh(tril(x)).values, values, n, "the lower triangle");
    }
  }
}

TEST_P(DecomposeTest, SvdGivesOrthonormalVectorsAndDescendingValues) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kMatrixSizes) {
      for (const Shape& shape : {Shape{n, n}, Shape{n + 2, n}, Shape{n, n + 3}}) {
        const std::int64_t count = std::min(shape[0], shape[1]);
        const Tensor x = random(shape, dtype);
        for (const bool full : {false, true}) {
          const auto [u, values, vt] = svd(x, {.full = full});
          EXPECT_EQ(u.shape(), (Shape{shape[0], full ? shape[0] : count}));
          EXPECT_EQ(vt.shape(), (Shape{full ? shape[1] : count, shape[1]}));
          EXPECT_EQ(values.shape(), Shape{count});
          const Tensor left = slice(u, 1, {.stop = count}) * unsqueeze(values, 0);
          expect_close(matmul(left, slice(vt, 0, {.stop = count})), x, n, "u·s·vt");
          expect_orthonormal_columns(u, n);
          expect_orthonormal_columns(transpose(vt), n);
          if (count > 0) {
            EXPECT_GE(min(values).item(), 0);
            EXPECT_EQ(reals(sort(values, {.axis = 0, .descending = true}).values), reals(values));
          }
        }
      }
    }
  }
  const Tensor batch = random({2, 3, 4, 5});
  const auto [u, values, vt] = svd(batch);
  expect_close(matmul(u * unsqueeze(values, -2), vt), batch, 5, "u·s·vt of a batch");
}

TEST_P(DecomposeTest, DerivativesMatchDifferences) {
  HostRandom random(61);
  const HostTensor square = random.uniform({3, 3}, -1, 1);
  const HostTensor tall = random.uniform({4, 2}, -1, 1);
  const HostTensor wide = random.uniform({2, 4}, -1, 1);
  for (const HostTensor& x : {square, tall, wide, random.uniform({2, 3, 3}, -1, 1)}) {
    SCOPED_TRACE(x.shape.to_string());
    // Diagonals that keep columns independent and values apart.
    const auto apart = [](const Tensor& t) {
      const std::int64_t n = std::min(t.shape()[-1], t.shape()[-2]);
      const Tensor row = arange(t.device(), 1, static_cast<double>(n + 1), 1, DType::f64);
      const Tensor more = diag_embed(row * 1.5);
      return t + pad(more,
                     {{.axis = -2, .after = t.shape()[-2] - n},
                      {.axis = -1, .after = t.shape()[-1] - n}});
    };
    check_twice(
        [&](const Tensors& in) {
          const auto [q, r] = qr(apart(in[0]));
          return concat({flatten(q) * 0.5, flatten(r)}, 0) * 0.3;
        },
        {x});
    check_twice(
        [&](const Tensors& in) {
          const auto [u, values, vt] = svd(apart(in[0]));
          // Squares do not depend on the signs of the vectors.
          return concat({flatten(u * u), flatten(values), flatten(vt * vt * 0.7)}, 0) * 0.3;
        },
        {x});
  }
  check_twice(
      [](const Tensors& in) {
        const Tensor more = diag_embed(arange(in[0].device(), 0, 3, 1, DType::f64)) * 2;
        const auto [values, vectors] = eigh(in[0] + transpose(in[0]) + more);
        return concat({flatten(values), flatten(vectors * vectors)}, 0) * 0.3;
      },
      {square});
}

TEST_P(DecomposeTest, EqualValuesHaveGradientsButTheirVectorsHaveNone) {
  const Tensor one = eye(device(), 3, {}, DType::f64);
  const auto values = [](const Tensors& in) { return sum(eigh(in[0]).values); };
  expect_close(grad(values, {one})[0], one, 3, "the trace's gradient");
  const auto nuclear = [](const Tensors& in) { return sum(svd(in[0]).values); };
  expect_close(grad(nuclear, {one})[0], one, 3, "the nuclear norm's gradient");
  const Tensor weights = random({3, 3});
  const auto vectors = [&](const Tensors& in) { return sum(eigh(in[0]).vectors * weights); };
  const Tensor slope = grad(vectors, {one})[0];
  EXPECT_FALSE(all(isfinite(slope)).item<bool>());
  const auto singular = [&](const Tensors& in) { return sum(svd(in[0]).u * weights); };
  EXPECT_FALSE(all(isfinite(grad(singular, {one})[0])).item<bool>());
}

TEST_P(DecomposeTest, WhiteningMakesTheCovarianceOne) {
  const Tensor x = random({200, 4}) - mean(random({200, 4}), 0);
  const Tensor covariance = matmul(transpose(x), x) / 200;
  const auto [values, vectors] = eigh(covariance);
  const Tensor white = matmul(x, vectors) / sqrt(values);
  const Tensor got = matmul(transpose(white), white) / 200;
  expect_close(got, eye(device(), 4, {}, DType::f64), 200, "the covariance");
}

TEST_P(DecomposeTest, RefusesValuesThatAreNotFinite) {
  if (loses_devices()) {
    GTEST_SKIP() << "a failed host function loses this device";
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = f64({1, 0, 0, 1, 1, 0, infinity, 1}, {2, 2, 2});
  EXPECT_THAT(failure_text([&] { return eigh(x).values; }),
              HasSubstr("eigh: matrix [1] has an element that is not finite: inf"));
  EXPECT_THAT(failure_text([&] { return svd(x).values; }),
              HasSubstr("svd: matrix [1] has an element that is not finite: inf"));
}

TEST_P(DecomposeTest, RefusesOtherOperands) {
  const Tensor x = random({4, 3});
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)eigh(x); }),
              HasSubstr("eigh: needs square matrices: f64[4, 3]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)qr(random({4})); }),
              HasSubstr("qr: needs matrices [..., m, n]: f64[4]"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)svd(cast(x, DType::bf16)); }),
              HasSubstr("svd: takes f32 and f64: cast other types first: bf16[4, 3]"));
  const auto complete = [](const Tensors& in) { return sum(qr(in[0], {.complete = true}).r); };
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)grad(complete, {x}); }),
              HasSubstr("qr: a complete Q of more rows than columns has no gradient"));
  const auto full = [](const Tensors& in) { return sum(svd(in[0], {.full = true}).values); };
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)grad(full, {x}); }),
              HasSubstr("svd: full vectors of a matrix that is not square have no gradient"));
}

HEARTH_ON_COMPOSED_DEVICES(DecomposeTest);

}  // namespace
}  // namespace hearth
