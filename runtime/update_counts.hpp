// Counts of updates that a device keeps itself. Where work is in flight when a call returns, the
// host does not know yet whether the last update happened (its gradient may turn out poisoned), and
// does not wait for it: what the next one needs to know of the number is made on the device, of a
// count that is replaced in the update group like a parameter, and so stays where the group does
// not happen. Threads: the thread whose stream owns the parameters.
#pragma once

#include <cstdint>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Whether updates on this device are counted there. False where work is done when a call returns:
/// then the host knows the number, and numbers of the host cost less.
[[nodiscard]] bool counts_on_device(const Device& device);
/// A count that begins with so many updates. Shapes: []. Dtypes: f64, exact up to 2^53.
[[nodiscard]] Tensor make_update_count(const Device& device,
                                       std::int64_t count,
                                       SourceLoc loc = SourceLoc::current());

/// What Adam multiplies by in the update behind a count of t - 1: shape [] each.
struct AdamFactors {
  Tensor rate;  ///< learning_rate / (1 - β1^t)
  Tensor root;  ///< 1 / sqrt(1 - β2^t)
};
/// Dtypes: computed in f64, rounded to the accumulation_dtype() of `dtype`, the parameters' type.
/// Errors: ArgumentError for what is no count.
[[nodiscard]] AdamFactors adam_factors(const Tensor& count,
                                       double learning_rate,
                                       double beta1,
                                       double beta2,
                                       DType dtype,
                                       SourceLoc loc = SourceLoc::current());

namespace detail {
/// Errors: ArgumentError for what is no count.
void require_count(const Tensor& count, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
