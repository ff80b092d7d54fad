// The gradient of the weights of convolutions with few channels a group, such as depthwise ones: a
// dot product along rows for each weight. Threads: owner only; forks in the arena.
// Invariant: a weight's sum runs over images and rows in order, in parts that depend on sizes and
// the instruction set alone; the parts are added in f64.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/streams/op_attributes.hpp>

namespace hearth::cpu {

/// Whether groups of this weight [outputs, inputs of a group, rows, columns] are so small.
[[nodiscard]] bool has_few_channels(const Shape& weight, std::int64_t groups) noexcept;

/// Computes the weight gradient from x and grad. Requires has_few_channels().
[[nodiscard]] Status run_window_backward_weight(const TensorView& x,
                                                const TensorView& grad,
                                                const TensorView& weight,
                                                const ConvAttributes& attributes,
                                                KernelContext& context);

}  // namespace hearth::cpu
