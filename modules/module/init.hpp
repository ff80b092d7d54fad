// Initial values of parameters. Each function takes a shape [out, in, window...] and draws from a
// Generator, so one generator state gives the same values on every device. For constants use the
// ops zeros() and full().
// Stateless. Threads: any; on the calling thread's stream.
#pragma once

#include <hearth/runtime/ops.hpp>

#include <cstdint>

namespace hearth {

/// The number of inputs per output: the product of all dimensions but the first.
///
/// Errors: ArgumentError when the rank is below 2 or a dimension is 0.
[[nodiscard]] std::int64_t fan_in(const Shape& shape, SourceLoc loc = SourceLoc::current());
/// The number of outputs per input: the product of all dimensions but the second.
///
/// Errors: as fan_in().
[[nodiscard]] std::int64_t fan_out(const Shape& shape, SourceLoc loc = SourceLoc::current());

/// Uniform in ±1/sqrt(fan_in), PyTorch's default for Linear and Conv2d (Kaiming, a = sqrt(5)).
///
/// Paper: He et al., Delving Deep into Rectifiers, arXiv:1502.01852.
[[nodiscard]] Tensor kaiming_uniform(const Device& device,
                                     const Shape& shape,
                                     Generator& generator,
                                     DType dtype = DType::f32,
                                     SourceLoc loc = SourceLoc::current());
/// Normal with deviation sqrt(2/fan_in), which preserves the scale of activations through relu.
///
/// Paper: He et al., Delving Deep into Rectifiers, arXiv:1502.01852.
[[nodiscard]] Tensor kaiming_normal(const Device& device,
                                    const Shape& shape,
                                    Generator& generator,
                                    DType dtype = DType::f32,
                                    SourceLoc loc = SourceLoc::current());
/// Uniform in ±sqrt(6/(fan_in + fan_out)).
///
/// Paper: Glorot, Bengio, Understanding the difficulty of training deep feedforward neural
/// networks, AISTATS 2010.
[[nodiscard]] Tensor xavier_uniform(const Device& device,
                                    const Shape& shape,
                                    Generator& generator,
                                    DType dtype = DType::f32,
                                    SourceLoc loc = SourceLoc::current());

}  // namespace hearth
