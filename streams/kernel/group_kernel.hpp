// What neighbouring elementwise ops become when they run as one kernel: an expression over the
// tensors that they get from outside, each op by its own expression (op_expression), so that every
// value has the bits that it has when its op runs alone; f16 and bf16 where they are rounded in
// between (Between). Pure functions. Threads: any.
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
/// Of a group that works along rows: each may need room for a whole row.
inline constexpr std::size_t kMostRowOutputs = 8;

/// Where an op of a group gets an input from.
struct GroupSource {
  bool is_made = false;     ///< By op `number` of the group, which stands before it; else it is
  std::uint8_t number = 0;  ///< input `number` of the kernel.
};

/// How many elements a value has: one at each place of the group's space, one for each of its rows,
/// one for all.
enum class GroupExtent : std::uint8_t { full, row, cell };

enum class GroupRole : std::uint8_t {
  computes,
  anchor,    ///< The first op, a product say: the others work on its result before it is stored.
  shows,     ///< A view of its source, which is the same value to the kernel.
  unneeded,  ///< Nobody needs its result, nor what is made of it: no part of the kernel.
};

/// What becomes of f16 and bf16 values between two ops of a group, which compute them in f32.
enum class Between : std::uint8_t {
  wide,     ///< They stay f32, and are rounded where they are stored, and by a cast.
  rounded,  ///< Each op rounds its result, as it does alone: the bits are those of single ops.
};

struct GroupInput {
  DType dtype = DType::f32;
  GroupExtent extent = GroupExtent::full;
};

struct GroupOp {
  OpView op;
  const Expression* expression = nullptr;  ///< Of an op of this kind.
  std::span<const GroupSource> sources;
  DType dtype = DType::f32;  ///< Of its result.
  GroupExtent extent = GroupExtent::full;
  GroupRole role = GroupRole::computes;
  bool is_output = false;  ///< Its result is needed outside of the group.
};

/// Rows of more elements are none to a group: their values would not stay near a core.
inline constexpr std::int64_t kLongestGroupRow = 8192;

/// Whether an op of this kind may stand in a group: each element of its result follows from those
/// at its place, from scalars and from its place in row-major order; and it cannot fail for what is
/// in them.
[[nodiscard]] bool may_stand_in_group(OpKind kind, DType dtype) noexcept;
/// The same of an op of kind `expression`, which a program captured.
[[nodiscard]] bool may_stand_in_group(const Expression& expression) noexcept;
/// Whether ops may work on this kind's result before it is stored: that of a product, of a
/// convolution and of its gradient for the input, of a pool, of attention, of a gather, the losses
/// of a cross entropy.
[[nodiscard]] bool may_anchor_group(OpKind kind, DType dtype) noexcept;
/// Whether a group before it may make what it reads, with nothing behind it: a reduction that is no
/// part of a group, because its rows are too long or lie elsewhere.
[[nodiscard]] bool may_end_chain(OpKind kind) noexcept;
/// Whether they may see that result in another shape: what an embedding looks up is a list of rows
/// to its gather.
[[nodiscard]] bool may_show_anchor(OpKind kind) noexcept;
/// Whether the kind takes whole rows in: reductions, and softmax and its kin.
[[nodiscard]] bool runs_along_rows(OpKind kind) noexcept;
/// The axes of the first input that such an op takes whole: a bit each.
[[nodiscard]] std::uint32_t row_axes_of(const OpView& op, int rank) noexcept;
/// Whether what it makes of its inputs stands in its attributes: the axes of a row, an expression.
[[nodiscard]] bool is_formed_by_attributes(OpKind kind) noexcept;
/// Whether an element of the result follows from its place: dropout.
[[nodiscard]] bool depends_on_place(OpKind kind) noexcept;
/// The elements of its last axes.
[[nodiscard]] std::int64_t row_length(const Shape& shape, int axes) noexcept;

/// How many parameters an op brings. Those of a group's expression are those of its ops, one op
/// after the other.
[[nodiscard]] std::size_t group_parameter_count(const OpView& op) noexcept;
/// Adds them, 8 bytes each, as the blob of an op of kind `expression` has them; `dtype` is that of
/// the op's first input, or of its result where it has none.
void write_group_parameters(const OpView& op, DType dtype, std::vector<std::byte>& to);

/// The expression of a group; `inputs` is what it gets. Its results are those of the ops that are
/// outputs, in their order. Behind an anchor its first input is the anchor's result, and the others
/// follow. With rows it is a row kernel. It has no gradients, and is for no ExpressionTable.
/// Errors: unsupported, for a group that reads nothing, or whose results nobody needs, or of which
/// one repeats the same number along each row.
[[nodiscard]] Result<ExpressionRef> make_group_expression(std::span<const GroupOp> ops,
                                                          std::span<const GroupInput> inputs,
                                                          bool has_rows,
                                                          Between between);

}  // namespace hearth
