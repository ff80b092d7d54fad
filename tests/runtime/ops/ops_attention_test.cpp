// attention: values against plain ops, the keys that each query sees, gradients, memory, errors.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using testing::thrown_text;
using AttentionTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One head for each of the queries, with the matrix of scores in memory.
Tensor by_plain_ops(
    const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added, double scale) {
  return matmul(softmax(matmul(q, transpose(k)) * scale + added), v);
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want, double limit) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], limit) << "element " << i;
  }
}

TEST_F(AttentionTest, IsTheSoftmaxOfScoresTimesValues) {
  HostRandom random(1);
  const Tensor q = random.signed_values({2, 3, 5, 8}).on(device());
  const Tensor k = random.signed_values({2, 3, 7, 8}).on(device());
  const Tensor v = random.signed_values({2, 3, 7, 4}).on(device());
  const Tensor none = zeros(device(), {1}, DType::f64);
  expect_close(
      reals(attention(q, k, v)), reals(by_plain_ops(q, k, v, none, 1 / std::sqrt(8.0))), 1e-12);
  expect_close(
      reals(attention(q, k, v, {.scale = 0.3})), reals(by_plain_ops(q, k, v, none, 0.3)), 1e-12);
  const Tensor added = random.signed_values({5, 7}).on(device());
  expect_close(reals(attention(q, k, v, added, {.scale = 0.3})),
               reals(by_plain_ops(q, k, v, added, 0.3)),
               1e-12);
  const Tensor sees = greater(random.signed_values({2, 1, 1, 7}).on(device()), -0.9);
  const Tensor hidden = where(sees, 0.0, full(device(), {1}, -kInfinity, DType::f64));
  expect_close(reals(attention(q, k, v, sees, {.scale = 0.3})),
               reals(by_plain_ops(q, k, v, hidden, 0.3)),
               1e-12);
}

TEST_F(AttentionTest, CausalQueriesAreTheLastOnes) {
  const Tensor k = zeros(device(), {4, 2}, DType::f64);
  const Tensor v = f64({1, 2, 3, 4}, {4, 1});
  const auto means = [&](std::int64_t queries) {
    return reals(attention(zeros(device(), {queries, 2}, DType::f64), k, v, {.causal = true}));
  };
  EXPECT_THAT(means(4), ElementsAre(1, 1.5, 2, 2.5));
  EXPECT_THAT(means(1), ElementsAre(2.5)) << "a step with a cache sees all keys";
  EXPECT_THAT(means(6), ElementsAre(0, 0, 1, 1.5, 2, 2.5)) << "two queries see no key";
}

TEST_F(AttentionTest, AQueryThatSeesNoKeyGivesZeroAndTakesNoGradient) {
  HostRandom random(2);
  const Tensor sees = booleans({1, 0, 1, 0, 0, 0}, {2, 3});
  const Tensors inputs{random.signed_values({2, 4}).on(device()),
                       random.signed_values({3, 4}).on(device()),
                       random.signed_values({3, 4}).on(device())};
  const auto masked = [&](const Tensors& in) { return attention(in[0], in[1], in[2], sees); };
  const std::vector<double> result = reals(masked(inputs));
  EXPECT_THAT(std::vector<double>(result.begin() + 4, result.end()), Each(0));
  const std::vector<double> slopes =
      reals(grad([&](const Tensors& in) { return sum(masked(in)); }, inputs)[0]);
  EXPECT_THAT(std::vector<double>(slopes.begin() + 4, slopes.end()), Each(0));
  EXPECT_THAT(
      reals(attention(
          inputs[0], zeros(device(), {0, 4}, DType::f64), zeros(device(), {0, 3}, DType::f64))),
      Each(0))
      << "there are no keys";
}

TEST_F(AttentionTest, HeadsInARowShareKeys) {
  HostRandom random(3);
  const Tensor q = random.signed_values({2, 6, 3, 4}).on(device());
  const Tensor k = random.signed_values({2, 2, 5, 4}).on(device());
  const Tensor v = random.signed_values({2, 2, 5, 4}).on(device());
  const auto repeated = [](const Tensor& x) {
    return reshape(expand(unsqueeze(x, 2), {2, 2, 3, 5, 4}), {2, 6, 5, 4});
  };
  expect_close(reals(attention(q, k, v)), reals(attention(q, repeated(k), repeated(v))), 1e-14);
}

TEST_F(AttentionTest, GradientsMatchDifferences) {
  HostRandom random(4);
  const Tensor sees = booleans({1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0}, {3, 4});
  const Tensor added = random.signed_values({2, 1, 4}).on(device());
  const auto check = [&](const auto& fn) {
    check_gradients(device(),
                    fn,
                    {random.signed_values({2, 4, 3, 3}),
                     random.signed_values({2, 2, 4, 3}),
                     random.signed_values({2, 2, 4, 2})});
  };
  check([](const Tensors& in) { return square(attention(in[0], in[1], in[2])); });
  check([](const Tensors& in) {
    return square(attention(in[0], in[1], in[2], {.causal = true, .scale = -0.7}));
  });
  check([&](const Tensors& in) { return square(attention(in[0], in[1], in[2], sees)); });
  check([&](const Tensors& in) {
    return square(attention(in[0], in[1], in[2], slice(added, 0, {.stop = 1}), {.causal = true}));
  });
}

TEST_F(AttentionTest, AMaskMayHaveAGradient) {
  HostRandom random(5);
  const auto inputs = std::vector<HostTensor>{random.signed_values({1, 4, 3, 3}),
                                              random.signed_values({1, 2, 5, 3}),
                                              random.signed_values({1, 2, 5, 2}),
                                              random.signed_values({4, 3, 5})};
  for (const bool is_causal : {false, true}) {
    const auto masked = [&](const Tensors& in) {
      return square(attention(in[0], in[1], in[2], in[3], {.causal = is_causal}));
    };
    check_gradients(device(), masked, inputs);
    // The same values as the kernel's.
    Tensors tensors;
    for (const HostTensor& input : inputs) {
      tensors.push_back(input.on(device()));
    }
    std::vector<double> seen;
    static_cast<void>(grad(
        [&](const Tensors& in) {
          const Tensor y = masked(in);
          seen = reals(y);
          return sum(y);
        },
        tensors));
    expect_close(seen, reals(masked(tensors)), 1e-12);
    const auto of_temporary = [&](const Tensors& in) {
      return sum(attention(in[0] + 0, in[1], in[2], in[3], {.causal = is_causal}));
    };
    EXPECT_EQ(grad(of_temporary, tensors).size(), 4U);
  }
}

// Zero as in the kernel, although a softmax of only -infinity is NaN.
TEST_F(AttentionTest, ARowThatAMaskWithAGradientHidesGivesZero) {
  HostRandom random(6);
  const Tensors inputs{
      random.signed_values({2, 4}).on(device()),
      random.signed_values({3, 4}).on(device()),
      random.signed_values({3, 4}).on(device()),
      f64({-kInfinity, 0.5, -kInfinity, -kInfinity, -kInfinity, -kInfinity}, {2, 3})};
  const auto masked = [](const Tensors& in) { return attention(in[0], in[1], in[2], in[3]); };
  std::vector<double> seen;
  const Tensors slopes = grad(
      [&](const Tensors& in) {
        const Tensor y = masked(in);
        seen = reals(y);
        return sum(y * y);
      },
      inputs);
  EXPECT_EQ(seen, reals(masked(inputs)));
  for (const Tensor& slope : slopes) {
    for (const double value : reals(slope)) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
  const std::vector<double> of_queries = reals(slopes[0]);
  EXPECT_THAT(std::vector<double>(of_queries.begin() + 4, of_queries.end()), Each(0));
}

TEST_F(AttentionTest, ErrorsNameTheRuleAndTheOperands) {
  const Tensor q = zeros(device(), {2, 4, 3, 8});
  const Tensor k = zeros(device(), {2, 2, 5, 8});
  const auto shape_error = [&](const Tensor& key, const Tensor& value) {
    return thrown_text<ShapeError>([&] { (void)attention(q, key, value); });
  };
  EXPECT_EQ(shape_error(zeros(device(), {2, 3, 5, 8}), zeros(device(), {2, 3, 5, 8})),
            "attention: 4 query heads do not share 3 key heads: query f32[2, 4, 3, 8], key f32[2, "
            "3, 5, 8], value f32[2, 3, 5, 8]");
  EXPECT_THAT(shape_error(zeros(device(), {2, 2, 5, 4}), k),
              HasSubstr("queries and keys differ in width"));
  EXPECT_THAT(shape_error(k, zeros(device(), {2, 2, 6, 8})),
              HasSubstr("keys and values differ in number"));
  EXPECT_THAT(shape_error(k, zeros(device(), {2, 4, 5, 8})),
              HasSubstr("keys and values differ in heads"));
  EXPECT_THAT(shape_error(zeros(device(), {1, 2, 5, 8}), k),
              HasSubstr("sizes along axis 0 differ"));
  EXPECT_THAT(shape_error(zeros(device(), {5, 8}), k), HasSubstr("one rank, at least 2"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)attention(q, k, k, zeros(device(), {3, 4}));
              }),
              HasSubstr("the mask does not broadcast to [2, 4, 3, 5]"));
  EXPECT_THAT(
      thrown_text<DtypeError>([&] { (void)attention(q, k, k, zeros(device(), {5}, DType::i64)); }),
      HasSubstr("the mask must be bool or f32"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)attention(q, cast(k, DType::f64), k); }),
              HasSubstr("element types differ"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)attention(q, k, k, {.scale = kInfinity}); }),
              HasSubstr("attention: the scale inf is not finite"));
}

// ---- on cpu ----

class CpuAttention : public ::testing::Test {
 protected:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = "cpu:0"}}}};
  Device cpu_ = runtime_.device("cpu:0");

  Generator generator_{7};

  [[nodiscard]] Tensor normal(const Shape& shape) { return random_normal(cpu_, shape, generator_); }
  static std::vector<double> values(const Tensor& x) {
    return cast(x, DType::f64).to_vector<double>();
  }
};

TEST_F(CpuAttention, NeverHoldsTheScores) {
  const Tensors inputs{
      normal({1, 1, 4096, 16}), normal({1, 1, 4096, 16}), normal({1, 1, 4096, 16})};
  constexpr std::int64_t kScores = 4096LL * 4096 * 4;
  cpu_.sync();
  cpu_.reset_peak_memory();
  const std::int64_t before = cpu_.memory().live_bytes;
  const Tensors slopes =
      grad([](const Tensors& in) { return sum(attention(in[0], in[1], in[2], {.causal = true})); },
           inputs);
  cpu_.sync();
  EXPECT_LT(cpu_.memory().peak_live_bytes - before, kScores / 3);
}

// A cache gives the results of the whole sequence, token by token.
TEST_F(CpuAttention, OneQueryAtATimeGivesTheSame) {
  constexpr std::int64_t kLength = 300;
  const Tensor q = normal({2, 6, kLength, 32});
  const Tensor k = normal({2, 2, kLength, 32});
  const Tensor v = normal({2, 2, kLength, 32});
  const Tensor all = attention(q, k, v, {.causal = true});
  for (const std::int64_t i : {0, 1, 255, 256, 299}) {
    const auto part = [&](const Tensor& x, std::int64_t first) {
      return slice(x, 2, {.start = first, .stop = i + 1});
    };
    const Tensor one = attention(part(q, i), part(k, 0), part(v, 0), {.causal = true});
    expect_close(values(one), values(part(all, i)), 2e-6);
  }
}

TEST_F(CpuAttention, TakesViewsWhereTheyLie) {
  const Tensor q = normal({2, 9, 4, 8});
  const Tensor packed =
      normal({2, 9, 2, 2, 8});  // keys and values side by side, as Linear returns them
  const auto heads = [](const Tensor& x) { return permute(x, {0, 2, 1, 3}); };
  const Tensor k = squeeze(slice(packed, 2, {.stop = 1}), 2);
  const Tensor v = squeeze(slice(packed, 2, {.start = 1}), 2);
  const auto dense = [&](const Tensor& x) { return contiguous(heads(x)); };
  expect_close(values(attention(heads(q), heads(k), heads(v))),
               values(attention(dense(q), dense(k), dense(v))),
               0);
}

}  // namespace
}  // namespace hearth
