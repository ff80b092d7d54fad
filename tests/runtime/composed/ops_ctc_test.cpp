// ctc_loss beside the sum over all paths.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/sequence_losses.hpp>

#include "tests/runtime/composed/composed_test.hpp"
#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <cmath>
#include <limits>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using testing::thrown_text;
using CtcTest = testing::ComposedTest;
using Tensors = std::vector<Tensor>;
using Labels = std::vector<std::int64_t>;

constexpr double kInf = std::numeric_limits<double>::infinity();

// Sums the probabilities of all paths of this length that give the target.
double plain_ctc(const HostTensor& x,
                 std::int64_t sequence,
                 std::int64_t length,
                 const Labels& target,
                 std::int64_t blank) {
  const std::int64_t batch = x.shape[1];
  const std::int64_t classes = x.shape[2];
  std::int64_t paths = 1;
  for (std::int64_t t = 0; t < length; ++t) {
    paths *= classes;
  }
  double total = 0;
  for (std::int64_t number = 0; number < paths; ++number) {
    Labels merged;
    double log_probability = 0;
    std::int64_t last = -1;
    std::int64_t rest = number;
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t label = rest % classes;
      rest /= classes;
      log_probability +=
          x.values[static_cast<std::size_t>((t * batch + sequence) * classes + label)];
      if (label != last && label != blank) {
        merged.push_back(label);
      }
      last = label;
    }
    total += merged == target ? std::exp(log_probability) : 0;
  }
  return -std::log(total);
}

TEST_P(CtcTest, MatchesTheSumOverAllPaths) {
  const HostTensor x = HostRandom(51).uniform({5, 4, 3}, -3, 0);
  for (const std::int64_t blank : {0, 2}) {
    const std::int64_t one = blank == 0 ? 1 : 0;
    const std::int64_t two = blank == 0 ? 2 : 1;
    const std::vector<Labels> targets{{one, two}, {one, one}, {two}, {}};
    const Labels lengths{5, 4, 1, 3};
    // Entries behind a target's length are no classes.
    const Tensor padded = i64({one, two, -1, one, one, 99, two, -1, 99, -1, -1, -1}, {4, 3});
    const Tensor counts = i64({2, 2, 1, 0});
    const Tensor losses =
        ctc_loss_per_sequence(x.on(device()), padded, i64(lengths), counts, {.blank = blank});
    EXPECT_EQ(losses.shape(), Shape{4});
    const std::vector<double> got = reals(losses);
    double mean = 0;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const double wanted =
          plain_ctc(x, static_cast<std::int64_t>(i), lengths[i], targets[i], blank);
      EXPECT_NEAR(got[i], wanted, 1e-10) << i << " of blank " << blank;
      mean += wanted / static_cast<double>(std::max<std::size_t>(targets[i].size(), 1)) / 4;
    }
    const Tensor both =
        ctc_loss(x.on(device()), cast(padded, DType::i32), i64(lengths), counts, {.blank = blank});
    EXPECT_NEAR(both.item(), mean, 1e-10);
  }
}

TEST_P(CtcTest, HasAGradient) {
  const Tensor targets = i64({1, 2, 1, 1, 2, 0}, {3, 2});
  const Tensor lengths = i64({4, 3, 2});
  const Tensor counts = i64({2, 2, 1});
  check_gradients(device(),
                  [&](const Tensors& in) {
                    return ctc_loss_per_sequence(log_softmax(in[0]), targets, lengths, counts);
                  },
                  {HostRandom(52).uniform({4, 3, 3}, -2, 2)});
  check_gradients(device(),
                  [&](const Tensors& in) { return ctc_loss(in[0], targets, lengths, counts); },
                  {HostRandom(53).uniform({4, 3, 3}, -2, 0)});
}

TEST_P(CtcTest, UnreachableTargetsAreInfiniteOrZero) {
  // Two equal labels need three times, two labels two of them.
  const HostTensor x = HostRandom(54).uniform({2, 3, 3}, -2, 0);
  const Tensor targets = i64({1, 1, 1, 2, 1, 2}, {3, 2});
  const Tensor lengths = i64({2, 2, 0});
  const Tensor counts = i64({2, 2, 1});
  const std::vector<double> losses =
      reals(ctc_loss_per_sequence(x.on(device()), targets, lengths, counts));
  EXPECT_EQ(losses[0], kInf);
  EXPECT_NEAR(losses[1], plain_ctc(x, 1, 2, {1, 2}, 0), 1e-10);
  EXPECT_EQ(losses[2], kInf) << "no time";
  const std::vector<double> zeros = reals(
      ctc_loss_per_sequence(x.on(device()), targets, lengths, counts, {.zero_infinity = true}));
  EXPECT_EQ(zeros[0], 0);
  EXPECT_EQ(zeros[1], losses[1]);
  EXPECT_EQ(zeros[2], 0);
  const std::vector<double> slopes = reals(grad(
      [&](const Tensors& in) {
        return sum(ctc_loss_per_sequence(in[0], targets, lengths, counts, {.zero_infinity = true}));
      },
      {x.on(device())})[0]);
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    const bool is_reachable = i / 3 % 3 == 1;
    EXPECT_TRUE(std::isfinite(slopes[i]) && (is_reachable || slopes[i] == 0)) << i;
  }
}

TEST_P(CtcTest, TakesZeroProbabilitiesNarrowTypesAndEmptySizes) {
  const Tensor sure = f64({-kInf, 0, -kInf, 0, -kInf, 0}, {3, 1, 2});
  EXPECT_EQ(ctc_loss(sure, i64({1}, {1, 1}), i64({3}), i64({1})).item(), 0);
  EXPECT_EQ(ctc_loss(sure, i64({}, {1, 0}), i64({3}), i64({0})).item(), kInf);
  const HostTensor x = HostRandom(55).uniform({3, 2, 3}, -2, 0);
  const Tensor targets = i64({1, 2}, {2, 1});
  const Tensor narrow =
      ctc_loss_per_sequence(cast(x.on(device()), DType::f16), targets, i64({3, 3}), i64({1, 1}));
  EXPECT_EQ(narrow.dtype(), DType::f16);
  EXPECT_NEAR(reals(narrow)[0], plain_ctc(x, 0, 3, {1}, 0), 1e-2);
  EXPECT_EQ(
      reals(ctc_loss_per_sequence(zeros(device(), {0, 2, 3}), targets, i64({0, 0}), i64({0, 1}))),
      (std::vector<double>{0, kInf}));
  EXPECT_EQ(
      ctc_loss_per_sequence(zeros(device(), {3, 0, 3}), i64({}, {0, 1}), i64({}), i64({})).shape(),
      Shape{0});
}

TEST_P(CtcTest, RefusesWhatDoesNotFit) {
  const Tensor x = zeros(device(), {3, 2, 4});
  const Tensor targets = i64({1, 2}, {2, 1});
  const Tensor lengths = i64({3, 3});
  const Tensor counts = i64({1, 1});
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)ctc_loss(x, targets, lengths, i64({1})); }),
              HasSubstr("ctc_loss: needs log probabilities [t, n, classes], targets [n, s] and "
                        "lengths [n]: log probabilities f32[3, 2, 4], targets i64[2, 1], lengths "
                        "i64[2] and i64[1]"));
  EXPECT_THAT(thrown_text<ArgumentError>(
                  [&] { (void)ctc_loss_per_sequence(x, targets, lengths, counts, {.blank = 4}); }),
              HasSubstr("ctc_loss_per_sequence: the blank 4 is not in [0, 4)"));
  EXPECT_THROW((void)ctc_loss(x, cast(targets, DType::f32), lengths, counts), DtypeError);
  EXPECT_THROW((void)ctc_loss(cast(x, DType::i32), targets, lengths, counts), DtypeError);
  EXPECT_EQ(failure(ctc_loss(x, targets, i64({3, 4}), counts)), ErrorCode::out_of_range);
  EXPECT_EQ(failure(ctc_loss(x, targets, lengths, i64({1, 2}))), ErrorCode::out_of_range);
  EXPECT_EQ(failure(ctc_loss(x, i64({1, 4}, {2, 1}), lengths, counts)), ErrorCode::out_of_range);
}

HEARTH_ON_COMPOSED_DEVICES(CtcTest);

}  // namespace
}  // namespace hearth
