// Runs a KernelIR element by element: the reference for every printer and every fused loop. Plain
// loops, for tests and not for speed; numerics.md defines its rounding. Threads: any; the caller
// keeps the bytes alive and unshared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth {

/// An operand: address of its element [0, 0, …], and its layout. Its element type is that of the
/// kernel.
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

/// Runs the kernel, which must pass verify(). All inputs are read before the first store, so
/// operands may overlap in any way, and a failure leaves the outputs unchanged.
///
/// Errors: invalid_argument for a wrong number of arguments, an index outside an operand, or an
/// output of another shape; kernel_failed for an integer divided by 0 and 0 to a negative integer
/// power, with node, position and values.
[[nodiscard]] Status interpret(const KernelIR& kernel, const KernelArguments& arguments);

}  // namespace hearth
