// Norms, distances and losses of them beside plain loops.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/distance_ops.hpp>
#include <hearth/runtime/metric_losses.hpp>

#include "tests/runtime/composed/composed_test.hpp"
#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using ::testing::Pointwise;
using testing::thrown_text;
using DistanceTest = testing::ComposedTest;
using Tensors = std::vector<Tensor>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPowers[] = {1, 2, 3, 0.5, 2.5, kInf};

double plain_norm(const std::vector<double>& row, double p) {
  double total = 0;
  for (const double value : row) {
    total =
        std::isinf(p) ? std::max(total, std::fabs(value)) : total + std::pow(std::fabs(value), p);
  }
  return std::isinf(p) ? total : std::pow(total, 1 / p);
}

std::vector<double> row_of(const HostTensor& x, std::int64_t number) {
  const auto width = static_cast<std::ptrdiff_t>(x.shape[-1]);
  const auto begin = x.values.begin() + width * number;
  return {begin, begin + width};
}

TEST_P(DistanceTest, NormsMatchPlainLoops) {
  const HostTensor x = HostRandom(31).uniform({3, 7}, -2, 2);
  for (const double p : kPowers) {
    std::vector<double> rows;
    std::vector<double> unit;
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::vector<double> row = row_of(x, i);
      rows.push_back(plain_norm(row, p));
      for (const double value : row) {
        unit.push_back(value / rows.back());
      }
    }
    EXPECT_THAT(reals(vector_norm(x.on(device()), p, -1)), Pointwise(DoubleNear(1e-10), rows)) << p;
    EXPECT_NEAR(vector_norm(x.on(device()), p).item(), plain_norm(x.values, p), 1e-9 * 1000);
    EXPECT_EQ(vector_norm(x.on(device()), p, 1, {.keep_dims = true}).shape(), (Shape{3, 1}));
    EXPECT_THAT(reals(normalize(x.on(device()), {.p = p})), Pointwise(DoubleNear(1e-10), unit));
    EXPECT_THAT(reals(transpose(normalize(transpose(x.on(device())), {.p = p, .axis = -2}))),
                Pointwise(DoubleNear(1e-10), unit));
  }
}

TEST_P(DistanceTest, NormsHaveGradientsAlsoOfZeros) {
  for (const double p : kPowers) {
    SCOPED_TRACE(p);
    check_gradients(device(),
                    [&](const Tensors& in) { return vector_norm(in[0], p, 1); },
                    {HostRandom(32).distinct({2, 3})});
    check_gradients(device(),
                    [&](const Tensors& in) { return normalize(in[0], {.p = p}); },
                    {HostRandom(33).signed_values({2, 3})});
    const Tensor zero = zeros(device(), {2, 3}, DType::f64);
    for (const Tensor& slope :
         grad([&](const Tensors& in) { return sum(vector_norm(in[0], p, 1)); }, {zero})) {
      EXPECT_THAT(reals(slope), Each(0));
    }
    EXPECT_THAT(reals(normalize(zero, {.p = p})), Each(0));
  }
}

TEST_P(DistanceTest, NormsKeepTypesAndRefuseOthers) {
  const Tensor x = cast(f64({300, 400}), DType::f16);
  EXPECT_EQ(vector_norm(x).dtype(), DType::f16);
  EXPECT_EQ(vector_norm(x).item(), 500) << "squares beyond f16";
  EXPECT_THAT(reals(normalize(cast(f64({3, 4}, {1, 2}), DType::bf16), {.axis = 1})),
              ElementsAre(0.6015625, 0.80078125));
  EXPECT_EQ(vector_norm(zeros(device(), {2, 0}), 2, 1).shape(), Shape{2});
  EXPECT_EQ(normalize(zeros(device(), {2, 0})).shape(), (Shape{2, 0}));
  EXPECT_EQ(normalize(zeros(device(), {0, 2})).shape(), (Shape{0, 2}));
  EXPECT_TRUE(std::isnan(vector_norm(f64({std::nan(""), 1})).item()));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)vector_norm(x, 0); }),
              HasSubstr("vector_norm: p 0 is not above 0"));
  EXPECT_THROW((void)vector_norm(x, std::nan("")), ArgumentError);
  EXPECT_THROW((void)normalize(x, {.p = -1, .axis = 0}), ArgumentError);
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)normalize(x); }), HasSubstr("normalize: "));
  EXPECT_THROW((void)vector_norm(i64({1})), DtypeError);
}

TEST_P(DistanceTest, CosineSimilarityBroadcasts) {
  const HostTensor a = HostRandom(34).uniform({3, 4}, -1, 1);
  const HostTensor b = HostRandom(35).uniform({3, 4}, -1, 1);
  const auto cosine = [](const std::vector<double>& x, const std::vector<double>& y) {
    double dot = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      dot += x[i] * y[i];
    }
    return dot / (plain_norm(x, 2) * plain_norm(y, 2));
  };
  std::vector<double> pairs;
  std::vector<double> first;
  for (std::int64_t i = 0; i < 3; ++i) {
    pairs.push_back(cosine(row_of(a, i), row_of(b, i)));
    first.push_back(cosine(row_of(a, i), row_of(b, 0)));
  }
  EXPECT_THAT(reals(cosine_similarity(a.on(device()), b.on(device()))),
              Pointwise(DoubleNear(1e-12), pairs));
  const Tensor row = slice(b.on(device()), 0, {.start = 0, .stop = 1});
  EXPECT_THAT(reals(cosine_similarity(a.on(device()), row, {.axis = -1})),
              Pointwise(DoubleNear(1e-12), first));
  EXPECT_THAT(reals(cosine_similarity(a.on(device()), squeeze(row, 0))),
              Pointwise(DoubleNear(1e-12), first));
  EXPECT_THAT(reals(cosine_similarity(zeros(device(), {1, 2}), ones(device(), {1, 2}))),
              ElementsAre(0));
  check_gradients(
      device(), [](const Tensors& in) { return cosine_similarity(in[0], in[1]); }, {a, b});
  for (const Tensor& slope :
       grad([](const Tensors& in) { return sum(cosine_similarity(in[0], in[1])); },
            {zeros(device(), {1, 2}, DType::f64), zeros(device(), {1, 2}, DType::f64)})) {
    EXPECT_THAT(reals(slope), Each(0));
  }
  EXPECT_THROW((void)cosine_similarity(counting({2, 2}), counting({3, 2})), ShapeError);
  EXPECT_THAT(
      thrown_text<ArgumentError>([&] { (void)cosine_similarity(counting({2}), counting({2})); }),
      HasSubstr("cosine_similarity: "));
}

std::vector<double> plain_cdist(const HostTensor& a, const HostTensor& b, double p) {
  std::vector<double> all;
  const std::int64_t n = a.shape[-2];
  const std::int64_t m = b.shape[-2];
  for (std::int64_t i = 0; i < a.shape.element_count() / a.shape[-1]; ++i) {
    for (std::int64_t k = 0; k < m; ++k) {
      std::vector<double> difference = row_of(a, i);
      const std::int64_t batch = b.shape.rank() > 2 ? i / n * m : 0;
      const std::vector<double> other = row_of(b, batch + k);
      for (std::size_t d = 0; d < difference.size(); ++d) {
        difference[d] -= other[d];
      }
      all.push_back(plain_norm(difference, p));
    }
  }
  return all;
}

TEST_P(DistanceTest, CdistMatchesPlainLoops) {
  const HostTensor a = HostRandom(36).uniform({2, 3, 4}, -1, 1);
  const HostTensor b = HostRandom(37).uniform({2, 5, 4}, -1, 1);
  const HostTensor shared = HostRandom(38).uniform({5, 4}, -1, 1);
  for (const double p : kPowers) {
    const Tensor got = cdist(a.on(device()), b.on(device()), {.p = p});
    EXPECT_EQ(got.shape(), (Shape{2, 3, 5}));
    EXPECT_THAT(reals(got), Pointwise(DoubleNear(1e-10), plain_cdist(a, b, p))) << p;
    EXPECT_THAT(reals(cdist(a.on(device()), shared.on(device()), {.p = p})),
                Pointwise(DoubleNear(1e-10), plain_cdist(a, shared, p)));
  }
  const Tensor products = cdist(a.on(device()), b.on(device()), {.mode = CdistMode::products});
  EXPECT_THAT(reals(products), Pointwise(DoubleNear(1e-7), plain_cdist(a, b, 2)));
  const HostTensor many = HostRandom(39).uniform({30, 4}, -1, 1);
  EXPECT_THAT(reals(cdist(many.on(device()), shared.on(device()))),
              Pointwise(DoubleNear(1e-7), plain_cdist(many, shared, 2)));
}

TEST_P(DistanceTest, CdistHasGradientsAndEdges) {
  const HostTensor a = HostRandom(40).uniform({3, 2}, -1, 1);
  const HostTensor b = HostRandom(41).uniform({2, 2}, 2, 3);
  for (const double p : {1.0, 2.0, 3.0, kInf}) {
    check_gradients(
        device(), [&](const Tensors& in) { return cdist(in[0], in[1], {.p = p}); }, {a, b});
  }
  check_gradients(
      device(),
      [](const Tensors& in) { return cdist(in[0], in[1], {.mode = CdistMode::products}); },
      {a, b});
  const Tensor same = f64({1, 2}, {1, 2});
  for (const CdistMode mode : {CdistMode::differences, CdistMode::products}) {
    for (const Tensor& slope :
         grad([&](const Tensors& in) { return sum(cdist(in[0], in[1], {.mode = mode})); },
              {same, same})) {
      EXPECT_THAT(reals(slope), Each(0));
    }
  }
  EXPECT_EQ(cdist(zeros(device(), {0, 2}), same).shape(), (Shape{0, 1}));
  EXPECT_THAT(reals(cdist(zeros(device(), {1, 0}), zeros(device(), {2, 0}), {.p = kInf})),
              ElementsAre(0, 0));
  EXPECT_EQ(cdist(cast(same, DType::f16), cast(same, DType::f16)).dtype(), DType::f16);
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)cdist(counting({2, 3}), counting({2, 4}));
              }),
              HasSubstr("cdist: needs rows [..., n, d] and [..., m, d]: a f64[2, 3], b f64[2, 4]"));
  EXPECT_THROW((void)cdist(counting({3}), same), ShapeError);
  EXPECT_THAT(thrown_text<ArgumentError>(
                  [&] { (void)cdist(same, same, {.p = 1, .mode = CdistMode::products}); }),
              HasSubstr("cdist: products give distances of p 2, not 1"));
  EXPECT_THROW((void)cdist(same, same, {.p = 0}), ArgumentError);
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)cdist(cast(same, DType::i32), same); }),
              HasSubstr("cdist: takes floats, not i32 and f64"));
}

TEST_P(DistanceTest, TripletMarginLossMatchesPlainLoops) {
  const HostTensor a = HostRandom(42).uniform({4, 3}, -1, 1);
  const HostTensor near = HostRandom(43).uniform({4, 3}, -1, 1);
  const HostTensor far = HostRandom(44).uniform({4, 3}, -1, 1);
  const auto distance = [](const HostTensor& x, const HostTensor& y, std::int64_t i, double p) {
    std::vector<double> apart = row_of(x, i);
    const std::vector<double> other = row_of(y, i);
    for (std::size_t d = 0; d < apart.size(); ++d) {
      apart[d] += 1e-6 - other[d];
    }
    return plain_norm(apart, p);
  };
  for (const bool swap : {false, true}) {
    for (const double p : {1.0, 2.0, kInf}) {
      double wanted = 0;
      for (std::int64_t i = 0; i < 4; ++i) {
        double to_far = distance(a, far, i, p);
        to_far = swap ? std::min(to_far, distance(near, far, i, p)) : to_far;
        wanted += std::max(distance(a, near, i, p) - to_far + 0.5, 0.0) / 4;
      }
      const auto loss = [&](const Tensors& in) {
        return triplet_margin_loss(in[0], in[1], in[2], {.margin = 0.5, .p = p, .swap = swap});
      };
      EXPECT_NEAR(
          loss({a.on(device()), near.on(device()), far.on(device())}).item(), wanted, 1e-12);
      check_gradients(device(), loss, {a, near, far});
    }
  }
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)triplet_margin_loss(counting({2, 3}), counting({2, 3}), counting({1, 3}));
              }),
              HasSubstr("triplet_margin_loss: shapes differ: f64[2, 3], f64[2, 3], f64[1, 3]"));
  EXPECT_THROW((void)triplet_margin_loss(i64({1}), i64({1}), i64({1})), DtypeError);
}

TEST_P(DistanceTest, CosineEmbeddingLossMatchesPlainLoops) {
  const Tensor a = f64({1, 0, 1, 0, 1, 1, 3, 4}, {4, 2});
  const Tensor b = f64({0, 2, 2, 0, 1, 0, 4, 3}, {4, 2});
  // Cosines 0, 1, 0.7071, 0.96.
  const double root = std::sqrt(0.5);
  EXPECT_NEAR(cosine_embedding_loss(a, b, i64({1, -1, -1, 1}), 0.5).item(),
              (1 + 0.5 + (root - 0.5) + 0.04) / 4,
              1e-12);
  EXPECT_NEAR(cosine_embedding_loss(a, b, f64({-1, 1, 1, 0})).item(), (1 - root) / 4, 1e-12);
  check_gradients(device(),
                  [&](const Tensors& in) {
                    return cosine_embedding_loss(in[0], in[1], i64({1, -1, 1}), -0.9);
                  },
                  {HostRandom(45).uniform({3, 4}, -1, 1), HostRandom(46).uniform({3, 4}, -1, 1)});
  EXPECT_THAT(
      thrown_text<ShapeError>([&] { (void)cosine_embedding_loss(a, b, i64({1})); }),
      HasSubstr("cosine_embedding_loss: needs one target for each row: f64[4, 2], f64[4, 2], "
                "i64[1]"));
  EXPECT_THROW((void)cosine_embedding_loss(a, b, greater(f64({1, 1, 1, 1}), 0)), DtypeError);
}

HEARTH_ON_COMPOSED_DEVICES(DistanceTest);

}  // namespace
}  // namespace hearth
