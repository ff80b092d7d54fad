// Systems of equations, inverses and determinants: identities, errors, and first and second
// derivatives beside differences.
#include <hearth/runtime/linalg_ops.hpp>
#include <hearth/runtime/matrix_ops.hpp>

#include "linear_test.hpp"

#include <hearth/runtime/recording.hpp>

#include <limits>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using testing::kMatrixSizes;
using testing::kReals;
using testing::Tensors;
using testing::thrown_text;
using SolveTest = testing::LinearTest;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_P(SolveTest, CholeskyFactorsTheMatrix) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kMatrixSizes) {
      const Tensor x = positive({n, n}, dtype);
      const Tensor l = cholesky(x);
      expect_close(matmul(l, transpose(l)), x, n, "cholesky");
      expect_close(tril(l), l, n, "the upper triangle");
    }
    const Tensor x = positive({2, 3, 5, 5}, dtype);
    const Tensor l = cholesky(x);
    expect_close(matmul(l, transpose(l)), x, 5, "cholesky of a batch");
  }
  EXPECT_EQ(cholesky(zeros(device(), {2, 0, 0})).shape(), (Shape{2, 0, 0}));
  EXPECT_EQ(cholesky(zeros(device(), {0, 3, 3})).shape(), (Shape{0, 3, 3}));
}

TEST_P(SolveTest, CholeskyReadsTheLowerTriangle) {
  EXPECT_THAT(reals(cholesky(f64({4, kNan, 2, 5}, {2, 2}))), ElementsAre(2, 0, 1, 2));
}

TEST_P(SolveTest, CholeskyNamesTheMatrixAndThePivot) {
  if (loses_devices()) {
    GTEST_SKIP() << "a failed host function loses this device";
  }
  Tensor x = expand(eye(device(), 3, {}, DType::f64), {2, 2, 3, 3});
  const Tensor bad = f64({1, 0, 0, 0, 1, 0, 0, 0, -1}, {1, 1, 3, 3});
  x = concat({x, expand(bad, {1, 2, 3, 3})}, 0);
  EXPECT_THAT(
      failure_text([&] { return cholesky(x); }),
      HasSubstr("cholesky: matrix [2, 0] is not positive definite: pivot 2 is not above 0"));
  EXPECT_THAT(failure_text([&] {
                return cholesky(f64({0}, {1, 1}));
              }),
              HasSubstr("the matrix is not positive definite: pivot 0"));
  const Tensor large = eye(device(), 300, {}, DType::f64);
  const Tensor minus = diag_embed(cast(equal(arange(device(), 0, 300), 290), DType::f64)) * 2;
  EXPECT_THAT(failure_text([&] { return cholesky(large - minus); }), HasSubstr("pivot 290"));
  EXPECT_THAT(failure_text([&] { return cholesky(f64({kNan}, {1, 1})); }), HasSubstr("pivot 0"));
}

TEST_P(SolveTest, SolveFitsTheEquations) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kMatrixSizes) {
      const Tensor a = regular({n, n}, dtype);
      const Tensor b = random({n, 3}, dtype, 2);
      expect_close(matmul(a, solve(a, b)), b, n, "solve");
      expect_close(matmul(transpose(a), solve(transpose(a), b)), b, n, "solve of a view");
    }
  }
  const Tensor a = regular({257, 257});
  const Tensor b = random({257, 257}, DType::f64, 2);
  expect_close(matmul(a, solve(a, b)), b, 257, "solve of many columns");
}

TEST_P(SolveTest, PivotsAreSwappedInTheirOrder) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : {3, 65, 300}) {
      // The largest element of each column lies a row below the diagonal, in a cycle.
      const Tensor a = roll(regular({n, n}, dtype), 1, 0);
      const Tensor b = random({n, 5}, dtype, 2);
      expect_close(matmul(a, solve(a, b)), b, n, "solve");
      expect_close(matmul(inverse(a), a), eye(device(), n, {}, dtype), n, "inverse");
      // The gradient of sum(b·a⁻¹·c) with respect to c is a⁻ᵀ·b: the transposed system.
      const auto product = [&](const Tensors& in) { return sum(b * solve(a, in[0])); };
      const Tensor slope = grad(product, {b})[0];
      expect_close(matmul(transpose(a), slope), b, n, "the transposed system");
    }
  }
  // A cycle of four is odd.
  const Tensor cycle = roll(eye(device(), 4, {}, DType::f64), 1, 0);
  EXPECT_EQ(determinant(cycle).item(), -1);
  EXPECT_EQ(slogdet(cycle).sign.item(), -1);
}

TEST_P(SolveTest, SolveTakesVectorsAndBroadcasts) {
  const Tensor a = regular({2, 1, 3, 3});
  const Tensor b = random({4, 3, 2}, DType::f64, 2);
  const Tensor x = solve(a, b);
  EXPECT_EQ(x.shape(), (Shape{2, 4, 3, 2}));
  expect_close(matmul(a, x), expand(b, {2, 4, 3, 2}), 3, "broadcast");
  const Tensor rows = random({2, 3}, DType::f64, 3);
  const Tensor many = regular({2, 3, 3});
  const Tensor each = solve(many, rows);
  EXPECT_EQ(each.shape(), (Shape{2, 3}));
  expect_close(squeeze(matmul(many, unsqueeze(each, -1)), -1), rows, 3, "a batch of vectors");
  EXPECT_EQ(solve(many, f64({1, 2, 3})).shape(), (Shape{2, 3}));
  EXPECT_EQ(solve(many, zeros(device(), {3, 0}, DType::f64)).shape(), (Shape{2, 3, 0}));
}

TEST_P(SolveTest, SingularMatricesFail) {
  if (loses_devices()) {
    GTEST_SKIP() << "a failed host function loses this device";
  }
  const Tensor singular = f64({1, 2, 2, 4}, {2, 2});
  const Tensor batch = stack({eye(device(), 2, {}, DType::f64), singular});
  EXPECT_THAT(failure_text([&] {
                return solve(batch, f64({1, 2}));
              }),
              HasSubstr("solve: matrix [1] is singular: pivot 1 is 0"));
  EXPECT_THAT(failure_text([&] { return inverse(singular); }),
              HasSubstr("inverse: the matrix is singular: pivot 1 is 0"));
  EXPECT_EQ(determinant(singular).item(), 0);
  EXPECT_EQ(slogdet(singular).sign.item(), 0);
  EXPECT_EQ(slogdet(singular).log_magnitude.item(), -std::numeric_limits<double>::infinity());
  const auto slope = [&](const Tensors& in) { return determinant(in[0]); };
  EXPECT_THAT(failure_text([&] { return grad(slope, {singular})[0]; }),
              HasSubstr("determinant: the matrix is singular"));
  EXPECT_THAT(
      failure_text([&] {
        return solve_triangular(f64({1, 0, 1, 0}, {2, 2}), f64({1, 1}, {2, 1}));
      }),
      HasSubstr("solve_triangular: the matrix is singular: element 1 of its diagonal is 0"));
  EXPECT_THAT(failure_text([&] {
                return inverse(zeros(device(), {300, 300}, DType::f64));
              }),
              HasSubstr("pivot 0 is 0"));
}

TEST_P(SolveTest, InverseTimesTheMatrixIsOne) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kMatrixSizes) {
      const Tensor x = regular({2, n, n}, dtype);
      const Tensor one = expand(eye(device(), n, {}, dtype), {2, n, n});
      expect_close(matmul(inverse(x), x), one, n, "inverse");
    }
  }
}

TEST_P(SolveTest, DeterminantsAreProductsOfPivots) {
  EXPECT_NEAR(determinant(f64({1, 2, 3, 4}, {2, 2})).item(), -2, 1e-14);
  EXPECT_EQ(determinant(f64({0, 1, 0, 0, 0, 1, 1, 0, 0}, {3, 3})).item(), 1);
  EXPECT_EQ(determinant(f64({0, 1, 1, 0}, {2, 2})).item(), -1);
  EXPECT_THAT(reals(determinant(zeros(device(), {2, 0, 0}))), ElementsAre(1, 1));
  for (const DType dtype : kReals) {
    const Tensor x = random({3, 5, 5}, dtype);
    const SignAndLog both = slogdet(x);
    expect_close(both.sign * exp(both.log_magnitude), determinant(x), 5, "slogdet");
  }
  const Tensor large = eye(device(), 257, {}, DType::f64) * 100;
  EXPECT_NEAR(slogdet(large).log_magnitude.item(), 257 * std::log(100.0), 1e-9);
}

TEST_P(SolveTest, TrianglesAreSolvedFromBothSides) {
  // The other triangle, and a unit diagonal, are not read.
  const auto check = [this](DType dtype, std::int64_t n, const TriangularOptions& options) {
    const bool upper = options.upper;
    const bool unit = options.unit_diagonal;
    const Tensor whole =
        random({n, n}, dtype) * (1.0 / static_cast<double>(n + 1)) + eye(device(), n, {}, dtype);
    const Tensor part = upper ? triu(whole, unit ? 1 : 0) : tril(whole, unit ? -1 : 0);
    const Tensor a = unit ? part + eye(device(), n, {}, dtype) : part;
    const Tensor b = random({2, n, 3}, dtype, 2);
    expect_close(matmul(a, solve_triangular(whole, b, options)), b, n, "left");
    TriangularOptions right = options;
    right.left = false;
    const Tensor rows = transpose(b);
    expect_close(matmul(solve_triangular(whole, rows, right), a), rows, n, "right");
  };
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kMatrixSizes) {
      for (const bool upper : {false, true}) {
        check(dtype, n, {.upper = upper});
        check(dtype, n, {.upper = upper, .unit_diagonal = true});
      }
    }
  }
}

TEST_P(SolveTest, LeastSquaresMakeTheRestOrthogonal) {
  const Tensor tall = random({2, 7, 3});
  const Tensor b = random({2, 7, 2}, DType::f64, 2);
  const Tensor x = lstsq(tall, b);
  EXPECT_EQ(x.shape(), (Shape{2, 3, 2}));
  expect_close(matmul(transpose(tall), matmul(tall, x) - b), zeros_like(x), 7, "tall");
  const Tensor wide = random({3, 5});
  const Tensor few = random({3, 1}, DType::f64, 2);
  const Tensor least = lstsq(wide, few);
  expect_close(matmul(wide, least), few, 5, "wide");
  // The least norm lies in the space of the rows.
  const Tensor in_rows =
      matmul(transpose(wide), solve(matmul(wide, transpose(wide)), matmul(wide, least)));
  expect_close(in_rows, least, 5, "least norm");
}

TEST_P(SolveTest, DerivativesMatchDifferences) {
  HostRandom random(51);
  const HostTensor x = random.uniform({3, 3}, -1, 1);
  const HostTensor batch = random.uniform({2, 3, 3}, -1, 1);
  const HostTensor b = random.uniform({3, 2}, -1, 1);
  const auto far = [](const Tensor& t) {
    return t + eye(t.device(), t.shape()[-1], {}, DType::f64) * 3;
  };
  check_twice(
      [](const Tensors& in) {
        return cholesky(matmul(in[0], transpose(in[0])) + eye(in[0].device(), 3, {}, DType::f64));
      },
      {batch});
  check_twice([&](const Tensors& in) { return solve(far(in[0]), in[1]); }, {batch, b});
  check_twice([&](const Tensors& in) { return inverse(far(in[0])); }, {x});
  check_twice([&](const Tensors& in) { return determinant(far(in[0])) * 0.02; }, {batch});
  check_twice([&](const Tensors& in) { return slogdet(far(in[0])).log_magnitude; }, {batch});
  check_twice([](const Tensors& in) { return lstsq(in[0], in[1]) * 0.3; },
              {random.uniform({4, 2}, 1, 2), random.uniform({4, 1}, -1, 1)});
  for (const bool upper : {false, true}) {
    for (const bool left : {false, true}) {
      const TriangularOptions options{.upper = upper, .left = left, .unit_diagonal = upper && left};
      check_twice(
          [&](const Tensors& in) {
            return solve_triangular(far(in[0]), left ? in[1] : transpose(in[1]), options);
          },
          {batch, b});
    }
  }
}

TEST_P(SolveTest, GaussianProcessesHaveGradientsOfTheirLikelihood) {
  // log N(y; 0, K) with K = exp(-|xᵢ - xⱼ|² / 2l²) + noise: the user's path in one function.
  HostRandom random(52);
  const HostTensor places = random.uniform({6, 1}, -2, 2);
  const HostTensor values = random.uniform({6, 1}, -1, 1);
  check_twice(
      [&](const Tensors& in) {
        const Tensor x = places.on(in[0].device());
        const Tensor y = values.on(in[0].device());
        const Tensor kernel = exp(square(x - transpose(x)) / square(in[0]) * -0.5) +
                              eye(x.device(), 6, {}, DType::f64) * 0.3;
        const Tensor l = cholesky(kernel);
        const Tensor white = solve_triangular(l, y);
        return sum(square(white)) * -0.5 - sum(log(diagonal(l)));
      },
      {random.uniform({1}, 0.7, 1.3)});
}

TEST_P(SolveTest, RefusesOtherOperands) {
  const Tensor x = random({3, 3});
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)cholesky(cast(x, DType::f16)); }),
              HasSubstr("cholesky: takes f32 and f64: cast other types first: f16[3, 3]"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)inverse(cast(x, DType::i32)); }),
              HasSubstr("inverse: takes f32 and f64"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)solve(x, cast(x, DType::f32)); }),
              HasSubstr("solve: takes operands of one type: f64[3, 3], f32[3, 3]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)determinant(random({2, 3}));
              }),
              HasSubstr("determinant: needs square matrices: f64[2, 3]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)slogdet(random({3})); }),
              HasSubstr("slogdet: needs square matrices: f64[3]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)solve(x, random({2, 3}));
              }),
              HasSubstr("solve: a and b differ in their rows: f64[3, 3], f64[2, 3]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)solve(regular({2, 3, 3}), random({3, 3, 1}));
              }),
              HasSubstr("solve: leading axes do not broadcast"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)solve_triangular(x, random({3, 2}), {.left = false});
              }),
              HasSubstr("solve_triangular: a and b differ in their columns"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)lstsq(x, random({2, 2}));
              }),
              HasSubstr("lstsq: a and b differ in their rows"));
}

TEST_P(SolveTest, RecordingsRefuseIt) {
  const Tensor x = positive({3, 3});
  x.device().sync();
  RecordScope scope(runtime());
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)cholesky(x); }),
              HasSubstr("can be no part of a recording"));
}

HEARTH_ON_COMPOSED_DEVICES(SolveTest);

}  // namespace
}  // namespace hearth
