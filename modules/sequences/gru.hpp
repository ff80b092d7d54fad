// Gru: a gated recurrent layer with fewer weights than an Lstm. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/recurrent_weights.hpp>

#include <optional>
#include <vector>

namespace hearth {

using GruResult = RecurrentResult;

/// Gated recurrent unit. The reset gate acts on the hidden projection, as in PyTorch and cuDNN.
///
/// Paper: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, arXiv:1406.1078.
struct Gru {
  using Config = RecurrentConfig;

  std::vector<RecurrentWeights> layers;
  Config config;

  /// Errors: ArgumentError for a size below 1, a dropout outside [0, 1], or dropout with one layer.
  Gru(const Config& sizes,
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
  [[nodiscard]] GruResult run(Arg x, const std::optional<Tensor>& state = {}) const;
  /// Runs over sequences. In training, applies dropout between layers. Draws from `generator` or
  /// from the calling thread's GeneratorScope.
  ///
  /// Errors: as above; ArgumentError in training with dropout outside of any scope; DeviceError
  /// when a result is read, also for a length outside [0, length].
  [[nodiscard]] GruResult run(Arg x, Mode mode, const RecurrentOptions& options = {}) const;
  [[nodiscard]] GruResult run(Arg x,
                              Mode mode,
                              Generator& generator,
                              const RecurrentOptions& options = {}) const;
  /// The output of run() from a zero state.
  [[nodiscard]] Tensor forward(Arg x) const { return run(x).output; }
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const { return run(x, mode).output; }
  [[nodiscard]] Tensor forward(Arg x, Mode mode, Generator& generator) const {
    return run(x, mode, generator).output;
  }

  HEARTH_MODULE(Gru, layers)
};

}  // namespace hearth
