// Optimizer steps inside of graphs (ai.onnx.preview.training).
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

#include <cmath>

namespace hearth::onnx {
namespace training_ops {
namespace {

constexpr std::string_view kDomain = "ai.onnx.preview.training";

// Inputs: rate, count of updates, then for each of n parameters: parameter, gradient, states.
std::size_t parameter_count(const Call& call, std::size_t each) {
  if (call.count() < 2 + each || (call.count() - 2) % each != 0) {
    call.refuse("{} inputs are no rate, count and {} tensors a parameter", call.count(), each);
  }
  return (call.count() - 2) / each;
}

Tensor regularised(Call& call, std::size_t parameter, std::size_t gradient) {
  const double norm = call.node().real("norm_coefficient", 0);
  return add(call.tensor(gradient), mul(call.tensor(parameter), norm));
}

void adagrad(Call& call) {
  const std::size_t count = parameter_count(call, 3);
  const double decay = call.node().real("decay_factor", 0);
  const double epsilon = call.node().real("epsilon", 0);
  const double rate = call.real(0) / (1 + static_cast<double>(call.integer(1)) * decay);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t x = 2 + i;
    const Tensor gradient = regularised(call, x, 2 + count + i);
    const Tensor squares = add(call.tensor(2 + 2 * count + i), square(gradient));
    const Tensor step = div(gradient, add(sqrt(squares), epsilon));
    call.give(i, OnnxValue(sub(call.tensor(x), mul(step, rate))));
    call.give(count + i, OnnxValue(squares));
  }
}

void adam(Call& call) {
  const std::size_t count = parameter_count(call, 4);
  const NodeInfo& node = call.node();
  const double alpha = node.real("alpha", 0.9);
  const double beta = node.real("beta", 0.999);
  const double epsilon = node.real("epsilon", 0);
  const auto updates = static_cast<double>(call.integer(1));
  double rate = call.real(0);
  if (updates > 0) {
    rate *= std::sqrt(1 - std::pow(beta, updates)) / (1 - std::pow(alpha, updates));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t x = 2 + i;
    const Tensor gradient = regularised(call, x, 2 + count + i);
    const Tensor first = add(mul(call.tensor(2 + 2 * count + i), alpha), mul(gradient, 1 - alpha));
    const Tensor second =
        add(mul(call.tensor(2 + 3 * count + i), beta), mul(square(gradient), 1 - beta));
    const Tensor step = div(first, add(sqrt(second), epsilon));
    const Tensor moved = sub(call.tensor(x), mul(step, rate));
    call.give(i, OnnxValue(mul(moved, 1 - node.real("norm_coefficient_post", 0))));
    call.give(count + i, OnnxValue(first));
    call.give(2 * count + i, OnnxValue(second));
  }
}

std::string check_momentum(const NodeInfo& node) {
  const std::string mode = node.text("mode", "");
  return mode == "standard" || mode == "nesterov" ? std::string{}
                                                  : fmt::format("attribute mode is '{}'", mode);
}

void momentum(Call& call) {
  const std::size_t count = parameter_count(call, 3);
  const double alpha = call.node().real("alpha", 0.9);
  const double first_beta = call.node().real("beta", 1);
  const double beta = call.integer(1) > 0 ? first_beta : 1;
  const bool is_nesterov = call.node().text("mode", "") == "nesterov";
  const double rate = call.real(0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t x = 2 + i;
    const Tensor gradient = regularised(call, x, 2 + count + i);
    const Tensor speed = add(mul(call.tensor(2 + 2 * count + i), alpha), mul(gradient, beta));
    const Tensor step = is_nesterov ? add(gradient, mul(speed, alpha)) : speed;
    call.give(i, OnnxValue(sub(call.tensor(x), mul(step, rate))));
    call.give(count + i, OnnxValue(speed));
  }
}

constexpr OpRow kRows[] = {
    {.op = "Adagrad", .run = adagrad, .host_inputs = inputs(0, 1), .domain = kDomain},
    {.op = "Adam", .run = adam, .host_inputs = inputs(0, 1), .domain = kDomain},
    {.op = "Momentum",
     .run = momentum,
     .host_inputs = inputs(0, 1),
     .check = check_momentum,
     .domain = kDomain},
};

}  // namespace
}  // namespace training_ops

std::span<const OpRow> training_rows() {
  return training_ops::kRows;
}

}  // namespace hearth::onnx
