// The op table: the single source of truth for the facts of each kind. Implementations are in other
// tables, next to the code that they serve. Read-only data. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <hearth/runtime/base/custom_code.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/op_kind.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

enum class OpClass : std::uint8_t {
  creation,
  unary,
  binary,
  ternary,
  view,
  movement,
  reduction,
  contraction,
  pooling,
  row,  ///< softmax and its kin, and scans
  optimizer,
  expression,  ///< An elementwise function that the program captured.
  custom,      ///< A program's own kernel.
  indexing,    ///< Along an axis, at the positions in an index: gather and its kin.
  attention,
  lifetime,  ///< upload, drop, publish, ...: handled by the actor, never a kernel
};

/// How the result's element type follows from the inputs'.
enum class DtypeRule : std::uint8_t {
  given,           ///< Chosen by the caller (fill, cast, random).
  same,            ///< All inputs have one type, and the result has it too.
  same_float,      ///< All inputs have one float type, and the result has it too.
  product,         ///< One float type as in `same_float`, or i8 with an i32 result.
  comparison,      ///< All inputs have one type; the result is bool.
  where,           ///< (bool, t, t) -> t
  position,        ///< argmax, argmin: i64
  class_loss,      ///< (float logits, i32 or i64 classes)
  pool_positions,  ///< float, and i32 positions
  indexed,         ///< (t, i32 or i64 index[, t]) -> t
  attention,       ///< Floats of one type, except the row statistics and the mask.
  expression,      ///< By its kernel.
  custom,          ///< By the program's rule.
  none,            ///< lifetime records
};

/// A tensor as the shape rules see it.
struct TensorSpec {
  DType dtype = DType::f32;
  Shape shape;
};

/// A set of element types: bit i stands for the DType of value i.
using DtypeMask = std::uint16_t;
[[nodiscard]] constexpr DtypeMask dtype_bit(DType dtype) noexcept {
  return static_cast<DtypeMask>(1U << static_cast<unsigned>(dtype));
}

struct OpInfo {
  std::string_view name;
  std::string_view doc;  ///< Description in one or two sentences.
  OpKind kind;
  OpClass op_class;
  DtypeRule dtype_rule;
  /// Accepted types of its values; conditions, classes and positions excluded.
  DtypeMask dtypes;
  std::uint8_t min_inputs;            ///< A binary op with a scalar immediate has one.
  std::uint8_t max_inputs;            ///< kAnyNumber for concat and its like.
  std::uint8_t outputs;               ///< Maximum number of outputs.
  std::uint8_t attribute_size_bytes;  ///< Size of its struct in op_attributes.hpp; 0 = none.
  bool differentiable;                ///< Has a row in runtime/tape/vjp_table.
};
inline constexpr std::uint8_t kAnyNumber = 255;
inline constexpr std::uint8_t kMostExpressionInputs = 16;
inline constexpr std::uint8_t kMostExpressionOutputs = 4;
inline constexpr std::uint8_t kMostExpressionParameters = 32;
/// Limit for a group of ops that runs as one expression.
inline constexpr std::uint8_t kMostGroupOutputs = 24;

namespace detail {
extern const OpInfo op_rows[kOpKindCount];
}
/// Returns the row of a kind.
[[nodiscard]] inline const OpInfo& op_info(OpKind kind) noexcept {
  return detail::op_rows[static_cast<std::size_t>(kind)];
}
/// Returns whether the record belongs to an update group: (parameter, gradient, state...) to the
/// new parameter and state.
[[nodiscard]] inline bool is_update(OpKind kind, std::uint16_t flags) noexcept {
  return op_info(kind).op_class == OpClass::optimizer ||
         (flags & static_cast<std::uint16_t>(RecordFlag::update)) != 0;
}
[[nodiscard]] inline bool is_update(const OpRecord& record) noexcept {
  return is_update(record.kind, record.flags);
}
/// Returns all rows, in the order of OpKind.
[[nodiscard]] std::span<const OpInfo> op_table() noexcept;
/// Returns the name of the function that a program calls and that errors show: "matmul", "sum", ...
[[nodiscard]] inline std::string_view name(OpKind kind) noexcept {
  return op_info(kind).name;
}

/// Returns whether the kind is a scan, with ScanAttributes: cumsum and its kin.
[[nodiscard]] constexpr bool is_scan(OpKind kind) noexcept {
  return kind == OpKind::cumsum || (kind >= OpKind::cumprod && kind <= OpKind::cummin);
}

/// A function with another name than its kind's.
struct CalledInfo {
  std::string_view name;
  /// End of an out_of_range error if the program passes no index: "cannot be drawn from: …".
  std::string_view hint;
  OpKind kind;  ///< The kind that implements it; any for CalledAs::itself.
};
/// Returns the row of the name. Requires is_known(called).
[[nodiscard]] const CalledInfo& called_info(CalledAs called) noexcept;
[[nodiscard]] bool is_known(CalledAs called) noexcept;
/// Returns the name of the gradient's op.
[[nodiscard]] CalledAs backward_of(CalledAs called) noexcept;

/// Returns whether the op accepts values of this element type (creation: produces them).
[[nodiscard]] inline bool accepts(OpKind kind, DType dtype) noexcept {
  return (op_info(kind).dtypes & dtype_bit(dtype)) != 0;
}
/// Returns the names in a mask: "f32, f64, f16, bf16".
[[nodiscard]] std::string describe(DtypeMask dtypes);

/// Work of an op, for planners, benches and the sim's clock. An add, a compare, a multiplication
/// and an exponential count as one flop each, whatever their cost.
struct OpCost {
  double flops = 0;
  double bytes = 0;  ///< Read and written; 0 for views, which move nothing.
};
/// Returns the cost of an op. Optional inputs and outputs count if they are present. Requires
/// operands that passed the shape rules.
[[nodiscard]] OpCost op_cost(const OpView& op,
                             std::span<const TensorSpec> inputs,
                             std::span<const TensorSpec> outputs) noexcept;

}  // namespace hearth
