// What each elementwise op means, as one expression over the primitives of KernelIR, written once:
// the interpreter, and every backend that fuses, print or run this. The f64 reference has its own
// hand. Pure functions. Threads: any.
#pragma once

#include <span>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

/// Whether the kind has an expression: all of FusionClass::elementwise and FusionClass::fill have,
/// but for the kind `expression`, whose ops bring one of their own.
[[nodiscard]] bool has_expression(OpKind kind) noexcept;

/// The type that values of an element type are computed in: f32 for f16 and bf16, else the same.
[[nodiscard]] constexpr DType compute_type(DType dtype) noexcept {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

/// A scalar that a launch brings, computed from an op's attributes: never part of the kernel.
struct KernelParameter {
  DType type = DType::f32;
  ScalarAttributes value = {};
};
/// An f32 on the way to f16 or bf16: rounded toward zero, with its last bit set when something was
/// lost, so that the second rounding decides as if it saw the whole value.
[[nodiscard]] float sticky_f32(double value) noexcept;
/// The parameters of an op in the order of its kernel. `dtype` is that of its first result, and for
/// comparisons that of its inputs.
[[nodiscard]] std::vector<KernelParameter> op_parameters(const OpView& op, DType dtype);

/// The results of an op from its inputs and parameters, which are values of the builder: the body
/// of its kernel. Inputs have their element types, results those of `outputs`; in between it
/// computes in compute_type().
[[nodiscard]] std::vector<KernelValue> op_expression(KernelBuilder& builder,
                                                     const OpView& op,
                                                     std::span<const KernelValue> inputs,
                                                     std::span<const KernelValue> parameters,
                                                     std::span<const DType> outputs);

/// The kernel of one op alone, over the axes of its first result, each with a symbol of its own.
/// Requires operands that passed the shape rules.
/// Errors: unsupported, for a kind without an expression.
[[nodiscard]] Result<KernelIR> op_kernel(const OpView& op,
                                         std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs);

}  // namespace hearth
