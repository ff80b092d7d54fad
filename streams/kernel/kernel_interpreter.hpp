// Runs a KernelIR element by element: the meaning that every printer and every fused loop is held
// against. In plain loops, for tests and not for speed; numerics.md says how it rounds. Threads:
// any; the caller keeps the bytes alive and to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth {

/// An operand: where its element [0, 0, …] lies, and how. Its element type is that of the kernel.
struct KernelTensor {
  std::byte* data = nullptr;
  detail::Layout layout = {};
};

struct KernelArguments {
  std::span<const std::int64_t> extents = {};  ///< One for each symbol.
  std::span<const KernelTensor> inputs = {};
  std::span<const KernelTensor> outputs = {};
  std::span<const ScalarAttributes> parameters = {};
};

/// Requires a kernel that verify() takes. All inputs are read before the first store, so operands
/// may share bytes in any way, and a failure leaves the outputs as they were. Errors:
/// invalid_argument for arguments that do not fit: their number, an index outside an operand, an
/// output of another shape; kernel_failed for an integer divided by 0 and 0 to a negative integer
/// power, with node, place and values.
[[nodiscard]] Status interpret(const KernelIR& kernel, const KernelArguments& arguments);

}  // namespace hearth
