// Lstm and Gru against plain loops over their weights, and runs that continue from a state.
#include <hearth/modules/gru.hpp>
#include <hearth/modules/lstm.hpp>

#include "test_runtime.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Row = std::vector<double>;

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

// weight [rows, columns] times x, plus bias.
Row times(const Tensor& weight, const Row& x, const Tensor& bias) {
  const Row values = weight.to_vector<double>();
  Row result = bias.to_vector<double>();
  for (std::size_t row = 0; row < result.size(); ++row) {
    for (std::size_t column = 0; column < x.size(); ++column) {
      result[row] += values[row * x.size() + column] * x[column];
    }
  }
  return result;
}

Row lstm_step(const RecurrentWeights& w, const Row& x, Row& hidden, Row& cell) {
  const Row a = times(w.input_weight, x, *w.input_bias);
  const Row b = times(w.hidden_weight, hidden, *w.hidden_bias);
  const std::size_t n = hidden.size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto gate = [&](std::size_t g) { return a[g * n + i] + b[g * n + i]; };
    cell[i] = sigmoid_of(gate(1)) * cell[i] + sigmoid_of(gate(0)) * std::tanh(gate(2));
    hidden[i] = sigmoid_of(gate(3)) * std::tanh(cell[i]);
  }
  return hidden;
}

Row gru_step(const RecurrentWeights& w, const Row& x, Row& hidden) {
  const Row a = times(w.input_weight, x, *w.input_bias);
  const Row b = times(w.hidden_weight, hidden, *w.hidden_bias);
  const std::size_t n = hidden.size();
  for (std::size_t i = 0; i < n; ++i) {
    const double reset = sigmoid_of(a[i] + b[i]);
    const double update = sigmoid_of(a[n + i] + b[n + i]);
    const double fresh = std::tanh(a[2 * n + i] + reset * b[2 * n + i]);
    hidden[i] = (1 - update) * fresh + update * hidden[i];
  }
  return hidden;
}

const std::vector<Row> kPlaces{{1, -0.5}, {0.25, 2}, {-1, 0}};

Tensor sequence(const Device& device) {
  Row all;
  for (const Row& place : kPlaces) {
    all.insert(all.end(), place.begin(), place.end());
  }
  return Tensor::from(device, all, {1, 3, 2});
}

class Recurrent : public ::testing::Test {
 protected:
  TestRuntime test;
  Generator generator{5};
};

TEST_F(Recurrent, LstmIsWhatItsGatesSay) {
  const Lstm layer({.in = 2, .hidden = 3}, test.reference, generator, DType::f64);
  const LstmResult got = layer.run(sequence(test.reference));
  Row hidden(3);
  Row cell(3);
  Row outputs;
  for (const Row& place : kPlaces) {
    const Row output = lstm_step(layer.layers[0], place, hidden, cell);
    outputs.insert(outputs.end(), output.begin(), output.end());
  }
  EXPECT_EQ(got.output.shape(), (Shape{1, 3, 3}));
  EXPECT_EQ(got.state.cell.shape(), (Shape{1, 1, 3}));
  EXPECT_THAT(got.output.to_vector<double>(), Pointwise(DoubleNear(1e-12), outputs));
  EXPECT_THAT(got.state.hidden.to_vector<double>(), Pointwise(DoubleNear(1e-12), hidden));
  EXPECT_THAT(got.state.cell.to_vector<double>(), Pointwise(DoubleNear(1e-12), cell));
}

TEST_F(Recurrent, GruReadsBothWaysAndInLayers) {
  const Gru layer({.in = 2, .hidden = 2, .layers = 2, .bidirectional = true},
                  test.reference,
                  generator,
                  DType::f64);
  ASSERT_EQ(layer.layers.size(), 4U);
  EXPECT_EQ(layer.layers[2].input_weight.shape(), (Shape{6, 4}));
  std::vector<Row> places = kPlaces;
  Row states;
  for (std::size_t first : {0U, 2U}) {
    std::vector<Row> next(places.size());
    Row forwards(2);
    Row backwards(2);
    for (std::size_t i = 0; i < places.size(); ++i) {
      next[i] = gru_step(layer.layers[first], places[i], forwards);
    }
    for (std::size_t i = places.size(); i-- > 0;) {
      const Row output = gru_step(layer.layers[first + 1], places[i], backwards);
      next[i].insert(next[i].end(), output.begin(), output.end());
    }
    places = next;
    states.insert(states.end(), forwards.begin(), forwards.end());
    states.insert(states.end(), backwards.begin(), backwards.end());
  }
  Row outputs;
  for (const Row& place : places) {
    outputs.insert(outputs.end(), place.begin(), place.end());
  }
  const GruResult got = layer.run(sequence(test.reference));
  EXPECT_THAT(got.output.to_vector<double>(), Pointwise(DoubleNear(1e-12), outputs));
  EXPECT_THAT(got.state.to_vector<double>(), Pointwise(DoubleNear(1e-12), states));
}

TEST_F(Recurrent, GoOnFromAState) {
  const Tensor x = random_normal(test.cpu, {2, 5, 3}, generator);
  const Lstm lstm({.in = 3, .hidden = 4, .layers = 2}, test.cpu, generator);
  const LstmResult whole = lstm.run(x);
  const LstmResult begin = lstm.run(slice(x, 1, {.stop = 2}));
  const LstmResult end = lstm.run(slice(x, 1, {.start = 2}), begin.state);
  EXPECT_LT(max(abs(end.state.cell - whole.state.cell)).item(), 1e-6);
  EXPECT_LT(max(abs(concat({begin.output, end.output}, 1) - whole.output)).item(), 1e-6);
  const Gru gru({.in = 3, .hidden = 4}, test.cpu, generator);
  const GruResult gru_begin = gru.run(slice(x, 1, {.stop = 2}));
  const GruResult gru_end = gru.run(slice(x, 1, {.start = 2}), gru_begin.state);
  EXPECT_LT(max(abs(gru_end.state - gru.run(x).state)).item(), 1e-6);
  const Gru deep({.in = 3, .hidden = 4, .layers = 3}, test.cpu, generator);
  const GruResult deep_whole = deep.run(x);
  const GruResult deep_begin = deep.run(slice(x, 1, {.stop = 2}));
  const GruResult deep_end = deep.run(slice(x, 1, {.start = 2}), deep_begin.state);
  EXPECT_LT(max(abs(deep_end.state - deep_whole.state)).item(), 1e-6);
}

TEST_F(Recurrent, WorkWithoutBiasesAndInNarrowTypes) {
  const Lstm lstm({.in = 3, .hidden = 4, .bias = false}, test.cpu, generator, DType::bf16);
  EXPECT_EQ(named_parameters(lstm).size(), 2U);
  const Tensor output = lstm.forward(ones(test.cpu, {2, 3, 3}, DType::bf16));
  EXPECT_EQ(output.dtype(), DType::bf16);
  EXPECT_EQ(output.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(lstm.forward(ones(test.cpu, {0, 3, 3}, DType::bf16)).shape(), (Shape{0, 3, 4}));
}

TEST_F(Recurrent, RefuseWhatIsNoSequenceOrState) {
  const Gru gru({.in = 3, .hidden = 4}, test.cpu, generator);
  const auto text = [](const auto& fn) {
    try {
      fn();
    } catch (const ArgumentError& error) {
      return error.error().text;
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(text([&] {
              (void)gru.forward(ones(test.cpu, {2, 5, 4}));
            }),
            "Gru: needs sequences [n, 1 or more, 3], got f32[2, 5, 4]");
  EXPECT_THAT(text([&] { (void)gru.forward(ones(test.cpu, {2, 0, 3})); }), HasSubstr("needs"));
  EXPECT_EQ(text([&] {
              (void)gru.run(ones(test.cpu, {2, 5, 3}), zeros(test.cpu, {1, 3, 4}));
            }),
            "Gru: the state must be [1, 2, 4], is [1, 3, 4]");
  EXPECT_EQ(text([&] { (void)Lstm({.in = 3}, test.cpu, generator); }),
            "Lstm: sizes are 1 or more, got in 3, hidden 0, layers 1");
}

}  // namespace
}  // namespace hearth
