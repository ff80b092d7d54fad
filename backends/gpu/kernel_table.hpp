// Table of the kernels by kind of op. The files of the rooms fill one row each. Threads: any.
#pragma once

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/op_kind.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

struct KernelRow {
  /// Encodes a call. Operands have elements, unless the kernel handles empty ones. Null: no kernel
  /// for this kind.
  Status (*encode)(const KernelCall& call, KernelEncoder& encoder) = nullptr;
  /// Returns whether the kernel can run these layouts and types; null: all of the op table.
  Support (*supports)(const KernelCall& call, const DeviceLimits& limits) = nullptr;
  /// Returns whether output 0 may overwrite input `index`; null: never.
  bool (*may_alias)(OpKind kind, int index) noexcept = nullptr;
  bool takes_epilogue = false;  ///< Accepts an epilogue, if `supports` accepts the call.
};

[[nodiscard]] const KernelRow& kernel_row(OpKind kind) noexcept;
/// Returns whether the kind has a kernel that can run the call.
[[nodiscard]] Support supports_kernel(const KernelCall& call, const DeviceLimits& limits);

}  // namespace hearth::gpu
