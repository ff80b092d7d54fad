// swiglu: the gated activation of feed-forward blocks. Stateless.
// Threads: any; on the calling thread's stream.
#pragma once

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// silu(gate)·value, element by element: the middle of a SwiGLU feed-forward block, whose gate and
/// value are two projections of one input.
///
/// Shapes: gate and value broadcast.
/// Dtypes: floats, promoted.
/// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
/// Paper: Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.
[[nodiscard]] Tensor swiglu(Arg gate, Arg value);

}  // namespace hearth
