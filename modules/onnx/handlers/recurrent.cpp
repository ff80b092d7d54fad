// LSTM, GRU and RNN: plain ops over the steps, for one or two directions.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

#include <array>
#include <functional>

namespace hearth::onnx {
namespace recurrent_ops {
namespace {

using Activation = std::function<Tensor(const Tensor&)>;

struct Activations {
  std::vector<std::string> names = {};
  std::vector<double> alphas = {};
  std::vector<double> betas = {};
};

bool is_activation(std::string_view name) {
  constexpr std::array<std::string_view, 11> kNames{"Relu",
                                                    "Tanh",
                                                    "Sigmoid",
                                                    "Affine",
                                                    "LeakyRelu",
                                                    "ThresholdedRelu",
                                                    "ScaledTanh",
                                                    "HardSigmoid",
                                                    "Elu",
                                                    "Softsign",
                                                    "Softplus"};
  return std::ranges::find(kNames, name) != kNames.end();
}

double default_alpha(std::string_view name) {
  if (name == "LeakyRelu") {
    return 0.01;
  }
  return name == "HardSigmoid" ? 0.2 : 1.0;
}

Activation activation(const std::string& name, double a, double b) {
  if (name == "Relu") {
    return [](const Tensor& x) { return relu(x); };
  }
  if (name == "Tanh") {
    return [](const Tensor& x) { return tanh(x); };
  }
  if (name == "Affine") {
    return [a, b](const Tensor& x) { return add(mul(x, a), b); };
  }
  if (name == "LeakyRelu") {
    return [a](const Tensor& x) { return leaky_relu(x, a); };
  }
  if (name == "ThresholdedRelu") {
    return [a](const Tensor& x) { return where(greater_equal(x, a), x, 0.0); };
  }
  if (name == "ScaledTanh") {
    return [a, b](const Tensor& x) { return mul(tanh(mul(x, b)), a); };
  }
  if (name == "HardSigmoid") {
    return [a, b](const Tensor& x) { return clamp(add(mul(x, a), b), 0.0, 1.0); };
  }
  if (name == "Elu") {
    return [a](const Tensor& x) { return where(less(x, 0.0), mul(expm1(minimum(x, 0.0)), a), x); };
  }
  if (name == "Softsign") {
    return [](const Tensor& x) { return div(x, add(abs(x), 1.0)); };
  }
  if (name == "Softplus") {
    return [](const Tensor& x) { return add(maximum(x, 0.0), log1p(exp(neg(abs(x))))); };
  }
  return [](const Tensor& x) { return sigmoid(x); };
}

// What one direction computes with. Gates are stacked along the first axis of the weights.
struct Direction {
  Tensor weight = {};     // [gates·hidden, inputs]
  Tensor recurrent = {};  // [gates·hidden, hidden]
  Tensor bias = {};       // [gates·hidden] of the inputs; may be empty
  Tensor recurrent_bias = {};
  Tensor peepholes = {};  // [3·hidden]; may be empty
  Tensor hidden = {};     // [batch, hidden], the first state
  Tensor cell = {};       // of an LSTM
  std::vector<Activation> activations = {};
  bool is_reverse = false;
};

struct Layer {
  std::int64_t hidden = 0;
  int gates = 1;
  int activation_count = 1;
  double clip = 0;  // 0: none
  bool is_linear_before_reset = false;
  bool couples_gates = false;
  Tensor lengths = {};  // [batch, 1]; empty: all steps
};

Tensor clipped(Tensor x, const Layer& layer) {
  return layer.clip > 0 ? clamp(std::move(x), -layer.clip, layer.clip) : std::move(x);
}

Tensor gate(const Tensor& all, const Layer& layer, int number) {
  const std::int64_t begin = number * layer.hidden;
  return slice(all, -1, {.start = begin, .stop = begin + layer.hidden});
}

Tensor bias_part(const Tensor& bias, const Layer& layer, int number) {
  return slice(bias, 0, {.start = number * layer.hidden, .stop = (number + 1) * layer.hidden});
}

struct State {
  Tensor hidden;
  Tensor cell;
};

// `x`: the inputs' part of all gates, with the bias.
State lstm_step(const Tensor& x, const State& from, const Direction& d, const Layer& layer) {
  Tensor all = add(x, matmul(from.hidden, transpose(d.recurrent)));
  if (d.recurrent_bias.is_valid()) {
    all = add(std::move(all), d.recurrent_bias);
  }
  const auto with_peephole = [&](int number, int peephole, const Tensor& cell) {
    Tensor part = gate(all, layer, number);
    return d.peepholes.is_valid()
               ? add(std::move(part), mul(bias_part(d.peepholes, layer, peephole), cell))
               : part;
  };
  const Activation& f = d.activations[0];
  const Tensor input = f(clipped(with_peephole(0, 0, from.cell), layer));
  const Tensor forget =
      layer.couples_gates ? sub(1.0, input) : f(clipped(with_peephole(2, 2, from.cell), layer));
  const Tensor fresh = d.activations[1](clipped(gate(all, layer, 3), layer));
  Tensor cell = add(mul(forget, from.cell), mul(input, fresh));
  const Tensor output = f(clipped(with_peephole(1, 1, cell), layer));
  Tensor hidden = mul(output, d.activations[2](cell));
  return {std::move(hidden), std::move(cell)};
}

State gru_step(const Tensor& x, const State& from, const Direction& d, const Layer& layer) {
  const std::int64_t two = 2 * layer.hidden;
  const auto with_bias = [&](Tensor part, std::int64_t begin, std::int64_t end) {
    return d.recurrent_bias.is_valid()
               ? add(std::move(part), slice(d.recurrent_bias, 0, {.start = begin, .stop = end}))
               : part;
  };
  const Tensor first = slice(d.recurrent, 0, {.stop = two});
  const Tensor last = slice(d.recurrent, 0, {.start = two});
  Tensor both = add(slice(x, -1, {.stop = two}), matmul(from.hidden, transpose(first)));
  both = d.activations[0](clipped(with_bias(std::move(both), 0, two), layer));
  const Tensor update = gate(both, layer, 0);
  const Tensor reset = gate(both, layer, 1);
  Tensor inner;
  if (layer.is_linear_before_reset) {
    inner = mul(reset, with_bias(matmul(from.hidden, transpose(last)), two, two + layer.hidden));
  } else {
    inner = with_bias(matmul(mul(reset, from.hidden), transpose(last)), two, two + layer.hidden);
  }
  const Tensor fresh =
      d.activations[1](clipped(add(slice(x, -1, {.start = two}), std::move(inner)), layer));
  return {add(mul(sub(1.0, update), fresh), mul(update, from.hidden)), {}};
}

State rnn_step(const Tensor& x, const State& from, const Direction& d, const Layer& layer) {
  Tensor all = add(x, matmul(from.hidden, transpose(d.recurrent)));
  if (d.recurrent_bias.is_valid()) {
    all = add(std::move(all), d.recurrent_bias);
  }
  return {d.activations[0](clipped(std::move(all), layer)), {}};
}

using Step = State (*)(const Tensor&, const State&, const Direction&, const Layer&);

struct Outcome {
  std::vector<Tensor> outputs;  // of each step, in the order of the sequence
  State last;
};

// Steps beyond a row's length keep its state and give 0. In reverse each row begins at its end.
Outcome run_direction(const Tensor& x, const Direction& d, const Layer& layer, Step step) {
  Tensor inputs = matmul(x, transpose(d.weight));
  if (d.bias.is_valid()) {
    inputs = add(std::move(inputs), d.bias);
  }
  const std::int64_t steps = x.size(0);
  Outcome outcome{.outputs = std::vector<Tensor>(static_cast<std::size_t>(steps)),
                  .last = {d.hidden, d.cell}};
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t at = d.is_reverse ? steps - 1 - i : i;
    const Tensor now = squeeze(slice(inputs, 0, {.start = at, .stop = at + 1}), 0);
    State next = step(now, outcome.last, d, layer);
    Tensor output = next.hidden;
    if (layer.lengths.is_valid()) {
      const Tensor is_inside = greater(layer.lengths, at);
      output = where(is_inside, output, 0.0);
      next.hidden = where(is_inside, next.hidden, outcome.last.hidden);
      if (next.cell.is_valid()) {
        next.cell = where(is_inside, next.cell, outcome.last.cell);
      }
    }
    outcome.outputs[static_cast<std::size_t>(at)] = std::move(output);
    outcome.last = std::move(next);
  }
  return outcome;
}

Activations activations_of(const NodeInfo& node,
                           const std::vector<std::string>& usual,
                           int directions) {
  Activations all;
  if (const auto* given = node.attribute<std::vector<std::string>>("activations")) {
    all.names = *given;
  }
  if (all.names.empty()) {
    for (int i = 0; i < directions; ++i) {
      all.names.insert(all.names.end(), usual.begin(), usual.end());
    }
  }
  if (const auto* given = node.attribute<std::vector<double>>("activation_alpha")) {
    all.alphas = *given;
  }
  if (const auto* given = node.attribute<std::vector<double>>("activation_beta")) {
    all.betas = *given;
  }
  return all;
}

std::string check_recurrent(const NodeInfo& node) {
  const std::string direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return fmt::format("attribute direction is '{}'", direction);
  }
  if (node.integer("hidden_size", 0) < 1) {
    return "attribute hidden_size is missing";
  }
  if (const auto* names = node.attribute<std::vector<std::string>>("activations")) {
    for (const std::string& name : *names) {
      if (!is_activation(name)) {
        return fmt::format("attribute activations has '{}'", name);
      }
    }
  }
  return {};
}

// Row `i` of an input whose first axis is the direction.
Tensor row(Call& call, std::size_t input, std::int64_t i) {
  return call.has(input) ? squeeze(slice(call.tensor(input), 0, {.start = i, .stop = i + 1}), 0)
                         : Tensor();
}

Tensor first_state(Call& call,
                   std::size_t input,
                   std::int64_t i,
                   bool is_batch_first,
                   std::int64_t batch,
                   const Layer& layer,
                   DType dtype) {
  if (!call.has(input)) {
    return zeros(call.device(), {batch, layer.hidden}, dtype);
  }
  const int axis = is_batch_first ? 1 : 0;
  return squeeze(slice(call.tensor(input), axis, {.start = i, .stop = i + 1}), axis);
}

struct Kind {
  int gates;
  std::vector<std::string> usual;  // activations
  Step step;
  bool has_cell;
};

Direction direction_of(Call& call,
                       const Kind& kind,
                       const Layer& layer,
                       std::int64_t i,
                       std::int64_t batch,
                       bool is_batch_first,
                       const Activations& activations) {
  Direction d{.weight = row(call, 1, i), .recurrent = row(call, 2, i)};
  const DType dtype = d.weight.dtype();
  if (call.has(3)) {
    const Tensor both = row(call, 3, i);
    d.bias = slice(both, 0, {.stop = kind.gates * layer.hidden});
    d.recurrent_bias = slice(both, 0, {.start = kind.gates * layer.hidden});
  }
  d.hidden = first_state(call, 5, i, is_batch_first, batch, layer, dtype);
  if (kind.has_cell) {
    d.cell = first_state(call, 6, i, is_batch_first, batch, layer, dtype);
    d.peepholes = row(call, 7, i);
  }
  const std::size_t count = kind.usual.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t at = static_cast<std::size_t>(i) * count + k;
    if (at >= activations.names.size()) {
      call.refuse("it has {} activations, not {} a direction", activations.names.size(), count);
    }
    const std::string& name = activations.names[at];
    const double alpha =
        at < activations.alphas.size() ? activations.alphas[at] : default_alpha(name);
    const double beta = at < activations.betas.size() ? activations.betas[at]
                        : name == "HardSigmoid"       ? 0.5
                        : name == "ScaledTanh"        ? 1.0
                                                      : 0.0;
    d.activations.push_back(activation(name, alpha, beta));
  }
  return d;
}

// x [steps, batch, inputs], or [batch, steps, inputs] with layout 1.
void run_layer(Call& call, const Kind& kind) {
  const OnnxType type = call.type(0);
  const NodeInfo& node = call.node();
  const bool is_batch_first = node.integer("layout", 0) != 0;
  const std::string direction = node.text("direction", "forward");
  const int directions = direction == "bidirectional" ? 2 : 1;
  Layer layer{.hidden = node.integer("hidden_size", 0),
              .gates = kind.gates,
              .clip = node.real("clip", 0),
              .is_linear_before_reset = node.integer("linear_before_reset", 0) != 0,
              .couples_gates = node.integer("input_forget", 0) != 0};
  Tensor x = call.take(0);
  if (is_batch_first) {
    x = transpose(std::move(x), 0, 1);
  }
  if (call.has(4)) {
    layer.lengths = unsqueeze(call.take(4), -1);
  }
  const Activations activations = activations_of(node, kind.usual, directions);
  std::vector<Tensor> outputs;
  std::vector<Tensor> hidden;
  std::vector<Tensor> cells;
  for (int i = 0; i < directions; ++i) {
    Direction d = direction_of(call, kind, layer, i, x.size(1), is_batch_first, activations);
    d.is_reverse = direction == "reverse" || i == 1;
    Outcome outcome = run_direction(x, d, layer, kind.step);
    outputs.push_back(stack(outcome.outputs, 0));
    hidden.push_back(std::move(outcome.last.hidden));
    cells.push_back(std::move(outcome.last.cell));
  }
  // Directions stand behind the steps; batch first, behind batch and steps.
  Tensor all = stack(outputs, 1);
  const int axis = is_batch_first ? 1 : 0;
  if (is_batch_first) {
    all = permute(std::move(all), {2, 0, 1, 3});
  }
  call.give(0, std::move(all), type);
  call.give(1, stack(hidden, axis), type);
  if (kind.has_cell) {
    call.give(2, stack(cells, axis), type);
  }
}

void lstm(Call& call) {
  run_layer(call, {4, {"Sigmoid", "Tanh", "Tanh"}, lstm_step, true});
}
void gru(Call& call) {
  run_layer(call, {3, {"Sigmoid", "Tanh"}, gru_step, false});
}
void rnn(Call& call) {
  run_layer(call, {1, {"Tanh"}, rnn_step, false});
}

constexpr OpRow kRows[] = {
    {.op = "LSTM", .run = lstm, .check = check_recurrent},
    {.op = "GRU", .run = gru, .check = check_recurrent},
    {.op = "RNN", .run = rnn, .check = check_recurrent},
};

}  // namespace
}  // namespace recurrent_ops

std::span<const OpRow> recurrent_rows() {
  return recurrent_ops::kRows;
}

}  // namespace hearth::onnx
