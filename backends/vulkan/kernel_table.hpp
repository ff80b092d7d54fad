// Which kernel runs which kind of op: a row for each, filled by the files of kernels/. Threads:
// any.
#pragma once

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/op_kind.hpp>

#include "kernel_encoder.hpp"

namespace hearth::vulkan {

struct KernelRow {
  /// Encodes a call. Every operand has elements, or the kernel does what is right without. Null: no
  /// kernel for this kind.
  Status (*encode)(const KernelCall& call, KernelEncoder& encoder) = nullptr;
  /// Whether it can run with these layouts and types; null: with all of the op table.
  Support (*supports)(const KernelCall& call, const DeviceLimits& limits) = nullptr;
  /// Whether output 0 may be written over input `index`; null: never.
  bool (*may_alias)(OpKind kind, int index) noexcept = nullptr;
  bool takes_epilogue = false;  ///< If `supports` says so of the call.
};

[[nodiscard]] const KernelRow& kernel_row(OpKind kind) noexcept;
/// Whether the kernel of its kind, if there is one, can run the call.
[[nodiscard]] Support supports_kernel(const KernelCall& call, const DeviceLimits& limits);

}  // namespace hearth::vulkan
