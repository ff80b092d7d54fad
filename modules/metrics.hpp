// Figures that say how good a model is. Stateless. Threads: any; on the calling thread's stream.
#pragma once

#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstdint>
#include <string_view>

namespace hearth {

/// How many rows have their largest logit at their label: a scalar, read it with item().
///
/// Shapes: logits [n, classes], two classes or more, labels [n]; result [].
/// Dtypes: logits any number; labels i32 or i64; result i64.
/// Errors: ShapeError, DtypeError now; DeviceError when the result is read, for a label that is no
/// class, too.
[[nodiscard]] Tensor correct_count(const Tensor& logits,
                                   const Tensor& labels,
                                   SourceLoc loc = SourceLoc::current());
/// The share of such rows: an f32 scalar. NaN for no rows.
[[nodiscard]] Tensor accuracy(const Tensor& logits,
                              const Tensor& labels,
                              SourceLoc loc = SourceLoc::current());
/// The share of outputs on the right side of `threshold`: above it for the target 1. An f32 scalar.
/// 0 is for logits, 0.5 for probabilities.
///
/// Shapes: outputs [n] or [n, 1], or as targets; targets [n] or as outputs; result [].
/// Dtypes: outputs any number; targets any number, 0 or 1.
/// Errors: ShapeError, DtypeError now; DeviceError when the result is read, for a target that is
/// neither 0 nor 1, too.
[[nodiscard]] Tensor binary_accuracy(const Tensor& outputs,
                                     const Tensor& targets,
                                     double threshold = 0,
                                     SourceLoc loc = SourceLoc::current());

namespace detail {
/// Errors: ShapeError, in the name of `op`, when outputs and targets are not one to one.
void require_binary(std::string_view op,
                    const Tensor& outputs,
                    const Tensor& targets,
                    SourceLoc loc);
}  // namespace detail

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
