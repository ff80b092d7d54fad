#include <hearth/modules/adam.hpp>
#include <hearth/modules/lamb.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/muon.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/sgd.hpp>

#include "test_runtime.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/runtime/ops.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Point {
  Tensor p;
  HEARTH_MODULE(Point, p)
};

struct TwoParameters {
  Tensor a, b;
  HEARTH_MODULE(TwoParameters, a, b)
};

// An artificial gradient that changes from step to step.
double gradient_at(int step, int index) {
  return std::sin(1.5 * step + index) - 0.2 * index;
}

// Steps a point of three numbers and compares it with equal sums in plain doubles.
template <class Chosen, class Formula>
void expect_steps(Chosen optimizer, Formula formula) {
  constexpr int kSize = 3;
  const auto limit = testing::tolerance(testing::Precision::function, DType::f64);
  TestRuntime test;
  std::vector<double> want{1, -2, 0.5};
  for (const Device& device : {test.reference, test.cpu}) {
    Point point{Tensor::from(device, std::vector<double>{1, -2, 0.5}, {kSize})};
    want = {1, -2, 0.5};
    Chosen stepped(optimizer.config());
    Formula sums = formula;
    for (int step = 1; step <= 4; ++step) {
      std::vector<double> gradient(kSize);
      for (int i = 0; i < kSize; ++i) {
        gradient[static_cast<std::size_t>(i)] = gradient_at(step, i);
      }
      sums(step, want, gradient);
      Gradients gradients({"p"}, {Tensor::from(device, gradient, {kSize})});
      EXPECT_EQ(stepped.step(point, std::move(gradients)).get().step, step);
    }
    const std::vector<double> got = point.p.to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(limit.accepts(got[i], want[i]))
          << device.name() << ": " << got[i] << ", expected " << want[i];
    }
  }
}

// The update of torch.optim.SGD by its documentation.
struct SgdSums {
  Sgd::Config config;
  std::vector<double> momentum = {0, 0, 0};
  void operator()(int step, std::vector<double>& p, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i] + config.weight_decay * p[i];
      if (config.momentum != 0) {
        momentum[i] = step == 1 ? g : config.momentum * momentum[i] + (1 - config.dampening) * g;
        g = config.nesterov ? g + config.momentum * momentum[i] : momentum[i];
      }
      p[i] -= config.learning_rate * g;
    }
  }
};

// The updates of torch.optim.Adam and AdamW.
struct AdamSums {
  Adam::Config config;
  std::vector<double> mean = {0, 0, 0};
  std::vector<double> variance = {0, 0, 0};
  void operator()(int step, std::vector<double>& p, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i];
      if (config.decoupled) {
        p[i] -= config.learning_rate * config.weight_decay * p[i];
      } else {
        g += config.weight_decay * p[i];
      }
      mean[i] = config.beta1 * mean[i] + (1 - config.beta1) * g;
      variance[i] = config.beta2 * variance[i] + (1 - config.beta2) * g * g;
      const double m = mean[i] / (1 - std::pow(config.beta1, step));
      const double v = variance[i] / (1 - std::pow(config.beta2, step));
      p[i] -= config.learning_rate * m / (std::sqrt(v) + config.epsilon);
    }
  }
};

void expect_sgd(const Sgd::Config& config) {
  expect_steps(Sgd(config), SgdSums{config});
}
void expect_adam(const Adam::Config& config) {
  expect_steps(Adam(config), AdamSums{config});
}

TEST(Sgd, FollowsItsFormula) {
  expect_sgd({.learning_rate = 0.1});
  expect_sgd({.learning_rate = 0.1, .weight_decay = 0.3});
  expect_sgd({.learning_rate = 0.1, .momentum = 0.9});
  expect_sgd({.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.1});
  expect_sgd({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
}

TEST(Adam, FollowsItsFormula) {
  expect_adam({.learning_rate = 0.1});
  expect_adam({.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.7, .weight_decay = 0.2});
  expect_adam({.learning_rate = 0.1, .weight_decay = 0.2, .decoupled = true});
}

TEST(AdamW, IsAdamWithDecoupledDecay) {
  const AdamW optimizer({.learning_rate = 0.5});
  EXPECT_TRUE(optimizer.config().decoupled);
  EXPECT_EQ(optimizer.config().weight_decay, 1e-2);
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
}

TEST(Optimizers, RefuseSettingsThatMakeNoSense) {
  EXPECT_THROW(Sgd({.learning_rate = -1}), ArgumentError);
  EXPECT_THROW(Sgd({.nesterov = true}), ArgumentError);
  EXPECT_THROW(Sgd({.momentum = 0.9, .dampening = 0.1, .nesterov = true}), ArgumentError);
  EXPECT_THROW(Adam({.beta1 = 1}), ArgumentError);
  EXPECT_THROW(AdamW({.weight_decay = std::nan("")}), ArgumentError);
  Sgd sgd({});
  EXPECT_THROW(sgd.set_learning_rate(INFINITY), ArgumentError);
}

TEST(Optimizers, TheLearningRateMayChangeBetweenSteps) {
  TestRuntime test;
  Point point{zeros(test.cpu, {1})};
  Optimizer optimizer = Sgd({.learning_rate = 1});
  const auto step = [&] {
    return optimizer.step(point, Gradients({"p"}, {ones(test.cpu, {1})})).get();
  };
  static_cast<void>(step());
  optimizer.set_learning_rate(0.25);
  EXPECT_EQ(step().learning_rate, 0.25);
  EXPECT_EQ(point.p.item(), -1.25);
  EXPECT_EQ(optimizer.step_count(), 2);
}

TEST(Optimizers, RefuseGradientsOfOtherParametersAndChangeNothing) {
  TestRuntime test;
  TwoParameters model{ones(test.cpu, {2}), ones(test.cpu, {3})};
  Adam optimizer({});
  const auto expect_refused =
      [&](std::vector<std::string> paths, std::vector<Shape> shapes, const char* text) {
        std::vector<Tensor> tensors;
        for (const Shape& shape : shapes) {
          tensors.push_back(ones(test.cpu, shape));
        }
        try {
          static_cast<void>(optimizer.step(model, Gradients(std::move(paths), std::move(tensors))));
          FAIL() << "taken: " << text;
        } catch (const ArgumentError& error) {
          EXPECT_THAT(error.what(), HasSubstr(text));
        }
      };
  expect_refused({"a"}, {{2}}, "1 gradients for 2 parameters");
  expect_refused({"a", "c"}, {{2}, {3}}, "gradient 1 is for 'c', the parameter is 'b'");
  expect_refused({"a", "b"},
                 {{2}, {2}},
                 "the gradient of 'b' is f32[2] on cpu:0, the parameter f32[3] on cpu:0");
  EXPECT_EQ(model.a.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(optimizer.step_count(), 0);
}

TEST(Optimizers, NameTheMismatchOfAGradientAsPlainOpsDo) {
  TestRuntime test;
  Point point{ones(test.cpu, {2})};
  Sgd optimizer({});
  const auto step = [&](const Tensor& gradient) {
    static_cast<void>(optimizer.step(point, Gradients({"p"}, {gradient})));
  };
  EXPECT_THROW(step(ones(test.reference, {2})), DeviceMismatch);
  EXPECT_THROW(step(ones(test.cpu, {2}, DType::f64)), DtypeError);
  EXPECT_THROW(step(ones(test.cpu, {3})), ShapeError);
  EXPECT_THROW(step(Tensor()), ShapeError);
}

TEST(Optimizers, RefuseAModelOfOtherShapesThanTheirStateIsOf) {
  TestRuntime test;
  Point point{ones(test.cpu, {2})};
  Point wide{ones(test.cpu, {3})};
  Adam adam({});
  Sgd sgd({.momentum = 0.9});
  const auto step = [&](auto& optimizer, Point& model) {
    return optimizer.step(model, Gradients({"p"}, {ones(test.cpu, model.p.shape())})).get();
  };
  const auto expect_refused = [&](auto& optimizer, const char* text) {
    static_cast<void>(step(optimizer, point));
    try {
      static_cast<void>(step(optimizer, wide));
      FAIL() << "taken: " << text;
    } catch (const ShapeError& error) {
      EXPECT_EQ(error.error().text, text);
      EXPECT_EQ(error.error().module_path, "p");
    }
    EXPECT_EQ(wide.p.to_vector<float>(), (std::vector<float>{1, 1, 1}));
    EXPECT_EQ(optimizer.step_count(), 1);
  };
  expect_refused(adam,
                 "Adam: 'p' is f32[3] on cpu:0, and the optimizer's state for it f32[2] on cpu:0: "
                 "that is of another model; take an optimizer of its own for this one");
  expect_refused(sgd,
                 "Sgd: 'p' is f32[3] on cpu:0, and the optimizer's state for it f32[2] on cpu:0: "
                 "that is of another model; take an optimizer of its own for this one");
}

TEST(Optimizers, RefuseAModelOnSeveralDevices) {
  TestRuntime test;
  TwoParameters model{ones(test.cpu, {2}), ones(test.reference, {2})};
  Sgd optimizer({.momentum = 0.9});
  EXPECT_THROW(static_cast<void>(optimizer.step(
                   model, Gradients({"a", "b"}, {ones(test.cpu, {2}), ones(test.reference, {2})}))),
               DeviceMismatch);
}

TEST(Optimizers, KeepTheirStateInVisitOrderWithThePaths) {
  TestRuntime test;
  TwoParameters model{ones(test.cpu, {2}), ones(test.cpu, {3})};
  Optimizer optimizer = Adam({});
  EXPECT_TRUE(named_tensors(optimizer).empty());
  optimizer.prepare(model);
  std::vector<std::string> names;
  for (const NamedTensor& named : named_tensors(optimizer)) {
    names.push_back(named.name);
  }
  EXPECT_THAT(names, ElementsAre("mean.a", "mean.b", "variance.a", "variance.b"));
  Point other{ones(test.cpu, {1})};
  EXPECT_THROW(optimizer.prepare(other), ArgumentError);
}

TEST(Optimizers, LeaveIntegerTensorsAlone) {
  TestRuntime test;
  TwoParameters model{ones(test.cpu, {2}), ones(test.cpu, {3}, DType::i64)};
  Adam optimizer({});
  auto [loss, gradients] = value_and_grad(model, [](const auto& m) { return sum(m.a); });
  optimizer.step(model, std::move(gradients)).get();
  EXPECT_EQ(model.b.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_LT(model.a.to_vector<float>()[0], 1);
}

// A label outside the classes poisons the loss, and with it every gradient.
template <class Chosen>
void expect_survives_poison(Chosen optimizer) {
  TestRuntime test;
  const std::vector<std::int64_t> good{0, 1, 1, 0};
  const std::vector<std::int64_t> bad{0, 1, 9, 0};
  const auto train =
      [&](auto& chosen, const std::vector<std::vector<std::int64_t>>& labels, int& failures) {
        Generator generator(4);
        Linear model({.in = 3, .out = 2}, test.cpu, generator);
        const Tensor x = random_normal(test.cpu, {4, 3}, generator);
        for (const std::vector<std::int64_t>& targets : labels) {
          const Tensor y = Tensor::from(test.cpu, targets, {4});
          auto [loss, gradients] =
              value_and_grad(model, [&](const auto& m) { return cross_entropy(m.forward(x), y); });
          const Pending<StepReport> step = chosen.step(model, std::move(gradients));
          const Status status = step.wait();
          failures += status.has_value() ? 0 : 1;
          EXPECT_TRUE(status.has_value() || status.error().code == ErrorCode::out_of_range);
        }
        return model.weight.to_vector<float>();
      };
  int failures = 0;
  Chosen undisturbed(optimizer.config());
  const std::vector<float> expected = train(undisturbed, {good, good, good}, failures);
  EXPECT_EQ(failures, 0);
  const std::vector<float> got = train(optimizer, {bad, good, bad, bad, good, good, bad}, failures);
  EXPECT_EQ(failures, 4);
  EXPECT_EQ(optimizer.step_count(), 3);
  EXPECT_EQ(got, expected);
}

TEST(Optimizers, TrainOnAfterPoisonedStepsAsIfTheyHadNotBeen) {
  expect_survives_poison(Sgd({.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5}));
  expect_survives_poison(Adam({.learning_rate = 0.1}));
  expect_survives_poison(Lamb({.learning_rate = 0.1}));
  expect_survives_poison(Muon({.learning_rate = 0.1}));
}

// Submits 1 to 4 are the first step's gradient and initial moments; 5 is the update. If any of the
// first four fails, only one step is lost.
TEST(Optimizers, ALostFirstStepLeavesNoStateBehind) {
  bool has_lost_the_first = false;
  for (std::uint64_t failing = 1; failing <= 4; ++failing) {
    const Runtime runtime(
        {.devices = {{.name = "sim:0", .faults = FaultPlan{.failing_submits = {failing}}}}});
    Point point{Tensor::from(runtime.device("sim:0"), {1.0F, 2.0F}, {2})};
    Adam optimizer({.learning_rate = 0.5});
    int lost = 0;
    for (int step = 0; step < 4; ++step) {
      auto gradients = value_and_grad(point, [](const auto& m) { return sum(m.p); }).gradients;
      const bool is_lost = !optimizer.step(point, std::move(gradients)).wait().has_value();
      has_lost_the_first = has_lost_the_first || (is_lost && step == 0);
      lost += is_lost ? 1 : 0;
    }
    EXPECT_LE(lost, 1) << "submit " << failing << " fails";
  }
  EXPECT_TRUE(has_lost_the_first);
}

TEST(Optimizers, APoisonedStepNobodyWaitsForDoesNotCountEither) {
  TestRuntime test;
  Point point{zeros(test.cpu, {1, 2})};
  Adam optimizer({.learning_rate = 0.5});
  const auto gradients_for = [&](std::int64_t label) {
    return value_and_grad(point,
                          [&](const auto& m) {
                            return cross_entropy(m.p, Tensor::from(test.cpu, {label}, {1}));
                          })
        .gradients;
  };
  std::vector<Pending<StepReport>> steps;
  for (const std::int64_t label : {std::int64_t{0}, std::int64_t{5}, std::int64_t{0}}) {
    steps.push_back(optimizer.step(point, gradients_for(label)));
  }
  EXPECT_EQ(steps[0].get().step, 1);
  EXPECT_EQ(steps[1].wait().error().code, ErrorCode::out_of_range);
  EXPECT_EQ(steps[2].get().step, 2);
  EXPECT_EQ(optimizer.step_count(), 2);
}

}  // namespace
}  // namespace hearth
