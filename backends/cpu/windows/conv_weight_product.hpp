// The gradient of the weights of 1 x 1 convolutions on small planes, as one product over the pixels
// of all images. Threads: owner only; forks in the arena.
// Invariant: that of products. A sum runs over images and pixels in order.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/streams/op_attributes.hpp>

namespace hearth::cpu {

/// Whether the gradient of these weights is such a product.
[[nodiscard]] bool is_weight_product(const TensorView& x,
                                     const TensorView& grad,
                                     const TensorView& weight,
                                     const ConvAttributes& attributes) noexcept;

/// Computes the weight gradient from x and grad. Requires is_weight_product().
[[nodiscard]] Status run_weight_product(const TensorView& x,
                                        const TensorView& grad,
                                        const TensorView& weight,
                                        KernelContext& context);

}  // namespace hearth::cpu
