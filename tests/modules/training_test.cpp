// All rooms together: digits, loader, model, optimizer and metrics on a CPU device.
#include <hearth/modules/activations.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/digits.hpp>
#include <hearth/modules/flatten.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/metrics.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/sequential.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include <cmath>
#include <limits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Training, AFewEpochsOfDigitsTeachASmallNetwork) {
  TestRuntime test;
  Generator generator(1);
  Sequential model(Flatten{},
                   Linear({.in = 28 * 28, .out = 64}, test.cpu, generator),
                   Relu{},
                   Linear({.in = 64, .out = 10}, test.cpu, generator));
  Optimizer optimizer = Adam({.learning_rate = 2e-3});
  const ImageDataset digits(make_digits({.count = 500}));
  DataLoader loader(digits, test.runtime.executor(), {.batch_size = 25, .seed = 1});
  for (int epoch = 0; epoch < 6; ++epoch) {
    while (const std::optional<Batch> batch = loader.next(test.cpu)) {
      auto [loss, gradients] = value_and_grad(model, [&](const auto& m) {
        return cross_entropy(m.forward(batch->inputs), batch->targets);
      });
      static_cast<void>(optimizer.step(model, std::move(gradients)));
      require_finite(loss.item(), loader.cursor().batch);
    }
  }
  std::int64_t correct = 0;
  while (const std::optional<Batch> batch = loader.next(test.cpu)) {
    const Tensor hits = correct_count(model.forward(batch->inputs), batch->targets);
    correct += hits.item<std::int64_t>();
  }
  EXPECT_GT(correct, 400) << "of 500";
}

TEST(Metrics, AccuracyCountsTheRowsThatHit) {
  TestRuntime test;
  const Tensor logits = Tensor::from(test.cpu, {0.0F, 1.0F, 3.0F, 2.0F, 5.0F, 6.0F}, {3, 2});
  const Tensor labels = Tensor::from(test.cpu, {std::int32_t{1}, 0, 0}, {3});
  EXPECT_FLOAT_EQ(accuracy(logits, labels).item<float>(), 2.0F / 3);
  EXPECT_EQ(correct_count(logits, labels).item<std::int64_t>(), 2);
  EXPECT_THROW(static_cast<void>(accuracy(logits, ones(test.cpu, {2}, DType::i64))), ShapeError);
}

TEST(Metrics, AccuracyRefusesWhatIsNoClass) {
  TestRuntime test;
  const Tensor logits = Tensor::from(test.cpu, {0.0F, 1.0F, 3.0F, 2.0F}, {2, 2});
  const Tensor labels = Tensor::from<std::int64_t>(test.cpu, {0, 2}, {2});
  EXPECT_THROW(static_cast<void>(accuracy(logits, labels).item<float>()), DeviceError);
  EXPECT_THROW(static_cast<void>(accuracy(logits, ones(test.cpu, {2}))), DtypeError);
  const Tensor column = Tensor::from(test.cpu, {0.0F, 1.0F}, {2, 1});
  try {
    static_cast<void>(accuracy(column, zeros(test.cpu, {2}, DType::i64)));
    FAIL() << "one logit was taken";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("accuracy: logits [2, 1] are of fewer than two classes; of "
                                     "one logit a row it is binary_accuracy()"));
  }
}

TEST(Metrics, BinaryAccuracyCountsTheLogitsOnTheRightSide) {
  TestRuntime test;
  const Tensor logits = Tensor::from(test.cpu, {1.0F, -1.0F, 3.0F, 0.25F}, {4, 1});
  const Tensor labels = Tensor::from<std::int64_t>(test.cpu, {1, 0, 0, 1}, {4});
  EXPECT_FLOAT_EQ(binary_accuracy(logits, labels).item<float>(), 0.75F);
  EXPECT_FLOAT_EQ(binary_accuracy(logits, labels.to(DType::f32), 0.5).item<float>(), 0.5F);
  const Tensor half = full(test.cpu, {4}, 0.5F);
  EXPECT_THROW(static_cast<void>(binary_accuracy(logits, half).item<float>()), DeviceError);
  EXPECT_THROW(static_cast<void>(binary_accuracy(logits, ones(test.cpu, {3}))), ShapeError);
}

TEST(Metrics, ALossThatIsNoNumberIsReportedWithItsStep) {
  require_finite(0.5, 1);
  try {
    require_finite(std::numeric_limits<double>::quiet_NaN(), 17);
    FAIL() << "NaN was taken";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::non_finite);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the loss of step 17 is nan"));
  }
}

}  // namespace
}  // namespace hearth
