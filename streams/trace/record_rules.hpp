// Checks that a record keeps every rule of its kind: counts, element types, shapes and attributes.
// Ops submitted by the library always do; these checks are for external records, such as those of a
// trace file. Pure functions. Threads: any.
#pragma once

#include <span>

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_record.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::rules {

/// Returns the size of the blob of a record with these counts: the operands beyond five, then the
/// attributes above 16 bytes. Lifetime records have no blob here, because their contents belong to
/// one run.
[[nodiscard]] std::size_t blob_size_bytes(OpKind kind, int operand_count) noexcept;

/// Checks everything that needs no shapes: the kind exists, the flags are known and fit it, the
/// operand counts fit its row, `blob_size_bytes` matches. The other functions of this header
/// require a record that passed.
///
/// Errors: invalid_argument: "matmul: takes 2 to 3 inputs, was given 7".
[[nodiscard]] Status check_form(const OpRecord& record, std::size_t blob_size_bytes);

/// Checks that inputs, outputs and attributes fit together, so that every backend may run the op
/// without further checks. `expression` is that of an op of this kind. Rules about values (classes,
/// positions) are left to the kernels.
///
/// Errors: shape_mismatch, dtype_mismatch, invalid_argument; the text starts with the op's name.
[[nodiscard]] Status check_record(const OpView& op,
                                  std::span<const TensorSpec> inputs,
                                  std::span<const TensorSpec> outputs,
                                  const Expression* expression = nullptr);

}  // namespace hearth::rules
