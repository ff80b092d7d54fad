// Counts of updates that a device keeps itself. On a device with work in flight after a call, the
// host does not know whether the last update happened. The update's gradient may turn out poisoned.
// The host does not wait for it. The device instead computes what the next update needs from a
// count. The update group replaces the count like a parameter, so it stays unchanged if the group
// does not run.
// Threads: the thread whose stream owns the parameters.
#pragma once

#include <cstdint>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Returns whether updates on this device are counted there. False if work is done when a call
/// returns: then the host knows the number, and host numbers cost less.
[[nodiscard]] bool counts_on_device(const Device& device);
/// Makes a count that starts at `count` updates. Shapes: []. Dtypes: f64, exact up to 2^53.
[[nodiscard]] Tensor make_update_count(const Device& device,
                                       std::int64_t count,
                                       SourceLoc loc = SourceLoc::current());

/// The factors of Adam in update t, after a count of t - 1: shape [] each.
struct AdamFactors {
  Tensor rate;  ///< learning_rate / (1 - β1^t)
  Tensor root;  ///< 1 / sqrt(1 - β2^t)
};
/// Computes Adam's factors from a count.
/// Dtypes: computed in f64, rounded to the accumulation_dtype() of `dtype`, the parameters' type.
/// Errors: ArgumentError if `count` is no count.
[[nodiscard]] AdamFactors adam_factors(const Tensor& count,
                                       double learning_rate,
                                       double beta1,
                                       double beta2,
                                       DType dtype,
                                       SourceLoc loc = SourceLoc::current());

namespace detail {
/// Checks that the tensor is a count. Errors: ArgumentError.
void require_count(const Tensor& count, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
