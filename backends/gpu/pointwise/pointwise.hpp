// Pointwise ops: each element of a result depends on the operands' elements at its place. All kinds
// that have an expression, and captured and fused ones. Threads: owner only.
#pragma once

#include <string_view>

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "backends/gpu/encoder/parameter_block.hpp"

namespace hearth::gpu {

/// Encodes a kind that has an expression (op_expression.hpp).
[[nodiscard]] Status encode_elementwise(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Support supports_elementwise(const KernelCall& call, const DeviceLimits& limits);
/// Encodes an op of kind `expression` whose kernel is pointwise.
[[nodiscard]] Status encode_pointwise_expression(const KernelCall& call, KernelEncoder& encoder);

/// Adds a scalar of a kernel, rounded to its type, as its shader declares it.
void add_scalar(ParameterBlock& to, DType type, const ScalarAttributes& value) noexcept;
/// True if a kernel's body is too long to stand in a shader several times.
[[nodiscard]] bool has_long_body(const KernelIR& kernel, const DeviceLimits& limits) noexcept;
/// Refuses kernels with values of a type that the device lacks.
[[nodiscard]] Support supports_types(const KernelIR& kernel,
                                     std::string_view op,
                                     const DeviceLimits& limits);

}  // namespace hearth::gpu
