// Metrics against values computed by hand, whole and in parts.
#include <hearth/modules/evaluation_metric.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/ops.hpp>

#include <cfenv>
#include <cmath>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

using Batches = std::vector<std::pair<Tensor, Tensor>>;

double figure(const EvaluationMetric& metric, const Batches& batches) {
  EvaluationMetric::Statistics all;
  for (const auto& [outputs, targets] : batches) {
    merge_statistics(metric, all, metric.measure(outputs, targets));
  }
  return metric.value(all);
}

class EvaluationMetrics : public ::testing::Test {
 protected:
  [[nodiscard]] Tensor floats(const std::vector<float>& values, const Shape& shape) const {
    return Tensor::from(test.cpu, values, shape);
  }
  [[nodiscard]] Tensor labels(const std::vector<std::int64_t>& values) const {
    return Tensor::from(test.cpu, values, {static_cast<std::int64_t>(values.size())});
  }

  TestRuntime test;
};

// Predictions 2, 0, 1, 2; labels 2, 1, 1, 0: two of four are right.
TEST_F(EvaluationMetrics, AccuracyIsTheShareOfRightRowsOverAllBatches) {
  const Batches batches{{floats({0, 1, 2, 5, 1, 2}, {2, 3}), labels({2, 1})},
                        {floats({0, 9, 2, 1, 2, 3}, {2, 3}), labels({1, 0})}};
  EXPECT_DOUBLE_EQ(figure(accuracy_metric(), batches), 0.5);
  EXPECT_DOUBLE_EQ(figure(confusion_metric(3), batches), 0.5);
}

// The classes of the rows by size: 2 1 0, 0 2 1, 1 2 0.
TEST_F(EvaluationMetrics, TopKCountsARowWhoseLabelIsAmongTheLargest) {
  const Tensor logits = floats({0, 1, 2, 5, 1, 2, 0, 9, 2}, {3, 3});
  const Batches batches{{logits, labels({1, 2, 0})}};
  EXPECT_DOUBLE_EQ(figure(top_k_metric(1), batches), 0);
  EXPECT_DOUBLE_EQ(figure(top_k_metric(2), batches), 2.0 / 3);
  EXPECT_DOUBLE_EQ(figure(top_k_metric(3), batches), 1);
  EXPECT_EQ(top_k_metric(2).name, "top-2 accuracy");
  EXPECT_THROW(static_cast<void>(top_k_metric(0)), ArgumentError);
  EXPECT_THROW(static_cast<void>(top_k_metric(4).measure(logits, labels({1, 2, 0}))),
               ArgumentError);
}

// Class 0: 1 of 2 found, 1 predicted; class 1: 1 of 1 found, 2 predicted; class 2: 0 of 1 found, 1
// predicted.
TEST_F(EvaluationMetrics, F1IsTheMeanOverTheClasses) {
  const Batches batches{{floats({9, 1, 2, 1, 9, 2}, {2, 3}), labels({0, 1})},
                        {floats({1, 9, 2, 1, 2, 9}, {2, 3}), labels({2, 0})}};
  const double f1_of_0 = 2.0 * 1 / (2 + 1);
  const double f1_of_1 = 2.0 * 1 / (1 + 2);
  EXPECT_NEAR(figure(f1_metric(3), batches), (f1_of_0 + f1_of_1 + 0) / 3, 1e-15);
}

// 2 found, 1 false positive, 1 missed: 2·2 / (2·2 + 1 + 1).
TEST_F(EvaluationMetrics, BinaryF1TakesOneLogitOrTwo) {
  const Batches one{{floats({1, 2, 3, -1, -2}, {5, 1}), labels({1, 1, 0, 1, 0})}};
  EXPECT_NEAR(figure(binary_f1_metric(), one), 4.0 / 6, 1e-15);
  const Batches two{{floats({0, 1, 0, 2, 0, 3, 0, -1, 0, -2}, {5, 2}), labels({1, 1, 0, 1, 0})}};
  EXPECT_NEAR(figure(binary_f1_metric(), two), 4.0 / 6, 1e-15);
  EXPECT_THROW(static_cast<void>(binary_f1_metric().measure(floats({1}, {1}), floats({0.5F}, {1}))),
               Exception);
}

// Targets 1, 2, 3, 6: mean 3, squared distances 14; errors 1, 0, -1, 1: 3.
TEST_F(EvaluationMetrics, RSquaredOfPartsIsThatOfTheWhole) {
  const double wanted = 1 - 3.0 / 14;
  const Batches whole{{floats({2, 2, 2, 7}, {4, 1}), floats({1, 2, 3, 6}, {4})}};
  EXPECT_NEAR(figure(r_squared_metric(), whole), wanted, 1e-15);
  const Batches parts{{floats({2}, {1}), floats({1}, {1})},
                      {floats({}, {0}), floats({}, {0})},
                      {floats({2, 2, 7}, {3}), floats({2, 3, 6}, {3})}};
  EXPECT_NEAR(figure(r_squared_metric(), parts), wanted, 1e-15);
}

// Sums of the squares of such targets would lose all digits of the deviations.
TEST_F(EvaluationMetrics, RSquaredOfTargetsFarFromZeroKeepsItsDigits) {
  const Tensor targets = Tensor::from<double>(test.cpu, {1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 6}, {4});
  const Tensor outputs = Tensor::from<double>(test.cpu, {1e9 + 2, 1e9 + 2, 1e9 + 2, 1e9 + 7}, {4});
  EXPECT_NEAR(figure(r_squared_metric(), {{outputs, targets}}), 1 - 3.0 / 14, 1e-9);
  const Tensor equal = Tensor::from<double>(test.cpu, {5.0, 5.0}, {2});
  EXPECT_TRUE(std::isnan(figure(r_squared_metric(), {{equal, equal}})));
}

TEST_F(EvaluationMetrics, TheMeanErrorIsThatOfTheDistances) {
  const Batches batches{{floats({2, 2}, {2}), floats({1, 2}, {2})},
                        {floats({2}, {1}), floats({4}, {1})}};
  EXPECT_DOUBLE_EQ(figure(mean_error_metric(), batches), 1);
  EXPECT_EQ(mean_error_metric().goal, Goal::lowest);
}

TEST_F(EvaluationMetrics, WhatDoesNotFitIsRefusedWithItsShapes) {
  const auto expect_refused = [](const EvaluationMetric& metric,
                                 const Tensor& outputs,
                                 const Tensor& targets,
                                 const char* text) {
    try {
      static_cast<void>(metric.measure(outputs, targets));
      ADD_FAILURE() << text;
    } catch (const Exception& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  const Tensor logits = floats({1, 2, 3, 4}, {2, 2});
  expect_refused(accuracy_metric(), logits, labels({1}), "got [2, 2] and [1]");
  expect_refused(accuracy_metric(), logits, floats({1, 2}, {2}), "targets are classes in i32 or");
  expect_refused(
      f1_metric(3), logits, labels({0, 1}), "made for 3 classes, but outputs are [2, 2]");
  expect_refused(
      confusion_metric(2),
      logits,
      labels({0, 2}),
      "confusion_metric: the target of row 1 is 2, but outputs [2, 2] are of the classes 0 to 1");
  expect_refused(r_squared_metric(), logits, floats({1}, {1}), "equally many elements");
  expect_refused(accuracy_metric(),
                 logits,
                 labels({0, -1}),
                 "accuracy: the target of row 1 is -1, but outputs [2, 2] are of the classes 0 to");
  expect_refused(top_k_metric(1), logits, labels({2, 0}), "top-1 accuracy: the target of row 0 is");
}

// The largest of one logit is always class 0: accuracy would be the share of zeros.
TEST_F(EvaluationMetrics, OneLogitIsForTheBinaryMetrics) {
  const Tensor outputs = floats({1, -2, 3, -4}, {4, 1});
  for (const EvaluationMetric& metric : {accuracy_metric(), top_k_metric(1)}) {
    try {
      static_cast<void>(metric.measure(outputs, labels({1, 0, 1, 0})));
      ADD_FAILURE() << metric.name;
    } catch (const ShapeError& error) {
      EXPECT_THAT(error.what(), HasSubstr(metric.name + ": outputs [4, 1] are of fewer than two"));
      EXPECT_THAT(error.what(), HasSubstr("binary_accuracy_metric()"));
    }
  }
  EXPECT_THROW(static_cast<void>(confusion_metric(1)), ArgumentError);
}

TEST_F(EvaluationMetrics, BinaryAccuracyCountsBothSidesOfItsThreshold) {
  const Tensor outputs = floats({1, -2, 3, 0.25}, {4, 1});
  EXPECT_DOUBLE_EQ(figure(binary_accuracy_metric(), {{outputs, labels({1, 0, 0, 1})}}), 0.75);
  EXPECT_DOUBLE_EQ(figure(binary_accuracy_metric(0.5), {{outputs, labels({1, 0, 0, 1})}}), 0.5);
  const Batches floating{{outputs, floats({1, 0, 1, 1}, {4, 1})}, {outputs, labels({0, 1, 0, 0})}};
  EXPECT_DOUBLE_EQ(figure(binary_accuracy_metric(), floating), 0.5);
  EXPECT_THROW(
      static_cast<void>(binary_accuracy_metric().measure(outputs, floats({1, 0, 2, 1}, {4}))),
      Exception);
  EXPECT_THROW(static_cast<void>(binary_accuracy_metric().measure(outputs, labels({1, 0}))),
               ShapeError);
}

TEST(ConfusionMatrix, FiguresOfTwoClassesFollowFromItsCounts) {
  ConfusionMatrix matrix(2);
  matrix.add(1, 1, 40);  // found
  matrix.add(1, 0, 10);  // missed
  matrix.add(0, 1, 20);  // false positives
  matrix.add(0, 0, 30);
  EXPECT_EQ(matrix.total(), 100);
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 0.7);
  EXPECT_DOUBLE_EQ(matrix.precision(1), 40.0 / 60);
  EXPECT_DOUBLE_EQ(matrix.recall(1), 40.0 / 50);
  EXPECT_DOUBLE_EQ(matrix.f1(1), 80.0 / 110);
  EXPECT_DOUBLE_EQ(matrix.macro_f1(), (80.0 / 110 + 60.0 / 90) / 2);
  EXPECT_EQ(matrix.to_string(),
            "   |  0  1\n"
            " 0 | 30 20\n"
            " 1 | 10 40\n");
}

TEST(ConfusionMatrix, AClassWithoutExamplesCountsInTheMeanOfAllClasses) {
  ConfusionMatrix matrix(3);
  matrix.add(0, 0, 3);
  matrix.add(1, 1, 2);
  EXPECT_DOUBLE_EQ(matrix.macro_f1(), 2.0 / 3);
}

TEST(ConfusionMatrix, WithoutExamplesThereIsNoAccuracy) {
  const ConfusionMatrix matrix(3);
#ifdef __GLIBC__
  std::feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_INVALID);  // a program that is stopped by each invalid operation
  static_cast<void>(matrix.accuracy());
  static_cast<void>(matrix.macro_f1());
  fedisableexcept(FE_INVALID);
#endif
  EXPECT_TRUE(std::isnan(matrix.accuracy()));
  EXPECT_TRUE(std::isnan(matrix.macro_f1()));
  EXPECT_EQ(matrix.precision(2), 0);
  EXPECT_EQ(matrix.recall(2), 0);
}

TEST(ConfusionMatrix, RefusesClassesThatThereAreNot) {
  ConfusionMatrix matrix(2);
  EXPECT_THROW(matrix.add(2, 0), Exception);
  EXPECT_THROW(matrix.add(0, -1), Exception);
  EXPECT_THROW(matrix.add(0, 0, -1), ArgumentError);
  EXPECT_THROW(matrix.add(ConfusionMatrix(3)), ArgumentError);
  EXPECT_THROW(ConfusionMatrix(0), ArgumentError);
  EXPECT_EQ(matrix.total(), 0);
}

}  // namespace
}  // namespace hearth
