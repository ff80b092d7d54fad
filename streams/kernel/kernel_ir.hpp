// KernelIR: the computation of one fused kernel, as data. It has an iteration space, the access of
// each operand, a body of single assignments over scalars, and optionally a reduction.
// Backends print or interpret it. The verifier (kernel_verifier) checks that it is well formed, the
// interpreter (kernel_interpreter) defines its meaning, numerics.md its rounding. A plain value.
// Threads: any.
// Invariants: (1) it does not depend on addresses, strides or sizes, so one kernel serves all calls
// of its form; (2) two kernels are equal exactly if their texts are equal.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/index_map.hpp>

namespace hearth {

/// Operation of one node. Numbers are fixed for ever, because files will store them.
enum class Primitive : std::uint8_t {
  // leaves
  input = 0,      ///< The element of input `number`.
  parameter = 1,  ///< Scalar `number` of the launch.
  constant = 2,   ///< `bits`.
  index = 3,      ///< i64: the index along axis `number`.
  position = 4,   ///< i64: the row-major position in the space.
  // one operand
  convert = 16,  ///< To the node's type.
  neg = 17,
  abs = 18,
  sqrt = 19,
  exp = 20,
  log = 21,
  sin = 22,
  cos = 23,
  tanh = 24,
  erf = 25,
  logical_not = 26,
  atan = 27,
  // two operands
  add = 32,
  sub = 33,
  mul = 34,
  div = 35,
  pow = 36,
  min = 37,
  max = 38,
  equal = 39,
  less = 40,
  less_equal = 41,
  logical_and = 42,
  logical_or = 43,
  bit_and = 44,
  bit_or = 45,
  bit_xor = 46,
  shift_left = 47,  ///< 0 where the number of places is negative or not below the type's width.
  // three operands
  select = 48,  ///< (condition, a, b)
  philox =
      /// (seed, counter, position): word position%4 of block counter + position/4, in 0 … 2^32 - 1.
  49,
  // two operands
  shift_right = 50,  ///< The sign of operand 0 (of u8: 0) where the number of places is such.
  // along the folded axes: a row of elements in
  fold = 56,  ///< One value for the row: FoldOp `number`.
  softmax = 57,
  log_softmax = 58,
  softmax_backward = 59,      ///< (grad, y)
  log_softmax_backward = 60,  ///< (grad, y)
};
[[nodiscard]] std::string_view name(Primitive primitive) noexcept;
/// Returns whether the primitive maps a row to a row: softmax and its kin.
[[nodiscard]] constexpr bool is_row_function(Primitive primitive) noexcept {
  return primitive >= Primitive::softmax && primitive <= Primitive::log_softmax_backward;
}
/// Returns the number of operands, 0 to 3; -1 for a number that is no primitive.
[[nodiscard]] int operand_count(Primitive primitive) noexcept;

inline constexpr std::int32_t kNoNode = -1;

/// One assignment. Nodes are numbered by position, from 0.
struct KernelNode {
  Primitive primitive = Primitive::constant;
  DType type = DType::f32;  ///< Type of its value.
  std::array<std::int32_t, 3> operands{kNoNode, kNoNode, kNoNode};
  std::int32_t number = 0;  ///< Number of the input, parameter, axis or fold.
  std::uint64_t bits = 0;   ///< Constant: the bits of an f64 for float types, else of an i64.
  friend bool operator==(const KernelNode&, const KernelNode&) noexcept = default;
};

struct KernelInput {
  DType dtype = DType::f32;
  /// One index for each axis of the operand, over the iteration space.
  std::vector<AffineIndex> map = {};
  friend bool operator==(const KernelInput&, const KernelInput&) = default;
};
struct KernelOutput {
  DType dtype = DType::f32;
  std::vector<AffineIndex> map = {};  ///< Each axis of its value once, as a plain index.
  std::int32_t value = kNoNode;
  friend bool operator==(const KernelOutput&, const KernelOutput&) = default;
};

/// Reduction of a row; the comment gives the result of an empty row.
enum class FoldOp : std::uint8_t {
  sum = 0,   ///< 0. Integers wrap.
  max = 1,   ///< The lowest value; -infinity. NaN if one is NaN.
  min = 2,   ///< The largest value; infinity. NaN if one is NaN.
  mean = 3,  ///< NaN. Floats only.
  prod = 4,  ///< 1. Integers wrap.
};
inline constexpr int kFoldOpCount = 5;
[[nodiscard]] std::string_view name(FoldOp op) noexcept;

/// Tiling of the work by a backend. Changes the speed and the order of float sums, but no other
/// result. 0 leaves the choice to the backend.
struct KernelSchedule {
  std::uint32_t tile = 0;     ///< Elements that go through the body together.
  std::uint32_t threads = 0;  ///< Threads of a block.
  std::uint32_t items = 0;    ///< Elements of a thread.
  std::uint32_t vector = 0;   ///< Elements of a load.
  friend bool operator==(const KernelSchedule&, const KernelSchedule&) noexcept = default;
};

inline constexpr std::uint32_t kKernelVersion = 1;

struct KernelIR {
  std::uint32_t version = kKernelVersion;
  /// One symbol for each axis: axes with equal symbols have equal sizes. Symbols count from 0 in
  /// the order of the axes.
  std::vector<std::int32_t> extents = {};
  /// Bit i: axis i is folded. The elements of these axes, in row-major order, are a row.
  std::uint32_t folded = 0;
  std::vector<KernelInput> inputs = {};
  std::vector<DType> parameters = {};
  std::vector<KernelNode> body = {};
  std::vector<KernelOutput> outputs = {};
  KernelSchedule schedule = {};
  friend bool operator==(const KernelIR&, const KernelIR&) = default;

  [[nodiscard]] int axis_count() const noexcept { return static_cast<int>(extents.size()); }
  [[nodiscard]] bool is_folded(int axis) const noexcept {
    return (folded >> static_cast<unsigned>(axis) & 1U) != 0;
  }
  /// Requires 0 ≤ place < node_count().
  [[nodiscard]] const KernelNode& node(std::int32_t place) const noexcept {
    return body[static_cast<std::size_t>(place)];
  }
  [[nodiscard]] std::int32_t node_count() const noexcept {
    return static_cast<std::int32_t>(body.size());
  }
};

/// Returns whether the node has one value for each row, because it depends on no folded axis. Such
/// nodes are folds, scalars, inputs that do not name a folded axis, and nodes computed from those
/// alone. `stays` holds the answers for the earlier nodes.
[[nodiscard]] bool stays_along_rows(const KernelIR& kernel,
                                    const KernelNode& node,
                                    const std::vector<bool>& stays) noexcept;
/// Returns stays_along_rows() of each node.
[[nodiscard]] std::vector<bool> staying_nodes(const KernelIR& kernel);

/// Returns the kernel's text, complete and stable: compared with golden files and hashed by hash().
[[nodiscard]] std::string to_string(const KernelIR& kernel);
/// Returns xxh64 of the text: the same in every process and on every machine.
[[nodiscard]] std::uint64_t hash(const KernelIR& kernel);

/// Returns the bits of a constant of this type, to which the value is rounded. Not for f16 and
/// bf16.
[[nodiscard]] std::uint64_t constant_bits(double value, DType type) noexcept;

}  // namespace hearth
