// One scalar of the interpreter, and the evaluation of each primitive. Private to streams/kernel.
// Values, any thread.
// Invariant: a scalar of type t holds a value of t, floats in `real`, integers and bool in
// `integer`. The other member is 0. An f32, f16 or bf16 is a double that is exact in its type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth::detail {

struct KernelScalar {
  double real = 0;
  std::int64_t integer = 0;
};

/// Rounds to the nearest f32, f64, f16 or bf16, ties to even, in one rounding.
[[nodiscard]] double rounded(double value, DType type) noexcept;
/// Returns the value modulo 2^bits of an integer type.
[[nodiscard]] std::int64_t wrapped(std::uint64_t value, DType type) noexcept;

[[nodiscard]] KernelScalar load(const std::byte* from, DType type) noexcept;
void store(std::byte* to, KernelScalar value, DType type) noexcept;
[[nodiscard]] KernelScalar constant(const KernelNode& node) noexcept;
[[nodiscard]] KernelScalar parameter(const ScalarAttributes& value, DType type) noexcept;
[[nodiscard]] KernelScalar converted(KernelScalar value, DType from, DType to) noexcept;

/// Returns why a primitive has no value; empty if it has one.
[[nodiscard]] const char* why_undefined(Primitive primitive,
                                        DType type,
                                        KernelScalar a,
                                        KernelScalar b) noexcept;
/// Evaluates a primitive that is no leaf and no conversion. `type` is that of operand 1 for a
/// select, else that of operand 0. Requires that the result is defined.
[[nodiscard]] KernelScalar evaluate(Primitive primitive,
                                    DType type,
                                    std::span<const KernelScalar> operands) noexcept;

/// Folds a row to one value, in order; floats are summed in f64 and rounded once.
[[nodiscard]] KernelScalar folded(FoldOp op,
                                  DType type,
                                  std::span<const KernelScalar> row) noexcept;
/// Replaces a row by its softmax or log-softmax: in f64, each element rounded once.
void make_softmax(bool is_log, DType type, std::span<KernelScalar> row);
/// Replaces the gradient of the result `y` by the gradient of the input.
void make_softmax_gradient(bool is_log,
                           DType type,
                           std::span<KernelScalar> grad,
                           std::span<const KernelScalar> y);

}  // namespace hearth::detail
