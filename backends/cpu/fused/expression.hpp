// Runs elementwise kernels in KernelIR on the cores of a device: on one set of operands, or on many
// in one launch. Private to backends/cpu. Threads: owner only; the work forks and joins inside.
// Invariants: (1) an f32 or f64 result has the bits of the separate ops; (2) work is cut by sizes
// alone; (3) nothing is stored if an integer result is undefined; (4) nothing is allocated once a
// kernel's program exists.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <cstdint>
#include <span>

namespace hearth::cpu {

struct TileProgram;

/// One set of operands. Outputs are contiguous. An output may have exactly the bytes of an input of
/// its type that is read in place (contiguous, of the output's shape). No two outputs share bytes,
/// and no operand overlaps an output otherwise.
struct ExpressionCall {
  std::span<const TensorView> inputs = {};
  std::span<const TensorView> outputs = {};
  std::span<const ScalarAttributes> parameters = {};  ///< Values of the kernel's parameters.
  int row_axes = 0;  ///< Row kernels: number of trailing axes that form a row.
  /// Results go to a core's cached memory, piece by piece: no store bypasses the caches.
  bool stays_cached = false;
};

/// Runs a kernel on each of the sets. Requires a kernel that passes verify(); `hash` is its hash,
/// the key of the cached program.
///
/// A kernel of one axis along which all operands lie is pointwise. Its operands may have any shapes
/// that broadcast to the output's, and its position is the row-major place in the output. Operands
/// of other kernels follow their maps.
///
/// Errors: unsupported if the kernel has no tile program; invalid_argument for a wrong number of
/// operands or parameters; kernel_failed for an integer divided by 0 and 0 to a negative integer
/// power, with node, place and values.
[[nodiscard]] Status run_expression(const KernelIR& kernel,
                                    std::uint64_t hash,
                                    std::span<const ExpressionCall> calls,
                                    KernelContext& context);

/// Runs a program directly.
[[nodiscard]] Status run_program(const TileProgram& program,
                                 std::span<const ExpressionCall> calls,
                                 KernelContext& context);

}  // namespace hearth::cpu
