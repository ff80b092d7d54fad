// The facts of a call by which picks are kept. Traits are read from the record at each launch.
// Results are stored under the key. Private to runtime. Pure functions. Threads: any.
#pragma once

#include <hearth/autotune/pick_table.hpp>
#include <hearth/autotune/tune_key.hpp>
#include <hearth/backends/kernel.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

#include <hearth/streams/op_attributes.hpp>

namespace hearth {

/// Whether calls of this kind may have candidates.
[[nodiscard]] constexpr bool may_be_picked(OpKind kind) noexcept {
  return kind == OpKind::matmul || kind == OpKind::conv2d || kind == OpKind::conv2d_backward_input;
}

namespace detail {

/// Returns the facts of one operand beside its shape: strides unless contiguous, alignment, and
/// whether kernels may keep forms of it.
[[nodiscard]] inline std::uint64_t layout_traits(const TensorView& view) noexcept {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15U;
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  std::uint64_t hash = (address & 63U) == 0 ? 3U : (address & 31U) == 0 ? 2U : 1U;
  hash |= view.constant != nullptr ? 4U : 0U;
  if (!view.layout->contiguous) [[unlikely]] {
    for (int axis = 0; axis < view.shape().rank(); ++axis) {
      hash = (std::rotl(hash, 7) ^
              static_cast<std::uint64_t>(view.strides()[static_cast<std::size_t>(axis)])) *
             kFactor;
    }
  }
  return hash;
}

/// Returns a number of the attributes of a convolution.
[[nodiscard]] inline std::uint64_t conv_traits(const OpView& op) noexcept {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15U;
  const auto attributes = op.attributes<ConvAttributes>();
  std::uint64_t hash = static_cast<std::uint64_t>(attributes.groups);
  for (const std::size_t axis : {0U, 1U}) {
    for (const std::int64_t value :
         {attributes.stride[axis], attributes.padding[axis], attributes.dilation[axis]}) {
      hash = (std::rotl(hash, 7) ^ static_cast<std::uint64_t>(value)) * kFactor;
    }
  }
  return hash;
}

}  // namespace detail

/// Returns the traits of a call of at most three inputs; its record holds the shapes.
///
/// Cost: 3 ns; 5 ns with a transposed operand, 10 ns for a convolution.
[[nodiscard]] inline detail::PickTraits traits_of(const KernelCall& call) noexcept {
  const OpRecord& record = call.op.record();
  detail::PickTraits traits{.header = static_cast<std::uint64_t>(record.kind) |
                                      std::uint64_t{record.flags} << 16U |
                                      std::uint64_t{record.input_count} << 32U};
  for (std::size_t i = 0; i < call.inputs.size() && i < traits.operands.size(); ++i) {
    const Operand& operand = record.operands[i];
    traits.operands[i] =
        std::uint64_t{operand.shape.value} << 8U | static_cast<std::uint64_t>(operand.dtype);
    traits.layouts = std::rotl(traits.layouts, 21) ^ detail::layout_traits(call.inputs[i]);
  }
  traits.layouts = std::rotl(traits.layouts, 21) ^ detail::layout_traits(call.outputs[0]);
  if (record.kind != OpKind::matmul) [[unlikely]] {
    traits.layouts ^= detail::conv_traits(call.op);
  }
  return traits;
}

/// Returns the key of a call whose kind may_be_picked().
[[nodiscard]] detail::TuneKey key_of(const KernelCall& call, int core_count) noexcept;

}  // namespace hearth
