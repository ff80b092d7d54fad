// Group kernels: several neighbouring elementwise ops as one kernel, an expression over the group's
// external inputs. Each op contributes its own expression (op_expression), so every value has the
// same bits as when its op runs alone. For f16 and bf16 that depends on the rounding between ops
// (Between). Pure functions. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_record.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth {

inline constexpr std::size_t kMostGroupOps = 64;
inline constexpr std::size_t kMostGroupInputs = kMostExpressionInputs;
/// Limit for a group that works along rows: each output may need a buffer of a whole row.
inline constexpr std::size_t kMostRowOutputs = 8;

/// Source of an op's input.
struct GroupSource {
  bool is_made = false;     ///< True: the result of op `number` of the group, which comes earlier.
  std::uint8_t number = 0;  ///< Number of that op, else of the kernel's input.
};

/// Number of elements of a value: one for each position of the group's space, one for each of its
/// rows, or a single one.
enum class GroupExtent : std::uint8_t { full, row, cell };

enum class GroupRole : std::uint8_t {
  computes,
  /// The first op, such as a matrix product; the others process its result before it is stored.
  anchor,
  views,     ///< A view of its source: the same value to the kernel.
  unneeded,  ///< Its result is not needed, nor anything computed from it: not part of the kernel.
};

/// Precision of f16 and bf16 values between two ops of a group, which compute them in f32.
enum class Between : std::uint8_t {
  wide,     ///< Values stay f32; only a store or a cast rounds them.
  rounded,  ///< Each op rounds its result as it does alone: the bits are those of single ops.
};

struct GroupInput {
  DType dtype = DType::f32;
  GroupExtent extent = GroupExtent::full;
};

struct GroupOp {
  OpView op;
  const Expression* expression = nullptr;  ///< For an op of kind `expression`.
  std::span<const GroupSource> sources;
  DType dtype = DType::f32;  ///< Type of its result.
  GroupExtent extent = GroupExtent::full;
  GroupRole role = GroupRole::computes;
  bool is_output = false;  ///< The result is needed outside of the group.
};

/// Longest row of a group. Values of a longer row would not stay in the caches near a core.
inline constexpr std::int64_t kLongestGroupRow = 8192;

/// Returns whether an op of this kind may be in a group. Each element of its result must depend
/// only on the elements at its position, on scalars and on its row-major position. It must not fail
/// because of its data.
[[nodiscard]] bool may_join_group(OpKind kind, DType dtype) noexcept;
/// Returns whether an op of kind `expression`, captured by a program, may be in a group.
[[nodiscard]] bool may_join_group(const Expression& expression) noexcept;
/// Returns whether other ops may process this kind's result before it is stored. Such kinds are
/// matrix products, convolutions and their input gradients, pools, attention, gathers, and the
/// losses of a cross entropy.
[[nodiscard]] bool may_anchor_group(OpKind kind, DType dtype) noexcept;
/// Returns whether a group may produce this op's input and end there. True for reductions: some
/// cannot join a group, because their rows are too long or not contiguous.
[[nodiscard]] bool may_end_chain(OpKind kind) noexcept;
/// Returns whether the ops of a group may see the anchor's result in another shape. An embedding's
/// result is a list of rows to its gather.
[[nodiscard]] bool may_view_anchor(OpKind kind) noexcept;
/// Returns whether the kind reads whole rows: reductions, and softmax and its kin.
[[nodiscard]] bool runs_along_rows(OpKind kind) noexcept;
/// Returns the axes of the first input that such an op reads whole, one bit each.
[[nodiscard]] std::uint32_t row_axes_of(const OpView& op, int rank) noexcept;
/// Returns whether the attributes determine what the op computes: the axes of a row, an expression.
[[nodiscard]] bool is_formed_by_attributes(OpKind kind) noexcept;
/// Returns whether an element of the result depends on its position: dropout.
[[nodiscard]] bool depends_on_place(OpKind kind) noexcept;
/// Returns the number of elements of the last axes.
[[nodiscard]] std::int64_t row_length(const Shape& shape, int axes) noexcept;

/// Returns the number of parameters of an op. A group's expression has those of its ops in
/// sequence.
[[nodiscard]] std::size_t group_parameter_count(const OpView& op) noexcept;
/// Appends the op's parameters, 8 bytes each, as in the blob of an op of kind `expression`. `dtype`
/// is that of the op's first input, or of its result if it has none.
void write_group_parameters(const OpView& op, DType dtype, std::vector<std::byte>& to);

/// Makes the expression of a group with these inputs. Its results are those of the output ops, in
/// their order. With an anchor its first input is the anchor's result, and the others follow. With
/// rows it is a row kernel. It has no gradients, and must not enter an ExpressionTable.
///
/// Errors: unsupported for a group without inputs, without needed results, or with a result that
/// repeats one number along each row.
[[nodiscard]] Result<ExpressionRef> make_group_expression(std::span<const GroupOp> ops,
                                                          std::span<const GroupInput> inputs,
                                                          bool has_rows,
                                                          Between between);

}  // namespace hearth
