// Products that a library of the device's maker computes, as cuBLASLt does. Threads: an encoder's.
#pragma once

#include <hearth/runtime/base/result.hpp>

#include "matrix_product.hpp"
#include "product_result.hpp"

namespace hearth::gpu {

/// True if a library takes the product, without an epilogue, in less time than a kernel. Its rows
/// are joined.
[[nodiscard]] bool is_for_library(const MatrixProduct& p, const DeviceLimits& limits) noexcept;

/// Encodes the product as a call of a library if that takes less time than a kernel. Returns false
/// if there is no library, or if the product has an epilogue or strides that libraries do not take.
///
/// Errors: those of the encoder.
[[nodiscard]] Result<bool> encode_by_library(const MatrixProduct& product,
                                             const ProductResult& result,
                                             const KernelCall& call,
                                             KernelEncoder& encoder);

}  // namespace hearth::gpu
