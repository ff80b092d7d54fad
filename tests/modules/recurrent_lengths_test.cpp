// Rnn, Lstm and Gru over sequences of several lengths, against plain loops over each sequence
// alone; and dropout between their layers.
#include <hearth/modules/freeze_weights.hpp>
#include <hearth/modules/generator_scope.hpp>
#include <hearth/modules/gru.hpp>
#include <hearth/modules/lstm.hpp>
#include <hearth/modules/rnn.hpp>
#include <hearth/modules/sequential.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
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
using Rows = std::vector<Row>;

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

// One step of each kind of cell; state[0] is the hidden state, state[1] that of an Lstm's cell.
using Step = void (*)(const RecurrentWeights& w, const Row& x, Rows& state);

void rnn_step(const RecurrentWeights& w, const Row& x, Rows& state) {
  const Row a = times(w.input_weight, x, *w.input_bias);
  const Row b = times(w.hidden_weight, state[0], *w.hidden_bias);
  for (std::size_t i = 0; i < a.size(); ++i) {
    state[0][i] = std::tanh(a[i] + b[i]);
  }
}

void relu_rnn_step(const RecurrentWeights& w, const Row& x, Rows& state) {
  const Row a = times(w.input_weight, x, *w.input_bias);
  const Row b = times(w.hidden_weight, state[0], *w.hidden_bias);
  for (std::size_t i = 0; i < a.size(); ++i) {
    state[0][i] = std::max(0.0, a[i] + b[i]);
  }
}

void gru_step(const RecurrentWeights& w, const Row& x, Rows& state) {
  const Row a = times(w.input_weight, x, *w.input_bias);
  const Row b = times(w.hidden_weight, state[0], *w.hidden_bias);
  const std::size_t n = state[0].size();
  for (std::size_t i = 0; i < n; ++i) {
    const double reset = sigmoid_of(a[i] + b[i]);
    const double update = sigmoid_of(a[n + i] + b[n + i]);
    const double fresh = std::tanh(a[2 * n + i] + reset * b[2 * n + i]);
    state[0][i] = (1 - update) * fresh + update * state[0][i];
  }
}

void lstm_step(const RecurrentWeights& w, const Row& x, Rows& state) {
  const Row a = times(w.input_weight, x, *w.input_bias);
  const Row b = times(w.hidden_weight, state[0], *w.hidden_bias);
  const std::size_t n = state[0].size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto gate = [&](std::size_t g) { return a[g * n + i] + b[g * n + i]; };
    state[1][i] = sigmoid_of(gate(1)) * state[1][i] + sigmoid_of(gate(0)) * std::tanh(gate(2));
    state[0][i] = sigmoid_of(gate(3)) * std::tanh(state[1][i]);
  }
}

struct Walk {
  Rows outputs;              // of each position
  std::vector<Rows> states;  // of each layer and direction
};

// Runs all layers over one sequence, whose states begin as `states`.
Walk walked(const std::vector<RecurrentWeights>& layers,
            std::size_t directions,
            Rows places,
            std::vector<Rows> states,
            Step step) {
  for (std::size_t first = 0; first < layers.size(); first += directions) {
    Rows next(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      step(layers[first], places[i], states[first]);
      next[i] = states[first][0];
    }
    for (std::size_t i = places.size(); directions == 2 && i-- > 0;) {
      step(layers[first + 1], places[i], states[first + 1]);
      const Row& output = states[first + 1][0];
      next[i].insert(next[i].end(), output.begin(), output.end());
    }
    places = next;
  }
  return {places, states};
}

constexpr std::int64_t kIn = 2;
constexpr std::int64_t kHidden = 3;
constexpr std::int64_t kLength = 5;
const std::vector<std::int64_t> kLengths{5, 2, 0, 3};
const auto kCount = static_cast<std::int64_t>(kLengths.size());
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

RecurrentConfig config_of(std::int64_t layers, bool bidirectional) {
  return {.in = kIn, .hidden = kHidden, .layers = layers, .bidirectional = bidirectional};
}

class RecurrentLengths : public ::testing::Test {
 protected:
  // x with `padding` beyond the length of each sequence.
  [[nodiscard]] Tensor padded(double padding) const {
    Row values = x_.to_vector<double>();
    for (std::int64_t n = 0; n < kCount; ++n) {
      for (std::int64_t i = kLengths[static_cast<std::size_t>(n)] * kIn; i < kLength * kIn; ++i) {
        values[static_cast<std::size_t>(n * kLength * kIn + i)] = padding;
      }
    }
    return Tensor::from(test_.reference, values, x_.shape());
  }
  [[nodiscard]] Rows places(std::int64_t n) const {
    const Row values = x_.to_vector<double>();
    Rows rows;
    for (std::int64_t i = 0; i < kLengths[static_cast<std::size_t>(n)]; ++i) {
      const auto begin = values.begin() + (n * kLength + i) * kIn;
      rows.emplace_back(begin, begin + kIn);
    }
    return rows;
  }
  [[nodiscard]] Tensor lengths(DType dtype = DType::i64) const {
    return Tensor::from(test_.reference, kLengths).to(dtype);
  }
  // Expects the outputs and states of loops over each sequence alone. `begin` and `states` hold one
  // tensor [layers·directions, n, hidden] for each kind of state.
  void expect_walks(const std::vector<RecurrentWeights>& layers,
                    std::size_t directions,
                    const std::vector<Tensor>& begin,
                    Step step,
                    const Tensor& output,
                    const std::vector<Tensor>& states) const {
    const std::size_t width = directions * kHidden;
    Row outputs;
    std::vector<Row> last(states.size(),
                          Row(layers.size() * static_cast<std::size_t>(kCount * kHidden)));
    for (std::int64_t n = 0; n < kCount; ++n) {
      const auto at = [&](std::size_t layer) {
        return (static_cast<std::int64_t>(layer) * kCount + n) * kHidden;
      };
      std::vector<Rows> start(layers.size());
      for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        for (const Tensor& each : begin) {
          const Row all = each.to_vector<double>();
          start[layer].emplace_back(all.begin() + at(layer), all.begin() + at(layer) + kHidden);
        }
      }
      const Walk walk = walked(layers, directions, places(n), start, step);
      for (std::int64_t i = 0; i < kLength; ++i) {
        const bool is_inside = i < kLengths[static_cast<std::size_t>(n)];
        const Row row = is_inside ? walk.outputs[static_cast<std::size_t>(i)] : Row(width, 0.0);
        outputs.insert(outputs.end(), row.begin(), row.end());
      }
      for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        for (std::size_t kind = 0; kind < states.size(); ++kind) {
          std::ranges::copy(walk.states[layer][kind], last[kind].begin() + at(layer));
        }
      }
    }
    EXPECT_THAT(output.to_vector<double>(), Pointwise(DoubleNear(1e-12), outputs));
    for (std::size_t kind = 0; kind < states.size(); ++kind) {
      EXPECT_THAT(states[kind].to_vector<double>(), Pointwise(DoubleNear(1e-12), last[kind]));
    }
  }
  // A state [layers·directions, n, hidden].
  [[nodiscard]] Tensor normal_state(const std::vector<RecurrentWeights>& layers) {
    const Shape shape{static_cast<std::int64_t>(layers.size()), kCount, kHidden};
    return random_normal(test_.reference, shape, generator_, 0, 1, DType::f64);
  }

  TestRuntime test_;
  Generator generator_{5};
  Tensor x_ = random_normal(test_.reference, {kCount, kLength, kIn}, generator_, 0, 1, DType::f64);
};

TEST_F(RecurrentLengths, AnRnnRunsOverEachSequenceAlone) {
  for (const bool is_relu : {false, true}) {
    const Rnn layer({.in = kIn,
                     .hidden = kHidden,
                     .layers = 2,
                     .bidirectional = true,
                     .activation = is_relu ? Rnn::Activation::relu : Rnn::Activation::tanh},
                    test_.reference,
                    generator_,
                    DType::f64);
    const Tensor begin = normal_state(layer.layers);
    const RnnResult got =
        layer.run(padded(kNan), Mode::eval, {.state = begin, .lengths = lengths()});
    EXPECT_EQ(got.output.shape(), (Shape{kCount, kLength, 2 * kHidden}));
    EXPECT_EQ(got.state.shape(), (Shape{4, kCount, kHidden}));
    expect_walks(
        layer.layers, 2, {begin}, is_relu ? relu_rnn_step : rnn_step, got.output, {got.state});
  }
}

TEST_F(RecurrentLengths, AGruRunsOverEachSequenceAlone) {
  for (const bool bidirectional : {false, true}) {
    const Gru layer(config_of(2, bidirectional), test_.reference, generator_, DType::f64);
    const Tensor begin = normal_state(layer.layers);
    const GruResult got =
        layer.run(padded(kNan), Mode::eval, {.state = begin, .lengths = lengths(DType::i32)});
    expect_walks(layer.layers, bidirectional ? 2 : 1, {begin}, gru_step, got.output, {got.state});
  }
}

TEST_F(RecurrentLengths, AnLstmRunsOverEachSequenceAlone) {
  for (const bool bidirectional : {false, true}) {
    const Lstm layer(config_of(2, bidirectional), test_.reference, generator_, DType::f64);
    const std::vector<Tensor> begin{normal_state(layer.layers), normal_state(layer.layers)};
    const LstmResult got =
        layer.run(padded(kNan),
                  Mode::eval,
                  {.state = LstmState{.hidden = begin[0], .cell = begin[1]}, .lengths = lengths()});
    expect_walks(layer.layers,
                 bidirectional ? 2 : 1,
                 begin,
                 lstm_step,
                 got.output,
                 {got.state.hidden, got.state.cell});
  }
}

TEST_F(RecurrentLengths, WholeLengthsGiveTheBitsOfNone) {
  const Lstm layer(config_of(2, true), test_.cpu, generator_);
  const Tensor x = random_normal(test_.cpu, {2, kLength, kIn}, generator_);
  const Tensor all = Tensor::from<std::int64_t>(test_.cpu, {kLength, kLength});
  const LstmResult with = layer.run(x, Mode::eval, {.lengths = all});
  const LstmResult without = layer.run(x);
  EXPECT_TRUE(all_equal(with.output, without.output));
  EXPECT_TRUE(all_equal(with.state.cell, without.state.cell));
}

// The gradients are those of sequences without padding, whatever the padding holds.
TEST_F(RecurrentLengths, PaddingReachesNoGradient) {
  const Gru layer(config_of(2, true), test_.reference, generator_, DType::f64);
  const auto gradients_of = [&](const auto& loss) {
    std::vector<Row> all;
    const Gradients gradients = value_and_grad(layer, loss).gradients;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      all.push_back(gradients[i].to_vector<double>());
    }
    return all;
  };
  const Tensor x = padded(kNan);
  const std::vector<Row> got = gradients_of([&](const Gru& model) {
    const GruResult result = model.run(x, Mode::train, {.lengths = lengths()});
    return sum(square(result.output)) + sum(result.state);
  });
  const std::vector<Row> want = gradients_of([&](const Gru& model) {
    Tensor loss = zeros(test_.reference, {}, DType::f64);
    for (std::int64_t n = 0; n < kCount; ++n) {
      const std::int64_t length = kLengths[static_cast<std::size_t>(n)];
      if (length > 0) {
        const Tensor alone = slice(slice(x, 0, {.start = n, .stop = n + 1}), 1, {.stop = length});
        const GruResult result = model.run(alone);
        loss = loss + sum(square(result.output)) + sum(result.state);
      }
    }
    return loss;
  });
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_THAT(got[i], Pointwise(DoubleNear(1e-11), want[i]));
  }
}

TEST_F(RecurrentLengths, WorkInNarrowTypesAndForNoSequence) {
  const Rnn layer(
      {.in = kIn, .hidden = kHidden, .bias = false}, test_.cpu, generator_, DType::bf16);
  EXPECT_EQ(named_parameters(layer).size(), 2U);
  const Tensor x = ones(test_.cpu, {2, 4, kIn}, DType::bf16);
  const Tensor two = Tensor::from<std::int64_t>(test_.cpu, {1, 4});
  const RnnResult got = layer.run(x, Mode::eval, {.lengths = two});
  EXPECT_EQ(got.output.dtype(), DType::bf16);
  EXPECT_EQ(sum(abs(got.output[{0, Range{.start = 1}}])).item(), 0);
  EXPECT_GT(sum(abs(got.output[{1, Range{.start = 1}}])).item(), 0);
  const Tensor none = zeros(test_.cpu, {0}, DType::i64);
  EXPECT_EQ(layer.run(ones(test_.cpu, {0, 4, kIn}, DType::bf16), Mode::eval, {.lengths = none})
                .output.shape(),
            (Shape{0, 4, kHidden}));
}

TEST_F(RecurrentLengths, AreRefusedIfTheyDoNotFit) {
  const Gru layer(config_of(1, false), test_.cpu, generator_);
  const Tensor x = ones(test_.cpu, {2, kLength, kIn});
  const auto text = [&](const Tensor& given) {
    try {
      (void)layer.run(x, Mode::eval, {.lengths = given});
    } catch (const ArgumentError& error) {
      return error.error().text;
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(text(Tensor::from<std::int64_t>(test_.cpu, {1, 2, 3})),
            "Gru: the lengths must be i32[2] or i64[2], are i64[3]");
  EXPECT_EQ(text(ones(test_.cpu, {2})), "Gru: the lengths must be i32[2] or i64[2], are f32[2]");
  EXPECT_THAT(text(Tensor()), HasSubstr("Gru: "));
  EXPECT_THAT(text(zeros(test_.reference, {2}, DType::i64)), HasSubstr("Gru: "));
  for (const std::int64_t wrong : {kLength + 1, std::int64_t{-1}}) {
    const GruResult poisoned =
        layer.run(x, Mode::eval, {.lengths = Tensor::from<std::int64_t>(test_.cpu, {wrong, 1})});
    try {
      (void)poisoned.output.to_vector<float>();
      FAIL() << "a length of " << wrong << " of " << kLength;
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_range);
    }
  }
}

// ---- dropout ----

TEST_F(RecurrentLengths, DropoutZeroesOutputsBetweenLayers) {
  constexpr double kShare = 0.4;
  const Rnn layer({.in = kIn, .hidden = 40, .layers = 2, .dropout = kShare},
                  test_.reference,
                  generator_,
                  DType::f64);
  Rnn first({.in = kIn, .hidden = 40}, test_.reference, generator_, DType::f64);
  Rnn second({.in = 40, .hidden = 40}, test_.reference, generator_, DType::f64);
  first.layers[0] = layer.layers[0];
  second.layers[0] = layer.layers[1];
  Generator same(7);
  Generator other(7);
  const Tensor got = layer.run(x_, Mode::train, same).output;
  const Tensor between = dropout(first.forward(x_), kShare, other);
  EXPECT_TRUE(all_equal(got, second.forward(between)));
  EXPECT_EQ(same.counter(), other.counter()) << "nothing else is drawn";
  EXPECT_TRUE(all_equal(layer.forward(x_, Mode::eval), second.forward(first.forward(x_))));
}

TEST_F(RecurrentLengths, DropoutUsesTheScopeOfTheThread) {
  const Lstm layer({.in = kIn, .hidden = 8, .layers = 3, .dropout = 0.5}, test_.cpu, generator_);
  const Tensor x = x_.to(test_.cpu).to(DType::f32);
  Generator first(3);
  Generator second(3);
  const Tensor with = layer.forward(x, Mode::train, first);
  {
    const GeneratorScope scope(second);
    EXPECT_TRUE(all_equal(layer.forward(x, Mode::train), with));
    const Sequential chain(layer);
    EXPECT_FALSE(all_equal(chain.forward(x, Mode::train), with)) << "other numbers";
  }
  EXPECT_THROW((void)layer.forward(x, Mode::train), ArgumentError);
}

TEST_F(RecurrentLengths, DropoutIsRefusedWhereItWouldNotAct) {
  const auto text = [&](const auto& fn) {
    try {
      fn();
    } catch (const ArgumentError& error) {
      return error.error().text;
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(text([&] { (void)Gru({.in = 1, .hidden = 1, .dropout = 0.5}, test_.cpu, generator_); }),
            "Gru: dropout is in 0 to 1 and acts between layers, got dropout 0.5, layers 1");
  EXPECT_THAT(text([&] {
                (void)Rnn(
                    {.in = 1, .hidden = 1, .layers = 2, .dropout = 1.5}, test_.cpu, generator_);
              }),
              HasSubstr("Rnn: dropout is in 0 to 1"));
  const Gru layer({.in = kIn, .hidden = 4, .layers = 2, .dropout = 0.5}, test_.cpu, generator_);
  EXPECT_EQ(text([&] {
              (void)layer.forward(ones(test_.cpu, {1, 2, kIn}));
            }),
            "Gru: a layer with dropout needs a mode: run(x, Mode::train) or run(x, Mode::eval)");
}

// A frozen layer keeps its weights and passes gradients to what comes before it.
TEST_F(RecurrentLengths, AFrozenLayerPassesGradientsOn) {
  struct Model {
    Rnn below, above;
    [[nodiscard]] Tensor forward(const Tensor& x, const Tensor& ends) const {
      const Tensor first = below.run(x, Mode::train, {.lengths = ends}).output;
      return above.run(first, Mode::train, {.lengths = ends}).output;
    }
    HEARTH_MODULE(Model, below, above)
  };
  Model model{Rnn({.in = kIn, .hidden = kHidden}, test_.reference, generator_, DType::f64),
              Rnn({.in = kHidden, .hidden = kHidden}, test_.reference, generator_, DType::f64)};
  freeze_weights(model.above);
  const Gradients gradients = value_and_grad(model, [&](const Model& m) {
                                return sum(square(m.forward(x_, lengths())));
                              }).gradients;
  ASSERT_EQ(gradients.size(), 8U);
  EXPECT_GT(sum(abs(gradients[0])).item(), 0);
  EXPECT_FALSE(gradients.has_gradient(4));
}

}  // namespace
}  // namespace hearth
