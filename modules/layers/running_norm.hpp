// Normalisation by running statistics, which BatchNorm2d and InstanceNorm share. Private.
// Stateless. Threads: any.
#pragma once

#include <hearth/runtime/buffer.hpp>
#include <hearth/runtime/ops.hpp>

#include <optional>

namespace hearth::detail {

/// Reshapes [channels] to broadcast against axis 1 of a tensor of this rank, in `dtype`.
[[nodiscard]] Tensor by_channel(const Tensor& values, int rank, DType dtype, SourceLoc loc);

/// (x - mean)/√(variance + epsilon)·weight + bias for each channel. The layer is folded into one
/// factor and one addend per channel, so that x is read and written once.
///
/// Shapes: x [n, channels, ...]; the others [channels]. Dtypes: floats; f16 and bf16 are computed
/// in f32.
[[nodiscard]] Tensor normalised_by(const Arg& x,
                                   const Buffer& mean,
                                   const Buffer& variance,
                                   const std::optional<Tensor>& weight,
                                   const std::optional<Tensor>& bias,
                                   double epsilon);

}  // namespace hearth::detail
