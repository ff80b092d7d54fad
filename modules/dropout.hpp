// Dropout: in training, sets elements to 0 at random and scales the others up; in evaluation, the
// identity. A module without weights and without state: the generator is the caller's.
// Threads: a value.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// Shapes: the result is like x.
/// Dtypes: floats.
/// Paper: Srivastava et al., Dropout, JMLR 15 (2014).
struct Dropout {
  struct Config {
    double p = 0.5;  ///< How likely an element is to be dropped.
  };

  double p = 0.5;

  /// Errors: ArgumentError when p is not in 0 to 1.
  explicit Dropout(const Config& config, SourceLoc loc = SourceLoc::current());

  /// Draws from `generator` when mode is train and p is not 0.
  [[nodiscard]] Tensor forward(Arg x, Mode mode, Generator& generator) const;
  /// The same with the generator of the calling thread's GeneratorScope.
  /// Errors: ArgumentError in training outside of any scope.
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const;

  HEARTH_MODULE(Dropout)
};

}  // namespace hearth
