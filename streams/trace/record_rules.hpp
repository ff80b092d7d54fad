// Whether a record keeps every rule of its kind: counts, element types, shapes and attributes. Ops
// that the library submits always do; this is for records that come from outside, such as a trace
// file. Pure functions. Threads: any.
#pragma once

#include <span>

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_record.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::rules {

/// Bytes that the blob of a record with these counts must have: the operands beyond five, then the
/// attributes above 16 bytes. Lifetime records have no blob here: what theirs say belongs to one
/// run.
[[nodiscard]] std::size_t blob_size_bytes(OpKind kind, int operand_count) noexcept;

/// The part that needs no shapes: the kind exists, the flags are known and fit it, the numbers of
/// operands are those of its row, `blob_size_bytes` is what they ask for. The other functions of
/// this header require a record that passed. Errors: invalid_argument: "matmul: takes 2 to 3
/// inputs, was given 7".
[[nodiscard]] Status check_form(const OpRecord& record, std::size_t blob_size_bytes);

/// Whether inputs, outputs and attributes belong together, so that every backend may run the op
/// without looking again; `expression` is that of an op of this kind. What depends on the values
/// (classes, positions) is for the kernels. Errors: shape_mismatch, dtype_mismatch,
/// invalid_argument; the text starts with the op's name.
[[nodiscard]] Status check_record(const OpView& op,
                                  std::span<const TensorSpec> inputs,
                                  std::span<const TensorSpec> outputs,
                                  const Expression* expression = nullptr);

}  // namespace hearth::rules
