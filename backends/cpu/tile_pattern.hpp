// Expressions for which the CPU has one loop: where a kernel contains one, its program runs that
// loop in place of several. What is recognised comes from op_expression, so that it is what an op
// means and nothing else. Private to backends/cpu. Threads: any; patterns are constants once made.
#pragma once

#include "tile_program.hpp"

#include <hearth/backends/cpu/isa.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

#include <optional>
#include <vector>

namespace hearth::cpu {

struct TilePattern {
  std::vector<KernelNode> body = {};
  std::vector<std::int32_t> roots = {};  ///< In body: the result, then others that it is made of.
  std::size_t input_count = 0;           ///< Leaves that stand for any value of their type.
  std::size_t parameter_count = 0;       ///< Leaves that stand for any value that is a cell.
  TileInstruction instruction = {};      ///< Its operands are the inputs, then the parameters.
};

/// The patterns for an instruction set; a larger one stands before those that it contains.
[[nodiscard]] std::vector<TilePattern> tile_patterns(IsaLevel isa);

/// The nodes of a kernel's body that an instance of a pattern consists of.
struct TileMatch {
  std::vector<std::int32_t> operands = {};  ///< For the pattern's inputs, then parameters.
  std::vector<std::int32_t> results = {};   ///< For its roots.
};
/// The instance whose first result is the value of `node`. Nodes before it use no other result of
/// the instance, but for its own. is_cell: by node.
[[nodiscard]] std::optional<TileMatch> match(const TilePattern& pattern,
                                             const KernelIR& kernel,
                                             std::int32_t node,
                                             const std::vector<bool>& is_cell);

}  // namespace hearth::cpu
