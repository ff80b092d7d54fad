// Optimizers of a rule: formulas against plain loops, operands and states of rules, refusals.
#include <hearth/modules/adadelta.hpp>
#include <hearth/modules/adagrad.hpp>
#include <hearth/modules/lamb.hpp>
#include <hearth/modules/lion.hpp>
#include <hearth/modules/muon.hpp>
#include <hearth/modules/nadam.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/radam.hpp>
#include <hearth/modules/rms_prop.hpp>

#include "test_runtime.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/runtime/ops.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Values = std::vector<double>;

// Matrices are tall and wide; the vector has its own weight decay.
struct Weights {
  Tensor tall, wide, vector;
  HEARTH_MODULE(Weights, tall, wide, vector)
};

/// A parameter of the plain loops.
struct Plain {
  std::string path;
  Shape shape;
  double decay = 0;
  Values p = {};
  std::map<std::string, Values> state = {};

  Values& slot(const std::string& name) { return state.try_emplace(name, p.size()).first->second; }
};

double value_at(std::size_t i) {
  return std::cos(2.3 * static_cast<double>(i)) - 0.1;
}
double gradient_at(int step, std::size_t i) {
  return std::sin(1.5 * step + 0.7 * static_cast<double>(i)) - 0.2;
}

std::vector<Plain> plain_weights(double decay) {
  std::vector<Plain> all{{.path = "tall", .shape = {5, 3}, .decay = decay},
                         {.path = "wide", .shape = {2, 7}, .decay = decay},
                         {.path = "vector", .shape = {7}, .decay = 0.5}};
  for (Plain& each : all) {
    for (std::int64_t i = 0; i < each.shape.element_count(); ++i) {
      each.p.push_back(value_at(static_cast<std::size_t>(i)));
    }
  }
  return all;
}

using Formula = std::function<void(int step, Plain& parameter, const Values& gradient)>;

template <class Rule>
void expect_steps(Rule rule, const Formula& formula, int steps = 7) {
  rule.groups = {{.match = "vector", .weight_decay = 0.5}};
  const TestRuntime test;
  for (const Device& device : {test.reference, test.cpu}) {
    std::vector<Plain> want = plain_weights(rule.weight_decay);
    Weights model;
    std::vector<Tensor*> tensors{&model.tall, &model.wide, &model.vector};
    for (std::size_t i = 0; i < want.size(); ++i) {
      *tensors[i] = Tensor::from(device, want[i].p, want[i].shape);
    }
    RuleOptimizer<Rule> optimizer(rule);
    for (int step = 1; step <= steps; ++step) {
      std::vector<Tensor> gradients;
      for (Plain& each : want) {
        Values gradient;
        for (std::size_t i = 0; i < each.p.size(); ++i) {
          gradient.push_back(gradient_at(step, i));
        }
        formula(step, each, gradient);
        gradients.push_back(Tensor::from(device, gradient, each.shape));
      }
      Gradients all({"tall", "wide", "vector"}, std::move(gradients));
      EXPECT_EQ(optimizer.step(model, std::move(all)).get().step, step);
    }
    // Each step rounds anew, and Newton-Schulz sums a few products.
    const auto limit = testing::tolerance(testing::Precision::sum, DType::f64, 100 * steps);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const Values got = tensors[i]->to_vector<double>();
      for (std::size_t k = 0; k < got.size(); ++k) {
        EXPECT_TRUE(limit.accepts(got[k], want[i].p[k]))
            << device.name() << ", " << want[i].path << "[" << k << "]: " << got[k] << ", expected "
            << want[i].p[k];
      }
    }
  }
}

// torch.optim.RMSprop
Formula rms_prop_loop(const RmsPropRule& rule) {
  return [rule](int /*step*/, Plain& parameter, const Values& gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& p = parameter.p[i];
      double& v = parameter.slot("v")[i];
      double& mean = parameter.slot("mean")[i];
      double& buffer = parameter.slot("buffer")[i];
      const double g = gradient[i] + parameter.decay * p;
      v = rule.alpha * v + (1 - rule.alpha) * g * g;
      double average = v;
      if (rule.centered) {
        mean = rule.alpha * mean + (1 - rule.alpha) * g;
        average = v - mean * mean;
      }
      average = std::sqrt(average) + rule.epsilon;
      buffer = rule.momentum * buffer + g / average;
      p -= rule.learning_rate * buffer;
    }
  };
}

TEST(RmsProp, FollowsItsFormula) {
  const auto expect = [](const RmsPropRule& rule) { expect_steps(rule, rms_prop_loop(rule)); };
  expect({});
  expect({.learning_rate = 0.1, .alpha = 0.7, .epsilon = 1e-3, .weight_decay = 0.2});
  expect({.learning_rate = 0.1, .momentum = 0.9});
  expect({.learning_rate = 0.1, .centered = true});
  expect({.learning_rate = 0.1, .weight_decay = 0.1, .momentum = 0.5, .centered = true});
}

// torch.optim.Adagrad
Formula adagrad_loop(const AdagradRule& rule) {
  return [rule](int step, Plain& parameter, const Values& gradient) {
    if (step == 1) {
      parameter.slot("sum").assign(gradient.size(), rule.initial_sum);
    }
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& p = parameter.p[i];
      double& sum = parameter.slot("sum")[i];
      const double g = gradient[i] + parameter.decay * p;
      sum += g * g;
      p -= rule.learning_rate / (1 + (step - 1) * rule.rate_decay) * g /
           (std::sqrt(sum) + rule.epsilon);
    }
  };
}

TEST(Adagrad, FollowsItsFormula) {
  const auto expect = [](const AdagradRule& rule) { expect_steps(rule, adagrad_loop(rule)); };
  expect({});
  expect({.learning_rate = 0.1, .rate_decay = 0.3, .weight_decay = 0.2});
  expect({.learning_rate = 0.1, .initial_sum = 0.7, .epsilon = 1e-3});
}

// torch.optim.Adadelta
Formula adadelta_loop(const AdadeltaRule& rule) {
  return [rule](int /*step*/, Plain& parameter, const Values& gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& p = parameter.p[i];
      double& square = parameter.slot("square")[i];
      double& steps = parameter.slot("steps")[i];
      const double g = gradient[i] + parameter.decay * p;
      square = rule.rho * square + (1 - rule.rho) * g * g;
      const double delta = std::sqrt(steps + rule.epsilon) / std::sqrt(square + rule.epsilon) * g;
      steps = rule.rho * steps + (1 - rule.rho) * delta * delta;
      p -= rule.learning_rate * delta;
    }
  };
}

TEST(Adadelta, FollowsItsFormula) {
  const auto expect = [](const AdadeltaRule& rule) { expect_steps(rule, adadelta_loop(rule)); };
  expect({});
  expect({.learning_rate = 0.5, .rho = 0.6, .epsilon = 1e-3, .weight_decay = 0.2});
}

Formula lion_loop(const LionRule& rule) {
  return [rule](int /*step*/, Plain& parameter, const Values& gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& p = parameter.p[i];
      double& m = parameter.slot("m")[i];
      const double c = rule.beta1 * m + (1 - rule.beta1) * gradient[i];
      p -= rule.learning_rate * ((c > 0 ? 1 : c < 0 ? -1 : 0) + parameter.decay * p);
      m = rule.beta2 * m + (1 - rule.beta2) * gradient[i];
    }
  };
}

TEST(Lion, FollowsItsFormula) {
  const auto expect = [](const LionRule& rule) { expect_steps(rule, lion_loop(rule)); };
  expect({});
  expect({.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.7, .weight_decay = 0.2});
}

TEST(Lion, AGradientOfZeroMovesNothing) {
  const TestRuntime test;
  Weights model{ones(test.cpu, {1}), ones(test.cpu, {1}), ones(test.cpu, {1})};
  Lion optimizer({.learning_rate = 0.5});
  const Tensor zero = zeros(test.cpu, {1});
  optimizer.step(model, Gradients({"tall", "wide", "vector"}, {zero, zero, zero})).get();
  EXPECT_EQ(model.tall.item(), 1);
}

/// The moments of Adam's family after a gradient.
struct LoopMoments {
  double g, m, v;
};
template <class Rule>
LoopMoments moments(const Rule& rule, Plain& parameter, std::size_t i, double gradient) {
  bool is_decoupled = true;
  if constexpr (requires { rule.decoupled; }) {
    is_decoupled = rule.decoupled;
    if (is_decoupled) {
      parameter.p[i] *= 1 - rule.learning_rate * parameter.decay;
    }
  }
  const double g = is_decoupled ? gradient : gradient + parameter.decay * parameter.p[i];
  double& m = parameter.slot("m")[i];
  double& v = parameter.slot("v")[i];
  m = rule.beta1 * m + (1 - rule.beta1) * g;
  v = rule.beta2 * v + (1 - rule.beta2) * g * g;
  return {g, m, v};
}

// torch.optim.RAdam
Formula radam_loop(const RAdamRule& rule) {
  return [rule](int step, Plain& parameter, const Values& gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto [g, m, v] = moments(rule, parameter, i, gradient[i]);
      const double first = 1 - std::pow(rule.beta1, step);
      const double second = 1 - std::pow(rule.beta2, step);
      const double end = 2 / (1 - rule.beta2) - 1;
      const double rho = end - 2 * step * std::pow(rule.beta2, step) / second;
      double scale = 1;
      if (rho > 5) {
        const double rectified =
            std::sqrt((rho - 4) * (rho - 2) * end / ((end - 4) * (end - 2) * rho));
        scale = rectified * std::sqrt(second) / (std::sqrt(v) + rule.epsilon);
      }
      parameter.p[i] -= rule.learning_rate * m / first * scale;
    }
  };
}

TEST(RAdam, FollowsItsFormulaBeforeAndAfterItTrustsTheVariance) {
  const auto expect = [](const RAdamRule& rule) { expect_steps(rule, radam_loop(rule), 12); };
  expect({});
  expect({.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.7, .weight_decay = 0.2});
  expect({.learning_rate = 0.1, .beta2 = 0.9, .weight_decay = 0.2, .decoupled = true});
}

// torch.optim.NAdam, which keeps the product of its momentums.
Formula nadam_loop(const NAdamRule& rule) {
  return [rule](int step, Plain& parameter, const Values& gradient) {
    const auto momentum = [&](int of) {
      return rule.beta1 * (1 - 0.5 * std::pow(0.96, of * rule.momentum_decay));
    };
    double product = 1;
    for (int of = 1; of <= step; ++of) {
      product *= momentum(of);
    }
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto [g, m, v] = moments(rule, parameter, i, gradient[i]);
      const double root = std::sqrt(v / (1 - std::pow(rule.beta2, step))) + rule.epsilon;
      const double next = momentum(step + 1);
      parameter.p[i] -=
          rule.learning_rate *
          ((1 - momentum(step)) / (1 - product) * g + next / (1 - product * next) * m) / root;
    }
  };
}

TEST(NAdam, FollowsItsFormulaWithoutAStateForItsProduct) {
  const auto expect = [](const NAdamRule& rule) { expect_steps(rule, nadam_loop(rule), 12); };
  expect({});
  expect({.learning_rate = 0.1, .beta1 = 0.99, .momentum_decay = 0.5});
  expect({.learning_rate = 0.1, .weight_decay = 0.2, .momentum_decay = 0});
  expect({.learning_rate = 0.1, .weight_decay = 0.2, .decoupled = true});
}

double norm_of(const Values& values) {
  double sum = 0;
  for (const double each : values) {
    sum += each * each;
  }
  return std::sqrt(sum);
}

Formula lamb_loop(const LambRule& rule) {
  return [rule](int step, Plain& parameter, const Values& gradient) {
    Values direction;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto [g, m, v] = moments(rule, parameter, i, gradient[i]);
      direction.push_back(m / (1 - std::pow(rule.beta1, step)) /
                              (std::sqrt(v / (1 - std::pow(rule.beta2, step))) + rule.epsilon) +
                          parameter.decay * parameter.p[i]);
    }
    const double length = norm_of(parameter.p);
    const double step_length = norm_of(direction);
    const double ratio = length > 0 && step_length > 0 ? length / step_length : 1;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      parameter.p[i] -= rule.learning_rate * ratio * direction[i];
    }
  };
}

TEST(Lamb, FollowsItsFormula) {
  const auto expect = [](const LambRule& rule) { expect_steps(rule, lamb_loop(rule)); };
  expect({});
  expect({.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.7, .epsilon = 1e-3, .weight_decay = 0.2});
}

TEST(Lamb, AParameterOfZerosMovesByAdamsStep) {
  const TestRuntime test;
  Weights model{zeros(test.cpu, {3}), ones(test.cpu, {1}), ones(test.cpu, {1})};
  Lamb optimizer({.learning_rate = 0.5, .epsilon = 0, .weight_decay = 0});
  const Tensor one = ones(test.cpu, {1});
  optimizer.step(model, Gradients({"tall", "wide", "vector"}, {ones(test.cpu, {3}), one, one}))
      .get();
  EXPECT_NEAR(model.tall.to_vector<float>()[2], -0.5, 1e-6);
}

using Matrix = std::vector<Values>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result(a.size(), Values(b.front().size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < b.front().size(); ++j) {
        result[i][j] += a[i][k] * b[k][j];
      }
    }
  }
  return result;
}
Matrix transposed(const Matrix& a) {
  Matrix result(a.front().size(), Values(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.front().size(); ++j) {
      result[j][i] = a[i][j];
    }
  }
  return result;
}

// torch.optim.Muon in f64, and AdamW for what it refuses.
// NOLINTNEXTLINE(readability-function-cognitive-complexity): plain loops over a matrix
Formula muon_loop(const MuonRule& rule) {
  return [rule](int step, Plain& parameter, const Values& gradient) {
    if (parameter.shape.rank() != 2) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        parameter.p[i] *= 1 - rule.learning_rate * parameter.decay;
        const auto [g, m, v] = moments(rule, parameter, i, gradient[i]);
        parameter.p[i] -= rule.learning_rate * m / (1 - std::pow(rule.beta1, step)) /
                          (std::sqrt(v / (1 - std::pow(rule.beta2, step))) + rule.adamw_epsilon);
      }
      return;
    }
    const auto rows = static_cast<std::size_t>(parameter.shape[0]);
    const auto columns = static_cast<std::size_t>(parameter.shape[1]);
    Matrix u(rows, Values(columns));
    Values flat;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& m = parameter.slot("m")[i];
      m = rule.momentum * m + (1 - rule.momentum) * gradient[i];
      flat.push_back(rule.nesterov ? rule.momentum * m + (1 - rule.momentum) * gradient[i] : m);
      u[i / columns][i % columns] = flat.back();
    }
    const double norm = std::max(norm_of(flat), rule.epsilon);
    for (Values& row : u) {
      for (double& each : row) {
        each /= norm;
      }
    }
    for (int round = 0; round < rule.iterations; ++round) {
      const Matrix gram = product(u, transposed(u));
      const Matrix squared = product(gram, gram);
      Matrix factor = gram;
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < rows; ++j) {
          factor[i][j] = -4.775 * gram[i][j] + 2.0315 * squared[i][j];
        }
      }
      const Matrix more = product(factor, u);
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          u[i][j] = 3.4445 * u[i][j] + more[i][j];
        }
      }
    }
    const auto r = static_cast<double>(rows);
    const auto c = static_cast<double>(columns);
    const double scale = rule.scale == MuonScale::original ? std::sqrt(std::max(1.0, r / c))
                                                           : 0.2 * std::sqrt(std::max(r, c));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      parameter.p[i] = (1 - rule.learning_rate * parameter.decay) * parameter.p[i] -
                       rule.learning_rate * scale * u[i / columns][i % columns];
    }
  };
}

TEST(Muon, FollowsItsFormulaForMatricesAndAdamWForTheRest) {
  const auto expect = [](const MuonRule& rule) { expect_steps(rule, muon_loop(rule), 4); };
  expect({});
  expect({.learning_rate = 0.1, .weight_decay = 0.2, .scale = MuonScale::original});
  expect({.learning_rate = 0.1, .momentum = 0.5, .nesterov = false, .iterations = 2});
}

std::vector<std::string> state_names(const Optimizer& optimizer) {
  std::vector<std::string> names;
  optimizer.visit(
      "", [&](const std::string& name, const Tensor& /*tensor*/) { names.push_back(name); });
  return names;
}

TEST(Muon, KeepsOneTensorForAMatrixAndTwoForTheRest) {
  const TestRuntime test;
  Weights model{ones(test.cpu, {2, 3}), ones(test.cpu, {3, 2}), ones(test.cpu, {4})};
  Optimizer optimizer = Muon({.adamw = {"wi*"}});
  optimizer.prepare(model);
  EXPECT_THAT(
      state_names(optimizer),
      ElementsAre("momentum.tall", "mean.wide", "mean.vector", "variance.wide", "variance.vector"));
}

TEST(RuleOptimizers, ComputeBf16WeightsInF32AndKeepTheirStateSo) {
  const TestRuntime test;
  const auto expect = [&](auto rule) {
    rule.learning_rate = 0.25;
    RuleOptimizer<decltype(rule)> narrow(rule);
    RuleOptimizer<decltype(rule)> wide(rule);
    const auto weights = [&](DType dtype) {
      const auto make = [&](const Shape& shape) {
        return reshape(arange(test.cpu, 1, static_cast<double>(shape.element_count()) + 1), shape)
            .to(dtype);
      };
      return Weights{make({3, 5}), make({5, 2}), make({7})};
    };
    const auto gradients = [&](const Weights& of, DType dtype) {
      return Gradients({"tall", "wide", "vector"},
                       {(of.tall.to(DType::f32) * 0.125).to(dtype),
                        (of.wide.to(DType::f32) * -0.5).to(dtype),
                        (of.vector.to(DType::f32) * 0.25).to(dtype)});
    };
    Weights rounded = weights(DType::bf16);
    Weights exact = weights(DType::f32);
    narrow.step(rounded, gradients(weights(DType::f32), DType::bf16)).get();
    wide.step(exact, gradients(weights(DType::f32), DType::f32)).get();
    EXPECT_EQ(rounded.wide.to(DType::f32).template to_vector<float>(),
              exact.wide.to(DType::bf16).to(DType::f32).template to_vector<float>())
        << rule.name();
    narrow.visit("", [&](const std::string& name, const Tensor& state) {
      EXPECT_EQ(state.dtype(), DType::f32) << rule.name() << ": " << name;
    });
  };
  expect(RmsPropRule{.momentum = 0.5, .centered = true});
  expect(AdagradRule{.rate_decay = 0.5});
  expect(AdadeltaRule{});
  expect(RAdamRule{});
  expect(NAdamRule{});
  expect(LionRule{});
  expect(LambRule{});
  expect(MuonRule{});
}

template <class Error>
std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.error().text;
  }
  return "nothing was refused";
}

TEST(RuleOptimizers, RefuseSettingsThatMakeNoSense) {
  const auto text = [](const auto& rule) {
    return text_of<ArgumentError>(
        [&] { RuleOptimizer<std::decay_t<decltype(rule)>> optimizer(rule); });
  };
  EXPECT_EQ(text(LionRule{.beta1 = 1}), "Lion: beta1 is 1, but must be 0 or more and below 1");
  EXPECT_EQ(text(RmsPropRule{.learning_rate = -1}),
            "RmsProp: learning_rate is -1, but must be 0 or more and finite");
  EXPECT_EQ(text(RmsPropRule{.alpha = -0.5}),
            "RmsProp: alpha is -0.5, but must be 0 or more and below 1");
  EXPECT_EQ(text(AdagradRule{.rate_decay = std::nan("")}),
            "Adagrad: rate_decay is nan, but must be 0 or more and finite");
  EXPECT_EQ(text(AdadeltaRule{.rho = 2}), "Adadelta: rho is 2, but must be 0 or more and below 1");
  EXPECT_EQ(text(MuonRule{.iterations = 0}),
            "Muon: iterations is 0, but must be 1 or more and finite");
  EXPECT_EQ(text(LambRule{.weight_decay = INFINITY}),
            "Lamb: weight_decay is inf, but must be 0 or more and finite");
  EXPECT_EQ(text(RAdamRule{.groups = {{.match = "a"}}}), "RAdam: the group 'a' sets nothing");
  NAdam optimizer({});
  EXPECT_THROW(optimizer.set_learning_rate(-1), ArgumentError);
}

// ---- a program's own rules ----

/// A rule whose formula the test chooses.
struct Chosen {
  double learning_rate = 0.5;
  double weight_decay = 0;
  std::vector<ParameterGroup> groups = {};
  std::vector<UpdateFormula> formulas = {};

  static std::string name() { return "Chosen"; }
  [[nodiscard]] std::vector<UpdateFormula> formula() const { return formulas; }
};

TEST(RuleOptimizers, GiveAFormulaItsFactorsAndInputs) {
  const TestRuntime test;
  // The mean gradient, over the number of the update; the state sums the means.
  const UpdateFormula formula{
      .slots = {"sum"},
      .update =
          [](const UpdateOperands& o) {
            const Tensor sum = o.state[0] + o.inputs[0];
            return std::vector<Tensor>{
                o.parameter - o.rate * o.factors[0] * (o.inputs[0] + 0.0 * o.gradient), sum};
          },
      .factors =
          [](const Tensor& update_number) { return std::vector<Tensor>{1.0 / update_number}; },
      .inputs = [](const UpdateOperands& o) { return std::vector<Tensor>{mean(o.gradient)}; }};
  for (const Device& device : {test.reference, test.cpu}) {
    Weights model{zeros(device, {2}), zeros(device, {2}), zeros(device, {2})};
    Optimizer optimizer = RuleOptimizer<Chosen>({.formulas = {formula}});
    EXPECT_EQ(optimizer.kind(), "Chosen");
    for (int step = 1; step <= 2; ++step) {
      const Tensor g = Tensor::from(device, std::vector<float>{1, 3}, {2});
      optimizer.step(model, Gradients({"tall", "wide", "vector"}, {g, g, g})).get();
    }
    EXPECT_EQ(model.wide.to_vector<float>(), (std::vector<float>{-1.5F, -1.5F}));
    std::vector<float> state;
    optimizer.visit(
        "", [&](const std::string&, const Tensor& each) { state = each.to_vector<float>(); });
    EXPECT_EQ(state, (std::vector<float>{4, 4}));
  }
}

TEST(RuleOptimizers, RefuseAFormulaThatDoesNotFitItsParameters) {
  const TestRuntime test;
  Weights model{zeros(test.cpu, {2}), zeros(test.cpu, {2}), zeros(test.cpu, {2})};
  const auto text = [&](UpdateFormula formula) {
    return text_of<Exception>([&] {
      RuleOptimizer<Chosen> optimizer({.formulas = {std::move(formula)}});
      const Tensor g = ones(test.cpu, {2});
      static_cast<void>(optimizer.step(model, Gradients({"tall", "wide", "vector"}, {g, g, g})));
    });
  };
  const auto update = [](const UpdateOperands& o) {
    return std::vector<Tensor>{o.parameter - o.rate * o.gradient};
  };
  EXPECT_EQ(text({}), "Chosen: a formula has no update");
  EXPECT_THAT(text({.slots = {"a"}, .update = update}),
              HasSubstr("Chosen: the function returned 1 tensors"));
  EXPECT_EQ(text({.update = update,
                  .inputs =
                      [](const UpdateOperands& o) {
                        return std::vector<Tensor>{concat({o.gradient, o.gradient}, 0)};
                      }}),
            "Chosen: parameter f32[2] and input f32[4] differ");
  EXPECT_THAT(
      text({.update = update,
            .inputs = [](const UpdateOperands& o) { return std::vector<Tensor>{o.gradient}; }}),
      HasSubstr("Chosen: the function uses 2 of its 3 tensors"));
  EXPECT_EQ(
      text({.update = update, .updates = [](std::string_view, const Shape&) { return false; }}),
      "Chosen: no formula updates 'tall'");
  EXPECT_EQ(model.tall.to_vector<float>(), (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace hearth
