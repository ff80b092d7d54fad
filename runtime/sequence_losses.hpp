// Losses of sequences whose labels are not aligned with their times. Errors and threads: as in
// ops.hpp.
#pragma once

#include <cstdint>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

struct CtcOptions {
  std::int64_t blank = 0;  ///< Class that stands for no label.
  /// True: a target that no path of its length gives has the loss 0; false: infinity. Its gradient
  /// is 0.
  bool zero_infinity = false;
};
/// The negative log-probability of each target under connectionist temporal classification. Sums
/// over all paths that give the target once repeated classes are merged and blanks dropped.
///
/// Shapes: log probabilities [t, n, classes], targets [n, s], both lengths [n] -> [n].
/// Dtypes: log probabilities floats, of which f16 and bf16 are computed in f32; others i32 or i64.
/// Errors: ShapeError, DtypeError; ArgumentError for a blank outside of [0, classes). A length
/// above t or s, and a class outside, poison the result with out_of_range. Targets behind their
/// length are ignored. Cost: a few ops for each time over n·(2s + 1) elements, which a gradient
/// keeps. Paper: Graves et al., Connectionist Temporal Classification, ICML 2006.
[[nodiscard]] Tensor ctc_loss_per_sequence(Arg log_probabilities,
                                           Arg targets,
                                           Arg input_lengths,
                                           Arg target_lengths,
                                           const CtcOptions& options = {});
/// The mean of ctc_loss_per_sequence, each loss divided by its target's length, or by 1 if that is
/// 0. As in PyTorch, but the gradient is that of the log-probabilities alone; behind log_softmax
/// both are equal.
[[nodiscard]] Tensor ctc_loss(Arg log_probabilities,
                              Arg targets,
                              Arg input_lengths,
                              Arg target_lengths,
                              const CtcOptions& options = {});

}  // namespace hearth
