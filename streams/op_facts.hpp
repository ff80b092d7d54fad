// Facts of a kind for planners, beside its row in the op table. They give fusion class, index rule,
// roles of attributes, possible failure while an op runs, and cost of arithmetic. A separate table,
// so that the rows which every submitted op reads stay small. Read-only data. Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <hearth/streams/op_table.hpp>

namespace hearth {

/// Class of a kind for the planner of fused groups.
enum class FusionClass : std::uint8_t {
  none,         ///< No kernel, and does not end a group: a drop.
  view,         ///< Another layout of the same bytes; folds into the index maps of its consumers.
  fill,         ///< Computed from the index alone: fill, arange, random numbers.
  elementwise,  ///< Each element of a result depends on one element of each input.
  reduce,       ///< One result for many elements along some axes.
  row,          ///< Maps a row to a row, with reductions inside: softmax.
  contraction,
  conv,
  pool,
  scan,    ///< Each element depends on all before it, or on all after it: cumsum and its kin.
  gather,  ///< Elements move to other positions: concat, slice_scatter, by index.
  attention,
  opaque,  ///< A program's own kernel, of unknown structure.
  /// Ends every group: a record that others wait for, or that changes the state of the lane.
  barrier,
};

/// Correspondence between the axes of an input and those of a result. index_map() (index_map.hpp)
/// applies a rule to the operands of one op and returns the map.
enum class IndexRule : std::uint8_t {
  none,          ///< No input, or no kernel.
  elementwise,   ///< Axes from the right; size 1 repeats (NumPy broadcasting).
  row_major,     ///< Equal positions in row-major order: reshape.
  permuted,      ///< By PermuteAttributes.
  sliced,        ///< By SliceAttributes.
  scattered,     ///< The inverse of sliced.
  concatenated,  ///< The inputs in sequence along the axis of AxisAttributes.
  reduced,       ///< The axes in the mask of ReduceAttributes are read whole.
  reduced_axis,  ///< The axis of AxisAttributes is read whole and removed: argmax, argmin.
  row,           ///< The axis of AxisAttributes is read whole and stays: softmax.
  row_of_first,  ///< As `row` for the first input; the second is read element by element.
  scanned,       ///< The axis of ScanAttributes is read up to the element, or from it on: cumsum.
  matmul,
  conv2d,
  conv2d_backward_input,
  conv2d_backward_weight,
  window,               ///< Windows over height and width: pools.
  window_backward,      ///< The windows that contain an element: the gradient of a mean.
  plane_backward,       ///< Any position of the plane: positions are data.
  class_loss,           ///< (logits [n, c], targets [n]) to losses [n], probabilities [n, c].
  class_loss_backward,  ///< (grad [n], probabilities [n, c], targets [n]) to [n, c].
  gathered,             ///< The axis is read whole, because positions are data: gather.
  gathered_backward,    ///< Source and index are both read whole along the axis: scatter_add.
  selected,             ///< Like `gathered`, with the index along the result's axis: index_select.
  selected_backward,    ///< Like `gathered_backward`, with the index along the axis: index_add.
  /// x is read element by element, index and updates are read whole along the axis: scatter.
  scattered_updates,
  top,        ///< The axis of TopkAttributes is read whole and becomes shorter.
  attention,  ///< Heads side by side; a query reads all keys of its group's head.
  attention_backward,
};

enum class AttributeType : std::uint8_t { f64, i64, u64, i32, u32, u8, pointer, time };
[[nodiscard]] constexpr std::uint16_t size_bytes(AttributeType type) noexcept {
  switch (type) {
    case AttributeType::u8:
      return 1;
    case AttributeType::i32:
    case AttributeType::u32:
      return 4;
    default:
      return 8;
  }
}

/// Treatment of an attribute when ops of two programs are compared.
enum class AttributeRole : std::uint8_t {
  scalar,   ///< A number used in the computation: a parameter of the kernel, never part of its key.
  axis,     ///< Names axes: part of the key.
  extent,   ///< A size, position or step along an axis: belongs to the shapes.
  choice,   ///< Selects the computation: part of the key.
  counter,  ///< Changes in each step (seeds, Philox counters, Adam's step): a parameter.
  ticket,   ///< Belongs to this one record.
};

/// One member of a kind's struct in op_attributes.hpp.
struct AttributeField {
  std::string_view name;
  std::uint16_t offset_bytes;
  std::uint8_t count;  ///< Entries of an array; else 1.
  AttributeType type;
  AttributeRole role;

  [[nodiscard]] constexpr std::uint16_t size_bytes() const noexcept {
    return static_cast<std::uint16_t>(hearth::size_bytes(type) * count);
  }
};

/// Time of the op per element of its result (per flop for a contraction), in f32 additions, without
/// waiting for memory. Decides whether recomputing is cheaper than storing.
struct ArithmeticWeight {
  float host;  ///< Vector units of a CPU.
  float gpu;   ///< Lanes of a GPU; its built-in functions are not exact enough.
};

struct OpFacts {
  OpKind kind;
  FusionClass fusion;
  IndexRule index_rule;
  /// Element types with which the op can fail at run time because of its data.
  DtypeMask may_fail;
  ArithmeticWeight weight;
  std::span<const AttributeField> attributes;  ///< In the order of the struct.
};

[[nodiscard]] const OpFacts& op_facts(OpKind kind) noexcept;
/// Returns whether the op can fail because of its data, for this element type of its values.
[[nodiscard]] inline bool may_fail(OpKind kind, DType dtype) noexcept {
  return (op_facts(kind).may_fail & dtype_bit(dtype)) != 0;
}

}  // namespace hearth
