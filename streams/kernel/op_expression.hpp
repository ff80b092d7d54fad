// The definition of each elementwise op, as one expression over the primitives of KernelIR. The
// interpreter and every backend that fuses print or run it. The f64 reference has an independent
// implementation. Pure functions. Threads: any.
#pragma once

#include <span>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

/// Returns whether the kind has an expression: all of FusionClass::elementwise and
/// FusionClass::fill do, except the kind `expression`, whose ops bring their own.
[[nodiscard]] bool has_expression(OpKind kind) noexcept;

/// Returns the type in which values of an element type are computed: f32 for f16 and bf16, else the
/// same type.
[[nodiscard]] constexpr DType compute_type(DType dtype) noexcept {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

/// A scalar argument of a launch, computed from an op's attributes: never part of the kernel.
struct KernelParameter {
  DType type = DType::f32;
  ScalarAttributes value = {};
};
/// Rounds to f32 for a later rounding to f16 or bf16: toward zero, with the last bit set if the
/// value was inexact (sticky). So the second rounding gives the same result as a single one.
[[nodiscard]] float sticky_f32(double value) noexcept;
/// Returns the parameters of an op in the order of its kernel. `dtype` is that of its first result,
/// for comparisons that of its inputs.
[[nodiscard]] std::vector<KernelParameter> op_parameters(const OpView& op, DType dtype);

/// Returns the results of an op from its inputs and parameters, which are values of the builder:
/// the body of its kernel. Inputs have their element types, results those of `outputs`; in between
/// it computes in compute_type().
[[nodiscard]] std::vector<KernelValue> op_expression(KernelBuilder& builder,
                                                     const OpView& op,
                                                     std::span<const KernelValue> inputs,
                                                     std::span<const KernelValue> parameters,
                                                     std::span<const DType> outputs);

/// Returns the kernel of one op alone, over the axes of its first result, each with its own symbol.
/// Requires operands that passed the shape rules.
///
/// Errors: unsupported for a kind without an expression.
[[nodiscard]] Result<KernelIR> op_kernel(const OpView& op,
                                         std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs);

}  // namespace hearth
