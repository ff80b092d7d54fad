// An optimizer of your own: a struct of settings with a formula over plain ops. It runs as one
// fused kernel for each parameter, on all parameters of a model or none; in a loop of your own, in
// a Trainer and in DataParallel. This one is LARS, whose steps are scaled to the norms of weights
// and gradients. Paper: You et al., Large Batch Training of Convolutional Networks,
// arXiv:1708.03888.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

using hearth::Tensor;

struct Lars {
  double learning_rate = 0.1;
  double weight_decay = 0;
  double momentum = 0.9;
  double trust = 0.02;  // length of a step, of the weights' length
  std::vector<hearth::ParameterGroup> groups = {};

  static std::string name() { return "Lars"; }
  [[nodiscard]] hearth::UpdateFormula formula() const {
    return {.slots = {"momentum"},
            .update =  // elementwise ops: they become one kernel
            [rule = *this](const hearth::UpdateOperands& o) {
              const Tensor g = o.gradient + o.weight_decay * o.parameter;
              const Tensor m = rule.momentum * o.state[0] + o.rate * o.inputs[0] * g;
              return std::vector<Tensor>{o.parameter - m, m};
            },
            .inputs =  // any ops: here the norms of the whole parameter and its gradient
            [rule = *this](const hearth::UpdateOperands& o) {
              const Tensor length = sqrt(sum(square(o.parameter)));
              const Tensor slope = sqrt(sum(square(o.gradient)));
              const Tensor ratio = rule.trust * length / (slope + o.weight_decay * length + 1e-9);
              return std::vector<Tensor>{where(length > 0, ratio, rule.trust)};
            }};
  }
  // Optional: these are checked, shown in the report, and compared when a run resumes.
  [[nodiscard]] std::vector<hearth::OptimizerSetting> settings() const {
    return {{.name = "momentum", .value = momentum, .below = 1}, {.name = "trust", .value = trust}};
  }
};

struct Curve {
  hearth::Linear inner, outer;
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return outer.forward(tanh(inner.forward(x)));
  }
  HEARTH_MODULE(Curve, inner, outer)
};

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(1);
  Curve curve{.inner = {{.in = 1, .out = 32}, device, generator},
              .outer = {{.in = 32, .out = 1}, device, generator}};
  const Tensor x = hearth::random_uniform(device, {256, 1}, generator, -2, 2);
  const Tensor y = sin(2 * x);

  // In a loop of your own:
  hearth::RuleOptimizer<Lars> lars({.learning_rate = 0.2});
  for (int step = 0; step <= 600; ++step) {
    auto [loss, gradients] = hearth::value_and_grad(curve, [&](const Curve& tracked) {
      return hearth::mean(hearth::square(tracked.forward(x) - y));
    });
    const auto report = lars.step(curve, std::move(gradients));
    if (step % 200 == 0) {
      std::printf("step %d: loss %.4f\n", step, loss.item());
    }
  }

  // In a Trainer, which saves and resumes its state:
  const hearth::ArrayDataset data(hearth::HostArray::from(x.to_vector<float>(), {256, 1}),
                                  hearth::HostArray::from(y.to_vector<float>(), {256, 1}));
  hearth::TrainerOptions options{.epochs = 10, .optimizer = Lars{.learning_rate = 0.02}};
  options.console.style = hearth::ConsoleStyle::silent;
  hearth::Trainer trainer(runtime, std::move(curve), hearth::MeanSquaredLoss(), options);
  const hearth::TrainingResult result = trainer.fit(data);
  std::printf("after %zu epochs of a Trainer: loss %.4f\n",
              result.history.epochs.size(),
              result.history.epochs.back().train_loss);
}
