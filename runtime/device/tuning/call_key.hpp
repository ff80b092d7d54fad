// The facts of a call by which picks are kept. Traits are read from the record at each launch.
// Results are stored under the key. Private to runtime. Pure functions. Threads: any.
#pragma once

#include <hearth/autotune/pick_table.hpp>
#include <hearth/autotune/tune_key.hpp>
#include <hearth/backends/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hearth/streams/op_attributes.hpp>

namespace hearth {

/// Whether calls of this kind may have candidates.
[[nodiscard]] constexpr bool may_be_picked(OpKind kind) noexcept {
  return kind == OpKind::matmul || kind == OpKind::conv2d || kind == OpKind::conv2d_backward_input;
}

namespace detail {

/// Returns a number of all layouts and alignments of a call, of which one is unusual.
[[nodiscard]] std::uint64_t unusual_layouts(const KernelCall& call) noexcept;
/// Returns a number of the attributes of a convolution.
[[nodiscard]] std::uint64_t conv_traits(const OpView& op) noexcept;

/// Calls `each` with the inputs, of which kinds that may_be_picked() have two or three.
template <class Each>
void for_inputs(const KernelCall& call, const Each& each) {
  each(call.inputs[0]);
  each(call.inputs[1]);
  if (call.inputs.size() > 2) {
    each(call.inputs[2]);
  }
}

/// Returns 0 if all operands are contiguous from the start of a cache line.
[[nodiscard]] inline std::uint64_t layouts_of(const KernelCall& call) noexcept {
  constexpr std::uintptr_t kInLine = 63;
  const TensorView& result = call.outputs[0];
  auto addresses = reinterpret_cast<std::uintptr_t>(result.data);
  bool are_contiguous = result.layout->contiguous;
  for_inputs(call, [&](const TensorView& view) {
    addresses |= reinterpret_cast<std::uintptr_t>(view.data);
    are_contiguous &= view.layout->contiguous;
  });
  return are_contiguous && (addresses & kInLine) == 0 ? 0 : unusual_layouts(call);
}

/// Returns the shape and the dtype of an operand, as they lie in its record.
[[nodiscard]] inline std::uint64_t operand_traits(const Operand& operand) noexcept {
  constexpr std::uint64_t kShapeAndDtype = 0xFF'FFFF'FFFFU;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, &operand.shape, sizeof(bytes));
  return bytes & kShapeAndDtype;
}
static_assert(offsetof(Operand, dtype) == offsetof(Operand, shape) + 4 &&
              offsetof(Operand, shape) + 8 == sizeof(Operand));

}  // namespace detail

/// Whether kernels may keep forms of an input, such as packed weights. The call's kind
/// may_be_picked().
[[nodiscard]] inline bool has_constant(const KernelCall& call) noexcept {
  std::uintptr_t constants = 0;
  detail::for_inputs(call, [&](const TensorView& view) {
    constants |= reinterpret_cast<std::uintptr_t>(view.constant);
  });
  return constants != 0;
}

/// Returns the traits of a call without constants, whose kind may_be_picked(): it has two or three
/// inputs and one output. Their shapes are those of its record.
///
/// Cost: some 40 instructions; 60 more with a transposed operand, or for a convolution.
[[nodiscard]] inline detail::PickTraits traits_of(const KernelCall& call) noexcept {
  const OpRecord& record = call.op.record();
  detail::PickTraits traits{.operands = {detail::operand_traits(record.operands[0]),
                                         detail::operand_traits(record.operands[1]),
                                         detail::operand_traits(record.operands[2])},
                            .layouts = detail::layouts_of(call)};
  std::memcpy(&traits.header, &record, sizeof(traits.header));  // kind, flags and counts
  if (record.kind != OpKind::matmul) [[unlikely]] {
    traits.layouts ^= detail::conv_traits(call.op);
  }
  return traits;
}
static_assert(offsetof(OpRecord, output_count) == 6 && offsetof(OpRecord, sequence) == 8);

/// Returns the key of a call whose kind may_be_picked().
[[nodiscard]] detail::TuneKey key_of(const KernelCall& call, int core_count) noexcept;

}  // namespace hearth
