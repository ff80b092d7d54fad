// Lstm: a recurrent layer with a hidden state and a cell state. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/mode.hpp>
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

/// Options of a run.
struct LstmOptions {
  std::optional<LstmState> state = {};  ///< State at the start; zeros if omitted.
  /// Number of positions of each sequence, [n], i32 or i64, as in RecurrentOptions.
  std::optional<Tensor> lengths = {};
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

  /// Errors: ArgumentError for a size below 1, a dropout outside [0, 1], or dropout with one layer.
  Lstm(const Config& sizes,
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
  [[nodiscard]] LstmResult run(Arg x, const std::optional<LstmState>& state = {}) const;
  /// Runs over sequences. In training, applies dropout between layers. Draws from `generator` or
  /// from the calling thread's GeneratorScope.
  ///
  /// Errors: as above; ArgumentError in training with dropout outside of any scope; DeviceError
  /// when a result is read, also for a length outside [0, length].
  [[nodiscard]] LstmResult run(Arg x, Mode mode, const LstmOptions& options = {}) const;
  [[nodiscard]] LstmResult run(Arg x,
                               Mode mode,
                               Generator& generator,
                               const LstmOptions& options = {}) const;
  /// The output of run() from a zero state.
  [[nodiscard]] Tensor forward(Arg x) const { return run(x).output; }
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const { return run(x, mode).output; }
  [[nodiscard]] Tensor forward(Arg x, Mode mode, Generator& generator) const {
    return run(x, mode, generator).output;
  }

  HEARTH_MODULE(Lstm, layers)
};

}  // namespace hearth
