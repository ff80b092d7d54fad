// Expressions for which the CPU has one loop: if a kernel contains one, its program runs that loop
// instead of several. The patterns come from op_expression, so they match exactly what an op means.
// Private to backends/cpu. Threads: any; patterns are constants.
#pragma once

#include "tile_program.hpp"

#include <hearth/backends/cpu/isa.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

#include <optional>
#include <vector>

namespace hearth::cpu {

struct TilePattern {
  std::vector<KernelNode> body = {};
  std::vector<std::int32_t> roots = {};  ///< Nodes of the body: the result, then other results.
  std::size_t input_count = 0;           ///< Leaves that match any value of their type.
  std::size_t parameter_count = 0;       ///< Leaves that match any cell.
  TileInstruction instruction = {};      ///< Its operands are the inputs, then the parameters.
};

/// Returns the patterns for an instruction set; a larger pattern precedes those that it contains.
[[nodiscard]] std::vector<TilePattern> tile_patterns(IsaLevel isa);

/// An instance of a pattern: the matched nodes of a kernel's body.
struct TileMatch {
  std::vector<std::int32_t> operands = {};  ///< For the pattern's inputs, then parameters.
  std::vector<std::int32_t> results = {};   ///< For its roots.
};
/// Returns the instance whose first result is the value of `node`. No node before `node` outside
/// the instance uses another result of it. is_cell: by node.
[[nodiscard]] std::optional<TileMatch> match(const TilePattern& pattern,
                                             const KernelIR& kernel,
                                             std::int32_t node,
                                             const std::vector<bool>& is_cell);

}  // namespace hearth::cpu
