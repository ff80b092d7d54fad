// Runs elementwise kernels, as their KernelIR says, on the cores of a device: on one set of
// operands, or on many in one launch. Private to backends/cpu. Threads: owner only; the work forks
// and joins inside. Invariants: (1) an f32 or f64 result has the bits that its ops give when they
// run singly; (2) work is cut by sizes alone; (3) nothing is stored when an integer has no answer;
// (4) nothing is allocated once a kernel's program is made.
#pragma once

#include "kernel_table.hpp"

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <cstdint>
#include <span>

namespace hearth::cpu {

struct TileProgram;

/// One set of operands. Outputs are contiguous. An output may have exactly the bytes of an input of
/// its type that is read where it lies (contiguous, of the output's shape); no two outputs share
/// bytes, and no operand overlaps an output otherwise.
struct ExpressionCall {
  std::span<const TensorView> inputs = {};
  std::span<const TensorView> outputs = {};
  std::span<const ScalarAttributes> parameters = {};  ///< As interpret() takes them.
  int row_axes = 0;  ///< Of a row kernel: how many of the last axes are a row.
  /// Results go to memory near the core, piece by piece: none is written past the caches.
  bool stays_near = false;
};

/// Runs a kernel on each of the sets. Requires that verify() takes the kernel; `hash` is its hash,
/// by which its program is kept.
///
/// A kernel of one axis along which all operands lie is pointwise: its operands may have any shapes
/// that broadcast to the output's, and its position is the row-major place there. Operands of other
/// kernels are as their maps say.
/// Errors: unsupported where the kernel has no tile program; invalid_argument for another number of
/// operands or parameters than the kernel has; kernel_failed for an integer divided by 0 and 0 to a
/// negative integer power, with node, place and values.
[[nodiscard]] Status run_expression(const KernelIR& kernel,
                                    std::uint64_t hash,
                                    std::span<const ExpressionCall> calls,
                                    KernelContext& context);

/// The same, by the kernel's program.
[[nodiscard]] Status run_program(const TileProgram& program,
                                 std::span<const ExpressionCall> calls,
                                 KernelContext& context);

}  // namespace hearth::cpu
