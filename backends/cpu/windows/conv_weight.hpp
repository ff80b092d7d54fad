// The gradient of a convolution's weights: sums over all pixels of all images.
// Threads: owner only; forks in the arena.
// Invariant: images are summed in blocks that depend on sizes alone, and the blocks are joined in
// order.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/streams/op_attributes.hpp>

namespace hearth::cpu {

/// Computes the weight gradient from x and grad.
[[nodiscard]] Status run_conv_backward_weight(const TensorView& x,
                                              const TensorView& grad,
                                              const TensorView& weight,
                                              const ConvAttributes& attributes,
                                              KernelContext& context);

}  // namespace hearth::cpu
