// Gru: a gated recurrent layer with fewer weights than an Lstm. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/recurrent_weights.hpp>

#include <optional>
#include <vector>

namespace hearth {

struct GruResult {
  Tensor output;  ///< [n, length, hidden·directions]: the last layer's.
  Tensor state;   ///< [layers·directions, n, hidden]: after the last position.
};

/// Gated recurrent unit. The reset gate acts on the hidden projection, as in PyTorch and cuDNN.
///
/// Paper: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, arXiv:1406.1078.
struct Gru {
  using Config = RecurrentConfig;

  std::vector<RecurrentWeights> layers;
  Config config;

  /// Errors: ArgumentError for a size below 1.
  Gru(const Config& sizes,
      const Device& device,
      Generator& generator,
      DType dtype = DType::f32,
      SourceLoc loc = SourceLoc::current());

  /// Runs over a sequence, from the given state or from zeros.
  ///
  /// Shapes: x [n, length, in], with a length of 1 or more.
  /// Dtypes: floats; x and the state have the weights' dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when a result is read.
  [[nodiscard]] GruResult run(Arg x, const std::optional<Tensor>& state = {}) const;
  /// The output of run() from a zero state.
  [[nodiscard]] Tensor forward(Arg x) const { return run(x).output; }

  HEARTH_MODULE(Gru, layers)
};

}  // namespace hearth
