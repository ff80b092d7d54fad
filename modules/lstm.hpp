// Lstm: sequences with a long and a short memory. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/recurrent_weights.hpp>

#include <optional>
#include <vector>

namespace hearth {

/// Shapes of both: [layers·directions, n, hidden], a layer's directions side by side.
struct LstmState {
  Tensor hidden;
  Tensor cell;
};

struct LstmResult {
  Tensor output;    ///< [n, length, hidden·directions], of the last layer.
  LstmState state;  ///< After the last place.
};

/// Paper: Hochreiter, Schmidhuber, Long Short-Term Memory, Neural Computation 1997; with forget
/// gates: Gers, Schmidhuber, Cummins, Learning to Forget, Neural Computation 2000.
struct Lstm {
  using Config = RecurrentConfig;

  std::vector<RecurrentWeights> layers;
  Config config;

  /// Errors: ArgumentError for a size below 1.
  Lstm(const Config& sizes,
       const Device& device,
       Generator& generator,
       DType dtype = DType::f32,
       SourceLoc loc = SourceLoc::current());

  /// From this state on, or from zeros.
  ///
  /// Shapes: x [n, length, in], of a length of 1 or more.
  /// Dtypes: floats, x and the state as the weights.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when a result is read.
  [[nodiscard]] LstmResult run(Arg x, const std::optional<LstmState>& state = {}) const;
  /// Its output alone, from zeros.
  [[nodiscard]] Tensor forward(Arg x) const { return run(x).output; }

  HEARTH_MODULE(Lstm, layers)
};

}  // namespace hearth
