// An optimizer of your own: a function over plain ops that computes the update of one parameter. It
// runs as one fused kernel for each parameter, on all parameters of a model or none. This one is
// Lion, whose steps have the size of the learning rate. Paper: Chen et al., Symbolic discovery of
// optimization algorithms, arXiv:2302.06675, algorithm 2.
#include <cstdio>
#include <utility>

#include <hearth/hearth.hpp>

using hearth::Tensor;

class Lion {
 public:
  struct Config {
    double learning_rate = 1e-4;
    double beta1 = 0.9;
    double beta2 = 0.99;
    double weight_decay = 0;
  };
  explicit Lion(const Config& config)
      : config_(config),
        state_("Lion", {"momentum"}, {}, hearth::SourceLoc::current()),
        rule_({.name = "lion", .state_count = 1, .scalar_count = 6}, rule) {}

  template <hearth::Module Model>
  hearth::Pending<hearth::StepReport> step(Model& model, hearth::Gradients gradients) {
    const auto loc = hearth::SourceLoc::current();
    const auto parameters = hearth::parameter_refs(model);
    state_.require_fit(parameters, gradients, loc);
    state_.require_steps_told(loc);
    state_.prepare(parameters, loc);
    hearth::UpdateGroup group(parameters.front().tensor->device());
    const double scalars[] = {config_.learning_rate,
                              1 - config_.learning_rate * config_.weight_decay,
                              config_.beta1,
                              1 - config_.beta1,
                              config_.beta2,
                              1 - config_.beta2};
    state_.update_each(parameters, gradients, [&](std::size_t i) {
      Tensor* const momentum[] = {&state_.slot(0, i)};
      group.update(rule_, *parameters[i].tensor, std::move(gradients[i]), momentum, scalars);
    });
    return state_.commit(group, {.learning_rate = config_.learning_rate});
  }

 private:
  /// Called once for each element type; its ops become one kernel.
  static std::vector<Tensor> rule(const hearth::UpdateRule::Operands& o) {
    const Tensor& rate = o.scalars[0];
    const Tensor& keep = o.scalars[1];
    const Tensor direction = o.scalars[2] * o.state[0] + o.scalars[3] * o.gradient;
    const Tensor sign = where(direction > 0, rate, where(direction < 0, -rate, 0 * rate));
    return {keep * o.parameter - sign, o.scalars[4] * o.state[0] + o.scalars[5] * o.gradient};
  }

  Config config_;
  hearth::OptimizerState state_;
  hearth::UpdateRule rule_;
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
  Lion lion({.learning_rate = 3e-3, .weight_decay = 1e-2});
  for (int step = 0; step <= 600; ++step) {
    auto [loss, gradients] = hearth::value_and_grad(curve, [&](const Curve& tracked) {
      return hearth::mean(hearth::square(tracked.forward(x) - y));
    });
    const auto report = lion.step(curve, std::move(gradients));
    if (step % 200 == 0) {
      std::printf("step %d: loss %.4f\n", step, loss.item());
    }
  }
}
