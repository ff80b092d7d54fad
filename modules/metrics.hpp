// Figures that say how good a model is. Stateless. Threads: any; on the calling thread's stream.
#pragma once

#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstdint>

namespace hearth {

/// How many rows have their largest logit at their label: a scalar, read it with item().
///
/// Shapes: logits [n, classes], labels [n]; result [].
/// Dtypes: logits any number; labels i32 or i64; result i64.
/// Errors: ShapeError, DtypeError now; DeviceError when the result is read.
[[nodiscard]] Tensor correct_count(const Tensor& logits,
                                   const Tensor& labels,
                                   SourceLoc loc = SourceLoc::current());
/// The share of such rows: an f32 scalar. NaN for no rows.
[[nodiscard]] Tensor accuracy(const Tensor& logits,
                              const Tensor& labels,
                              SourceLoc loc = SourceLoc::current());

/// A loss that training can go on with.
///
/// Errors: Exception non_finite naming the step and the value, when it is NaN or infinite.
void require_finite(double loss, std::int64_t step, SourceLoc loc = SourceLoc::current());
/// The same for gradients, to find the parameter where a NaN begins. Waits for all of them: for
/// looking into trouble, not for every step.
///
/// Errors: Exception non_finite naming the step and the first such parameter in visit order;
/// DeviceError when a gradient is poisoned.
void require_finite(const Gradients& gradients,
                    std::int64_t step,
                    SourceLoc loc = SourceLoc::current());

}  // namespace hearth
