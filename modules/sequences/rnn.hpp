// Rnn: a recurrent layer without gates. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/recurrent_weights.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace hearth {

using RnnResult = RecurrentResult;

/// Elman network: the new state is tanh (or relu) of the sum of both projections.
///
/// Paper: Elman, Finding Structure in Time, Cognitive Science 14 (1990).
struct Rnn {
  enum class Activation : std::uint8_t { tanh, relu };
  struct Config {
    std::int64_t in = 0;         ///< Features of each position of a sequence.
    std::int64_t hidden = 0;     ///< Features of the hidden state.
    std::int64_t layers = 1;     ///< Number of stacked layers.
    bool bias = true;            ///< Whether the sum has an input bias and a hidden bias.
    bool bidirectional = false;  ///< Whether a second set of weights reads from the end.
    /// Probability of dropout on the outputs of each layer but the last. Needs two layers or more.
    double dropout = 0.0;
    Activation activation = Activation::tanh;  ///< Function of the sum.
  };

  std::vector<RecurrentWeights> layers;
  RecurrentConfig config;
  Activation activation;

  /// Errors: ArgumentError for a size below 1, a dropout outside [0, 1], or dropout with one layer.
  Rnn(const Config& sizes,
      const Device& device,
      Generator& generator,
      DType dtype = DType::f32,
      SourceLoc loc = SourceLoc::current());

  /// Runs over sequences, from the given state or from zeros, without dropout.
  ///
  /// Shapes: x [n, length, in], with a length of 1 or more.
  /// Dtypes: floats; x and the state have the weights' dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; ArgumentError if the layer has dropout;
  /// DeviceError when a result is read.
  [[nodiscard]] RnnResult run(Arg x, const std::optional<Tensor>& state = {}) const;
  /// Runs over sequences. In training, applies dropout between layers. Draws from `generator` or
  /// from the calling thread's GeneratorScope.
  ///
  /// Errors: as above; ArgumentError in training with dropout outside of any scope; DeviceError
  /// when a result is read, also for a length outside [0, length].
  [[nodiscard]] RnnResult run(Arg x, Mode mode, const RecurrentOptions& options = {}) const;
  [[nodiscard]] RnnResult run(Arg x,
                              Mode mode,
                              Generator& generator,
                              const RecurrentOptions& options = {}) const;
  /// The output of run() from a zero state.
  [[nodiscard]] Tensor forward(Arg x) const { return run(x).output; }
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const { return run(x, mode).output; }
  [[nodiscard]] Tensor forward(Arg x, Mode mode, Generator& generator) const {
    return run(x, mode, generator).output;
  }

  HEARTH_MODULE(Rnn, layers)
};

}  // namespace hearth
