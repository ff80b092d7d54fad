// Gru: sequences with a gated memory, of fewer weights than an Lstm. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/recurrent_weights.hpp>

#include <optional>
#include <vector>

namespace hearth {

struct GruResult {
  Tensor output;  ///< [n, length, hidden·directions], of the last layer.
  Tensor state;   ///< [layers·directions, n, hidden], after the last place.
};

/// The reset gate acts on what the hidden weights give, as in PyTorch and cuDNN.
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

  /// From this state on, or from zeros.
  ///
  /// Shapes: x [n, length, in], of a length of 1 or more.
  /// Dtypes: floats, x and the state as the weights.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when a result is read.
  [[nodiscard]] GruResult run(Arg x, const std::optional<Tensor>& state = {}) const;
  /// Its output alone, from zeros.
  [[nodiscard]] Tensor forward(Arg x) const { return run(x).output; }

  HEARTH_MODULE(Gru, layers)
};

}  // namespace hearth
