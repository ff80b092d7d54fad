#include "call_key.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15U;

using detail::OperandClass;
using detail::OperandForm;
using detail::TuneKey;

constexpr std::int64_t kPowerFrom = 4096;  // bytes of a row stride that may share cache banks

bool is_transposed(const TensorView& view) noexcept {
  const int rank = view.shape().rank();
  if (rank < 2) {
    return false;
  }
  const auto last = static_cast<std::size_t>(rank - 1);
  std::int64_t step = view.shape()[rank - 1] * view.shape()[rank - 2];
  for (int axis = rank - 3; axis >= 0; --axis) {
    if (view.strides()[static_cast<std::size_t>(axis)] != step) {
      return false;
    }
    step *= view.shape()[axis];
  }
  return view.strides()[last - 1] == 1 && view.strides()[last] == view.shape()[rank - 2];
}

OperandForm form_of(const TensorView& view) noexcept {
  if (view.layout->contiguous) {
    return OperandForm::contiguous;
  }
  if (is_transposed(view)) {
    return OperandForm::transposed;
  }
  for (int axis = 0; axis < view.shape().rank(); ++axis) {
    if (view.strides()[static_cast<std::size_t>(axis)] == 0 && view.shape()[axis] > 1) {
      return OperandForm::broadcast;
    }
  }
  return OperandForm::strided;
}

OperandClass class_of(const TensorView& view) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  std::int64_t row_bytes = 0;
  for (int axis = std::max(view.shape().rank() - 2, 0); axis < view.shape().rank(); ++axis) {
    row_bytes = std::max(row_bytes, std::abs(view.strides()[static_cast<std::size_t>(axis)]));
  }
  row_bytes *= size_bytes(view.dtype);
  return {.form = form_of(view),
          .alignment_bytes = (address & 63U) == 0   ? 64
                             : (address & 31U) == 0 ? 32
                                                    : 16,
          .has_power_of_two_stride = row_bytes >= kPowerFrom &&
                                     std::has_single_bit(static_cast<std::uint64_t>(row_bytes))};
}

/// Returns the facts of one operand beside its shape: strides unless contiguous, and alignment.
std::uint64_t layout_traits(const TensorView& view) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  std::uint64_t hash = (address & 63U) == 0 ? 3U : (address & 31U) == 0 ? 2U : 1U;
  if (!view.layout->contiguous) {
    for (int axis = 0; axis < view.shape().rank(); ++axis) {
      hash = (std::rotl(hash, 7) ^
              static_cast<std::uint64_t>(view.strides()[static_cast<std::size_t>(axis)])) *
             kFactor;
    }
  }
  return hash;
}

/// Returns a number of the exact strides, where the form does not determine them.
std::uint32_t strides_of(const TensorView& view, OperandForm form) noexcept {
  return form == OperandForm::strided || form == OperandForm::broadcast
             ? static_cast<std::uint32_t>(layout_traits(view) >> 32U)
             : 0U;
}

// Sizes: those of the result, 1 for missing axes in front, then the depth.
void add_product(TuneKey& key, const KernelCall& call) noexcept {
  constexpr int kAxes = 7;
  const Shape& result = call.outputs[0].shape();
  key.family = detail::TuneFamily::product;
  key.sizes.fill(1);
  for (int i = 0; i < std::min(result.rank(), kAxes); ++i) {
    key.sizes[static_cast<std::size_t>(kAxes - 1 - i)] = result[result.rank() - 1 - i];
  }
  key.sizes[kAxes] = call.inputs[0].shape()[call.inputs[0].shape().rank() - 1];
  key.attributes[0] = static_cast<std::uint32_t>(result.rank());
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    key.attributes[1 + i] = strides_of(call.inputs[i], form_of(call.inputs[i]));
    // An operand with fewer axes is the same matrix for all products.
    key.attributes[4] |= static_cast<std::uint32_t>(call.inputs[i].shape().rank()) << (8U * i);
  }
}

// Sizes: images, rows and columns of the result, then the weights' four sizes, then the groups.
// The result's channels follow from the weights.
void add_convolution(TuneKey& key, const KernelCall& call) noexcept {
  const auto attributes = call.op.attributes<ConvAttributes>();
  const Shape& result = call.outputs[0].shape();
  const Shape& weights = call.inputs[1].shape();
  key.family = detail::TuneFamily::convolution;
  key.sizes = {result[0],
               result[2],
               result[3],
               weights[0],
               weights[1],
               weights[2],
               weights[3],
               attributes.groups};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    key.attributes[axis] = static_cast<std::uint32_t>(attributes.stride[axis]);
    key.attributes[2 + axis] = static_cast<std::uint32_t>(attributes.padding[axis]);
    key.attributes[4 + axis] = static_cast<std::uint32_t>(attributes.dilation[axis]);
  }
  // The first input's size, which the stride rounds, and exact strides.
  key.attributes[6] =
      static_cast<std::uint32_t>(call.inputs[0].shape()[2] * 65'537 + call.inputs[0].shape()[3]);
  for (const TensorView& input : call.inputs) {
    key.attributes[6] = std::rotl(key.attributes[6], 5) ^ strides_of(input, form_of(input));
  }
}

}  // namespace

std::uint64_t detail::unusual_layouts(const KernelCall& call) noexcept {
  std::uint64_t hash = layout_traits(call.outputs[0]);
  for (const TensorView& input : call.inputs) {
    hash = std::rotl(hash, 21) ^ layout_traits(input);
  }
  return hash * kFactor;
}

// Usual attributes fit in their bytes, so that different ones have different numbers.
std::uint64_t detail::conv_traits(const OpView& op) noexcept {
  constexpr unsigned kBits = 8;
  const auto attributes = op.attributes<ConvAttributes>();
  const auto groups = static_cast<std::uint64_t>(attributes.groups);
  std::uint64_t packed = groups << 48U;
  std::uint64_t hash = groups;
  std::uint64_t all = groups >> kBits;
  unsigned place = 0;
  for (const auto& pair : {attributes.stride, attributes.padding, attributes.dilation}) {
    for (const std::int64_t each : pair) {
      const auto value = static_cast<std::uint64_t>(each);
      packed |= value << place;
      all |= value;
      hash = (std::rotl(hash, 7) ^ value) * kFactor;
      place += kBits;
    }
  }
  return all >> kBits == 0 ? packed : hash;
}

TuneKey key_of(const KernelCall& call, int core_count) noexcept {
  TuneKey key{.kind = detail::kind_number(op_info(call.op.kind()).name),
              .cores = static_cast<std::uint16_t>(core_count),
              .input = call.inputs[0].dtype,
              .accumulator = call.inputs[0].dtype == DType::f64 ? DType::f64 : DType::f32,
              .output = call.outputs[0].dtype};
  if (call.op.kind() == OpKind::matmul) {
    add_product(key, call);
  } else {
    add_convolution(key, call);
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    key.operands[i] = class_of(call.inputs[i]).packed();
  }
  key.operands[call.inputs.size()] = class_of(call.outputs[0]).packed();
  return key;
}

}  // namespace hearth
