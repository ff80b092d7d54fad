// Losses as objects: PyTorch's definitions, alike on one device, several devices and accumulated
// batches.
#include <hearth/parallel/trainer_losses.hpp>

#include "digits_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kColumns = 3;

/// Outputs and targets, as numbers too.
class LossObjects : public ::testing::Test {
 public:
  LossObjects() {
    Generator generator(4);
    outputs = random_normal(device, {kRows, kColumns}, generator, 0, 2, DType::f64);
    targets = random_uniform(device, {kRows, kColumns}, generator, 0, 1, DType::f64);
    x = outputs.to_vector<double>();
    t = targets.to_vector<double>();
  }
  /// The mean over all elements of of(output, target).
  [[nodiscard]] double mean_over(const std::function<double(double, double)>& of) const {
    double all = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      all += of(x[i], t[i]);
    }
    return all / static_cast<double>(x.size());
  }

  const Runtime runtime;
  const Device device = runtime.device("cpu:0");
  Tensor outputs;
  Tensor targets;
  std::vector<double> x;
  std::vector<double> t;
};

TEST_F(LossObjects, OfClassesAreALossForValueAndGrad) {
  struct Logits {
    Tensor values;
    HEARTH_MODULE(Logits, values)
  };
  const Logits model{outputs};
  const Tensor classes = Tensor::from<std::int64_t>(device, {0, 2, 1, 0, 2});
  const Tensor weights = Tensor::from<double>(device, {1, 2, 4});
  for (const CrossEntropyOptions& options : {CrossEntropyOptions{},
                                             CrossEntropyOptions{.ignore_index = 0},
                                             CrossEntropyOptions{.class_weights = weights}}) {
    const CrossEntropyLoss object(options);
    auto [want, wanted] = value_and_grad(model, [&](const Logits& tracked) {
      return std::tuple(cross_entropy(tracked.values, classes, options), 3);
    });
    auto [loss, gradients] = value_and_grad(
        model, [&](const Logits& tracked) { return object(tracked.values, classes); });
    EXPECT_NEAR(loss.item(), std::get<0>(want).item(), 1e-12);
    EXPECT_NEAR(gradients.norm().item(), wanted.norm().item(), 1e-12);
    EXPECT_NEAR(object(outputs, classes).mean().item(), loss.item(), 1e-12);
    const std::vector<Tensor> slopes =
        grad([&](const std::vector<Tensor>& in) { return object(in[0], classes); }, {outputs});
    EXPECT_NEAR(sum(square(slopes[0])).item(), std::pow(wanted.norm().item(), 2), 1e-12);
  }
}

TEST_F(LossObjects, AreWhatPyTorchDefines) {
  const auto huber = [](double delta) {
    return [delta](double a, double b) {
      const double d = std::fabs(a - b);
      return d <= delta ? d * d / 2 : delta * (d - delta / 2);
    };
  };
  EXPECT_NEAR(MeanSquaredLoss()(outputs, targets).item(),
              mean_over([](double a, double b) { return (a - b) * (a - b); }),
              1e-12);
  EXPECT_NEAR(L1Loss()(outputs, targets).item(),
              mean_over([](double a, double b) { return std::fabs(a - b); }),
              1e-12);
  EXPECT_NEAR(HuberLoss()(outputs, targets).item(), mean_over(huber(1)), 1e-12);
  EXPECT_NEAR(HuberLoss({.delta = 0.4})(outputs, targets).item(), mean_over(huber(0.4)), 1e-12);
  EXPECT_NEAR(SmoothL1Loss()(outputs, targets).item(), mean_over(huber(1)), 1e-12);
  EXPECT_NEAR(
      SmoothL1Loss({.beta = 0.4})(outputs, targets).item(), mean_over(huber(0.4)) / 0.4, 1e-12);
  EXPECT_EQ(SmoothL1Loss({.beta = 0})(outputs, targets).item(), L1Loss()(outputs, targets).item());
  EXPECT_NEAR(BinaryCrossEntropyWithLogitsLoss()(outputs, targets).item(),
              mean_over([](double a, double b) {
                const double p = 1 / (1 + std::exp(-a));
                return -b * std::log(p) - (1 - b) * std::log(1 - p);
              }),
              1e-12);
  EXPECT_NEAR(BinaryCrossEntropyWithLogitsLoss({.positive_weight = full(device, {kColumns}, 3.0)})(
                  outputs, targets)
                  .item(),
              mean_over([](double a, double b) {
                const double p = 1 / (1 + std::exp(-a));
                return -3 * b * std::log(p) - (1 - b) * std::log(1 - p);
              }),
              1e-12);
  // reduction="batchmean": a mean over rows, not over elements.
  EXPECT_NEAR(KlDivergenceLoss()(outputs, targets).item(),
              mean_over([](double a, double b) { return b * (std::log(b) - a); }) * kColumns,
              1e-12);
  const std::vector<std::int64_t> classes{0, 2, 1, 1, 2};
  double likelihood = 0;
  for (std::size_t row = 0; row < classes.size(); ++row) {
    likelihood -= x[row * kColumns + static_cast<std::size_t>(classes[row])] / kRows;
  }
  EXPECT_NEAR(NegativeLogLikelihoodLoss()(outputs, Tensor::from(device, classes, {kRows})).item(),
              likelihood,
              1e-12);
}

TEST_F(LossObjects, TargetsTakeTheFormOfTheOutputs) {
  const Tensor column = outputs[{Range{}, Range{.start = 0, .stop = 1}}].to(DType::f32);
  const Tensor labels = Tensor::from<std::int64_t>(device, {0, 1, 1, 0, 1}, {kRows});
  const Tensor same = reshape(labels, {kRows, 1}).to(DType::f32);
  const auto expect_alike = [&](const auto& loss) {
    EXPECT_EQ(loss(column, labels).item(), loss(column, same).item());
  };
  expect_alike(MeanSquaredLoss());
  expect_alike(L1Loss());
  expect_alike(HuberLoss());
  expect_alike(SmoothL1Loss());
  expect_alike(BinaryCrossEntropyWithLogitsLoss());
  expect_alike(KlDivergenceLoss());
}

template <class Loss>
void expect_refused(const Loss& loss, const std::string& name, std::uint32_t line) {
  const Runtime runtime;
  const Device device = runtime.device();
  try {
    static_cast<void>(loss(ones(device, {2, 3}), ones(device, {3, 2})));
    ADD_FAILURE() << name << ": compared rows with columns";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), StartsWith(name + ": outputs are f32[2, 3], but targets f32[3, 2]"));
    EXPECT_EQ(error.error().location.line, line) << error.what();
  }
}

TEST_F(LossObjects, ShapesThatDifferAreRefusedWhereTheLossWasMade) {
  expect_refused(MeanSquaredLoss(), "MeanSquaredLoss", __LINE__);
  expect_refused(L1Loss(), "L1Loss", __LINE__);
  expect_refused(HuberLoss(), "HuberLoss", __LINE__);
  expect_refused(SmoothL1Loss(), "SmoothL1Loss", __LINE__);
  expect_refused(KlDivergenceLoss(), "KlDivergenceLoss", __LINE__);
  expect_refused(BinaryCrossEntropyWithLogitsLoss(), "BinaryCrossEntropyWithLogitsLoss", __LINE__);
}

TEST_F(LossObjects, AreNamedInWhatTheirFunctionsRefuse) {
  const auto refusal = [](const auto& loss, const Tensor& given, const Tensor& wanted) {
    try {
      static_cast<void>(loss(given, wanted));
    } catch (const ArgumentError& error) {
      return error.error().text;
    }
    return std::string("nothing refused");
  };
  const Tensor rows = zeros(device, {2, 3});
  const Tensor three = Tensor::from(device, {1, 2, 0}, {3});
  EXPECT_EQ(
      refusal(CrossEntropyLoss({.ignore_index = 0}), rows, three),
      "CrossEntropyLoss: targets must be [2], are i32[3]: logits f32[2, 3], classes on axis 1");
  EXPECT_THAT(refusal(CrossEntropyLoss(), zeros(device, {2, 1}), zeros(device, {2}, DType::i64)),
              HasSubstr("CrossEntropyLoss: outputs [2, 1] are of one class; for one logit a row "
                        "there is BinaryCrossEntropyWithLogitsLoss"));
  EXPECT_THAT(refusal(CrossEntropyLoss(), rows, zeros(device, {2})),
              HasSubstr("CrossEntropyLoss: targets must be i32 or i64"));
  EXPECT_THAT(refusal(NegativeLogLikelihoodLoss(), rows, zeros(device, {2})),
              HasSubstr("NegativeLogLikelihoodLoss: targets must be i32 or i64"));
  EXPECT_THAT(refusal(MeanSquaredLoss(), three, three),
              HasSubstr("MeanSquaredLoss: does not take"));
  EXPECT_THAT(refusal(BinaryCrossEntropyWithLogitsLoss({.positive_weight = ones(device, {5})}),
                      zeros(device, {2}),
                      zeros(device, {2})),
              HasSubstr("BinaryCrossEntropyWithLogitsLoss: positive_weight must broadcast"));
}

TEST_F(LossObjects, OptionsThatMakeNoSenseAreRefused) {
  for (const double delta : {0.0, -1.0, std::nan("")}) {
    try {
      const HuberLoss refused({.delta = delta});
      ADD_FAILURE() << delta;
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("HuberLoss: delta is "));
    }
  }
  EXPECT_THROW(SmoothL1Loss({.beta = -0.1}), ArgumentError);
  for (const double smoothing : {-0.1, 1.5, std::nan("")}) {
    EXPECT_THROW(CrossEntropyLoss({.label_smoothing = smoothing}), ArgumentError) << smoothing;
  }
}

/// `loss` of the outputs of a Trainer's network, with targets that are not classes.
template <class Loss>
void expect_exact(const Loss& loss) {
  expect_division_changes_nothing(
      [&](const Device&) {
        return [loss](const Tensor& outputs, const Tensor& classes) {
          const Tensor hot = one_hot(classes, 10, DType::f64);
          return loss(log_softmax(outputs, 1), hot * 0.9 + 0.01);
        };
      },
      [](TrainerOptions&) {});
}

TEST(TrainerLosses, TwoDevicesAndAccumulatedBatchesAreOneBatch) {
  expect_exact(L1Loss());
  expect_exact(HuberLoss({.delta = 0.5}));
  expect_exact(SmoothL1Loss({.beta = 0.5}));
  expect_exact(KlDivergenceLoss());
  expect_exact(BinaryCrossEntropyWithLogitsLoss());
  expect_exact(MeanSquaredLoss());
}

TEST(TrainerLosses, OfLogProbabilitiesIsThatOfLogits) {
  const auto of_logs = [](const Device&) {
    return [loss = NegativeLogLikelihoodLoss()](const Tensor& outputs, const Tensor& classes) {
      return loss(log_softmax(outputs, 1), classes);
    };
  };
  expect_division_changes_nothing(of_logs, [](TrainerOptions&) {});
  Digits digits;
  digits.options.epochs = 1;
  Trainer<DigitNet> logs(digits.runtime,
                         DigitNet(digits.options.devices.front(), 0, DType::f64),
                         of_logs(digits.options.devices.front()),
                         digits.options);
  Trainer<DigitNet> logits(digits.runtime,
                           DigitNet(digits.options.devices.front(), 0, DType::f64),
                           CrossEntropyLoss(),
                           digits.options);
  EXPECT_NEAR(logs.fit(digits.train).history.epochs[0].train_loss,
              logits.fit(digits.train).history.epochs[0].train_loss,
              1e-9);
}

}  // namespace
}  // namespace hearth
