// Dropout: in training, zeroes random elements and scales up the rest; in evaluation, the identity.
// A module without weights or state: the caller owns the generator.
// Threads: a value.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// Zeroes each element with probability p in training.
///
/// Shapes: the result is like x.
/// Dtypes: floats.
/// Paper: Srivastava et al., Dropout, JMLR 15 (2014).
struct Dropout {
  struct Config {
    double p = 0.5;  ///< Probability that an element is dropped.
  };

  double p = 0.5;

  /// Errors: ArgumentError when p is outside [0, 1].
  explicit Dropout(const Config& config, SourceLoc loc = SourceLoc::current());

  /// Applies the layer. Draws from `generator` when mode is train and p is not 0.
  [[nodiscard]] Tensor forward(Arg x, Mode mode, Generator& generator) const;
  /// Applies the layer with the generator of the calling thread's GeneratorScope.
  ///
  /// Errors: ArgumentError in training outside of any scope.
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const;

  HEARTH_MODULE(Dropout)
};

}  // namespace hearth
