// The allowed difference from the stored results of ONNX's own test cases. Values, any thread.
#pragma once

#include "tests/support/tolerance.hpp"

namespace hearth::testing {

/// The project's runner allows a relative difference of 1e-3. Its absolute one of 1e-7 fails sums
/// of f32 near 0, such as those of Fourier transforms.
inline constexpr Tolerance kOnnxCaseTolerance{.relative = 1e-3, .absolute = 1e-5};

/// Whole networks in f32, beside the results of another runtime.
inline constexpr Tolerance kOnnxZooTolerance{.relative = 1e-4, .absolute = 1e-4};

}  // namespace hearth::testing
