// Measures of a model's quality on one batch, and checks for non-finite values.
// Stateless. Threads: any; on the calling thread's stream.
#pragma once

#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstdint>
#include <string_view>

namespace hearth {

/// Counts the rows whose largest logit is at their label. Returns a scalar; read it with item().
///
/// Shapes: logits [n, classes], at least two classes, labels [n]; result [].
/// Dtypes: logits any number; labels i32 or i64; result i64.
/// Errors: ShapeError, DtypeError now; DeviceError when the result is read, also for a label
/// outside the classes.
[[nodiscard]] Tensor correct_count(const Tensor& logits,
                                   const Tensor& labels,
                                   SourceLoc loc = SourceLoc::current());
/// The share of rows whose largest logit is at their label: an f32 scalar. NaN for no rows.
[[nodiscard]] Tensor accuracy(const Tensor& logits,
                              const Tensor& labels,
                              SourceLoc loc = SourceLoc::current());
/// The share of outputs on the right side of `threshold`: above it if the target is 1. An f32
/// scalar. Use 0 for logits and 0.5 for probabilities.
///
/// Shapes: outputs [n] or [n, 1], or as targets; targets [n] or as outputs; result [].
/// Dtypes: outputs any number; targets any number, 0 or 1.
/// Errors: ShapeError, DtypeError now; DeviceError when the result is read, also for a target other
/// than 0 or 1.
[[nodiscard]] Tensor binary_accuracy(const Tensor& outputs,
                                     const Tensor& targets,
                                     double threshold = 0,
                                     SourceLoc loc = SourceLoc::current());

namespace detail {
/// Checks that outputs and targets correspond one to one.
///
/// Errors: ShapeError, in the name of `op`, otherwise.
void require_binary(std::string_view op,
                    const Tensor& outputs,
                    const Tensor& targets,
                    SourceLoc loc);
}  // namespace detail

/// Checks that a loss is finite.
///
/// Errors: Exception non_finite naming the step and the value, if it is NaN or infinite.
void require_finite(double loss, std::int64_t step, SourceLoc loc = SourceLoc::current());
/// Checks that all gradients are finite, to locate the parameter where a NaN first appears. Waits
/// for all of them, so it suits debugging rather than every step.
///
/// Errors: Exception non_finite naming the step and the first such parameter in visit order;
/// DeviceError when a gradient is poisoned.
void require_finite(const Gradients& gradients,
                    std::int64_t step,
                    SourceLoc loc = SourceLoc::current());

}  // namespace hearth
