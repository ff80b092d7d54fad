// What planners need to know of a kind beside its row in the op table: how it fuses, how its
// indices go together, what each attribute means, whether it can fail while it runs, and how hard
// its arithmetic is. A table of its own, so that the rows which every submitted op reads stay
// small. Read-only data. Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <hearth/streams/op_table.hpp>

namespace hearth {

/// What a kind is to the planner of fused groups.
enum class FusionClass : std::uint8_t {
  none,         ///< No kernel, and no end of a group either: a drop.
  view,         ///< Another layout of the same bytes; folds into the index maps of what reads it.
  fill,         ///< Made of nothing but an index: fill, arange, random numbers.
  elementwise,  ///< Each element of a result follows from one element of each input.
  reduce,       ///< One result for many elements along some axes.
  row,          ///< A line in, the same line out, with reductions in between: softmax.
  contraction,
  conv,
  pool,
  scan,    ///< Each element follows from all before it, or from all behind it: cumsum.
  gather,  ///< Elements go to other places: concat, slice_scatter, by index.
  attention,
  opaque,   ///< A kernel of the program's own: nothing is known of it.
  barrier,  ///< Ends every group: a record that others wait for, or that changes what holds.
};

/// Which axis of an input is which axis of a result. index_map() (index_map.hpp) reads a rule with
/// the operands of one op and gives the map.
enum class IndexRule : std::uint8_t {
  none,          ///< No input, or no kernel.
  elementwise,   ///< Axes from the right; size 1 repeats (numpy broadcasting).
  row_major,     ///< The same place in row-major order: reshape.
  permuted,      ///< By PermuteAttributes.
  sliced,        ///< By SliceAttributes.
  scattered,     ///< The inverse of sliced.
  concatenated,  ///< The inputs one after another along the axis of AxisAttributes.
  reduced,       ///< The axes in the mask of ReduceAttributes are read whole.
  reduced_axis,  ///< The axis of AxisAttributes is read whole and goes: argmax, argmin.
  row,           ///< The axis of AxisAttributes is read whole and stays: softmax.
  row_of_first,  ///< So for the first input; the second is read element by element.
  scanned,       ///< The axis of ScanAttributes is read up to the element, or from it on: cumsum.
  matmul,
  conv2d,
  conv2d_backward_input,
  conv2d_backward_weight,
  window,               ///< Windows over height and width: pools.
  window_backward,      ///< The windows that an element lies in: the gradient of a mean.
  plane_backward,       ///< Any place of the plane: positions are data.
  class_loss,           ///< (logits [n, c], targets [n]) to losses [n], probabilities [n, c].
  class_loss_backward,  ///< (grad [n], probabilities [n, c], targets [n]) to [n, c].
  gathered,             ///< The axis is read whole, for places are data: gather.
  gathered_backward,    ///< Source and index alike, both whole along the axis: scatter_add.
  selected,             ///< As gathered; the index is the result's axis: index_select.
  selected_backward,    ///< As gathered_backward, with the index along the axis: index_add.
  top,                  ///< The axis of TopkAttributes is read whole, and goes on shorter.
  attention,            ///< Heads side by side; queries meet all keys of their group's head.
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

/// What becomes of an attribute when ops of one program are compared with those of another.
enum class AttributeRole : std::uint8_t {
  scalar,   ///< A number that is computed with: a parameter of the kernel, never part of its key.
  axis,     ///< Names axes: part of the key.
  extent,   ///< A size, place or step along an axis: goes with the shapes.
  choice,   ///< Chooses what is computed: part of the key.
  counter,  ///< Moves on from one step to the next (seeds, Philox counters, Adam's step): a
            ///< parameter.
  ticket,   ///< Belongs to this one record.
};

/// One member of a kind's struct in op_attributes.hpp.
struct AttributeField {
  std::string_view name;
  std::uint16_t offset_bytes;
  std::uint8_t count;  ///< Entries, when it is an array; else 1.
  AttributeType type;
  AttributeRole role;

  [[nodiscard]] constexpr std::uint16_t size_bytes() const noexcept {
    return static_cast<std::uint16_t>(hearth::size_bytes(type) * count);
  }
};

/// How long the op takes for one element of its result, a contraction for one flop, in f32
/// additions, where nothing waits for memory: what decides whether recomputing beats keeping.
struct ArithmeticWeight {
  float host;  ///< Vector units of a CPU.
  float gpu;   ///< Lanes of a GPU, whose own functions are not exact enough.
};

struct OpFacts {
  OpKind kind;
  FusionClass fusion;
  IndexRule index_rule;
  /// The element types with which it can fail while it runs, for what is in the data.
  DtypeMask may_fail;
  ArithmeticWeight weight;
  std::span<const AttributeField> attributes;  ///< In the order of the struct.
};

[[nodiscard]] const OpFacts& op_facts(OpKind kind) noexcept;
/// Whether the op can fail for what is in its data, given the element type of its values.
[[nodiscard]] inline bool may_fail(OpKind kind, DType dtype) noexcept {
  return (op_facts(kind).may_fail & dtype_bit(dtype)) != 0;
}

}  // namespace hearth
