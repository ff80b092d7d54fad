// Lstm: a recurrent layer with a hidden state and a cell state. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/recurrent_weights.hpp>

#include <optional>
#include <vector>

namespace hearth {

/// The state after a position. Shapes of both: [layers·directions, n, hidden]; the two directions
/// of a layer are neighbours.
struct LstmState {
  Tensor hidden;
  Tensor cell;
};

struct LstmResult {
  Tensor output;    ///< [n, length, hidden·directions]: the last layer's.
  LstmState state;  ///< State after the last position.
};

/// Long short-term memory.
///
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

  /// Runs over a sequence, from the given state or from zeros.
  ///
  /// Shapes: x [n, length, in], with a length of 1 or more.
  /// Dtypes: floats; x and the state have the weights' dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when a result is read.
  [[nodiscard]] LstmResult run(Arg x, const std::optional<LstmState>& state = {}) const;
  /// The output of run() from a zero state.
  [[nodiscard]] Tensor forward(Arg x) const { return run(x).output; }

  HEARTH_MODULE(Lstm, layers)
};

}  // namespace hearth
