// cross_entropy with options against plain loops, for every option alone and together.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <optional>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using testing::thrown_text;
using CrossEntropyTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

constexpr std::size_t kClasses = 3;
const std::vector<std::int32_t> kTargets{2, 0, -100, 1, 2};

struct Case {
  std::optional<std::int64_t> ignore_index = {};
  std::vector<double> weights = {1, 1, 1};
  double smoothing = 0;
};

double by_hand(const std::vector<double>& logits,
               const std::vector<std::int32_t>& targets,
               const Case& with) {
  double total = 0;
  double divisor = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (with.ignore_index.has_value() && targets[row] == *with.ignore_index) {
      continue;
    }
    double normaliser = 0;
    for (std::size_t i = 0; i < kClasses; ++i) {
      normaliser += std::exp(logits[row * kClasses + i]);
    }
    const auto loss = [&](std::size_t i) {
      return with.weights[i] * (std::log(normaliser) - logits[row * kClasses + i]);
    };
    const auto target = static_cast<std::size_t>(targets[row]);
    total += (1 - with.smoothing) * loss(target);
    for (std::size_t i = 0; i < kClasses; ++i) {
      total += with.smoothing / static_cast<double>(kClasses) * loss(i);
    }
    divisor += with.weights[target];
  }
  return total / divisor;
}

TEST_F(CrossEntropyTest, IsWhatPlainLoopsGiveForEachOption) {
  const HostTensor x = HostRandom(6).signed_values({5, 3});
  const Case cases[] = {{.ignore_index = -100},
                        {.ignore_index = -100, .weights = {0.5, 2, 3}},
                        {.ignore_index = -100, .smoothing = 0.2},
                        {.ignore_index = -100, .weights = {0.5, 0, 3}, .smoothing = 0.1}};
  for (const Case& with : cases) {
    const CrossEntropyOptions options{.ignore_index = with.ignore_index,
                                      .class_weights = f64(with.weights, {3}),
                                      .label_smoothing = with.smoothing};
    const Tensor targets = i32(kTargets, {5});
    EXPECT_NEAR(cross_entropy(x.on(device()), targets, options).item(),
                by_hand(x.values, kTargets, with),
                1e-12);
    check_gradients(
        device(), [&](const Tensors& in) { return cross_entropy(in[0], targets, options); }, {x});
  }
  const std::vector<std::int32_t> all{2, 0, 1, 1, 2};
  EXPECT_NEAR(cross_entropy(x.on(device()), i32(all, {5}), {.label_smoothing = 0.3}).item(),
              by_hand(x.values, all, {.smoothing = 0.3}),
              1e-12);
  EXPECT_NEAR(cross_entropy(x.on(device()), i32(all, {5}), CrossEntropyOptions{}).item(),
              cross_entropy(x.on(device()), i32(all, {5})).item(),
              1e-12);
}

TEST_F(CrossEntropyTest, TakesClassesOnAnyAxis) {
  const Tensor rows = HostRandom(7).signed_values({2, 4, 3}).on(device());
  const Tensor targets = i64({0, 1, 2, 0, 1, 2, 0, 1}, {2, 4});
  const double want = cross_entropy(reshape(rows, {8, 3}), reshape(targets, {8})).item();
  EXPECT_NEAR(cross_entropy(rows, targets, {.class_axis = -1}).item(), want, 1e-12);
  EXPECT_NEAR(
      cross_entropy(permute(rows, {0, 2, 1}), targets, CrossEntropyOptions{}).item(), want, 1e-12);
  EXPECT_NEAR(cross_entropy(permute(rows, {0, 2, 1}), targets).item(), want, 1e-12);
  EXPECT_EQ(
      thrown_text<ShapeError>([&] { (void)cross_entropy(rows, targets, CrossEntropyOptions{}); }),
      "cross_entropy: targets must be [2, 3], are i64[2, 4]: logits f64[2, 4, 3], classes on "
      "axis 1");
}

TEST_F(CrossEntropyTest, OfIgnoredTargetsAloneIsNoNumber) {
  const Tensor loss = cross_entropy(counting({2, 3}), i32({7, 7}, {2}), {.ignore_index = 7});
  EXPECT_TRUE(std::isnan(loss.item()));
}

TEST_F(CrossEntropyTest, AddsUpManyNarrowRowsInF32) {
  const Tensor logits = cast(zeros(device(), {3000, 2}, DType::f64), DType::f16);
  const Tensor targets = zeros(device(), {3000}, DType::i64);
  const Tensor loss = cross_entropy(logits, targets, {.ignore_index = 1});
  EXPECT_EQ(loss.dtype(), DType::f16);
  EXPECT_NEAR(loss.item(), std::log(2.0), 1e-3) << "a sum of 3000 rows in f16 stops at 1386";
}

TEST_F(CrossEntropyTest, SaysWhatToDoWithTargetsThatAreNoClasses) {
  const Tensor x = counting({2, 3});
  for (const bool has_options : {false, true}) {
    const auto call = [&](const Tensor& logits, const Tensor& targets) {
      (void)(has_options ? cross_entropy(logits, targets, {.label_smoothing = 0.1})
                         : cross_entropy(logits, targets));
    };
    EXPECT_THAT(thrown_text<DtypeError>([&] {
                  call(x, counting({2, 1}));
                }),
                ::testing::StartsWith("cross_entropy: targets must be i32 or i64, the numbers of "
                                      "classes, are f64[2, 1]: of a table, TableOptions::target"));
  }
}

TEST_F(CrossEntropyTest, RefusesOptionsThatDoNotFit) {
  const Tensor x = counting({2, 3});
  const Tensor targets = i32({0, 1}, {2});
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)cross_entropy(x, targets, {.label_smoothing = 1.5}); }),
            "cross_entropy: the label smoothing 1.5 is not in 0 to 1");
  EXPECT_EQ(thrown_text<ShapeError>(
                [&] { (void)cross_entropy(x, targets, {.class_weights = counting({2})}); }),
            "cross_entropy: class_weights must be [3], are f64[2]");
  EXPECT_THROW((void)cross_entropy(x, x, CrossEntropyOptions{}), ArgumentError);
  const Tensor spoiled = cross_entropy(x, i32({0, 3}, {2}), {.ignore_index = -100});
  EXPECT_THROW((void)spoiled.item(), DeviceError);
}

}  // namespace
}  // namespace hearth
