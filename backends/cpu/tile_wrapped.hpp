// Finds functions with what stands around them in a kernel, for which wrapped_loops has one loop.
// Private to backends/cpu. Threads: any; pure functions.
#pragma once

#include "tile_program.hpp"

#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_kind.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace hearth::cpu {

/// Nodes of a kernel's body.
struct WrappedMatch {
  OpKind function = OpKind::exp;
  std::int32_t function_node = kNoNode;
  WrappedParts parts = {};
  std::vector<std::int32_t> operands = {};  ///< As TileStep::wrapped takes them.
};

/// The chain that ends in `node`, all of whose inner values nothing else needs; none if it is the
/// function alone. is_cell, use_count: by node.
[[nodiscard]] std::optional<WrappedMatch> match_wrapped(const KernelIR& kernel,
                                                        std::int32_t node,
                                                        const std::vector<bool>& is_cell,
                                                        const std::vector<int>& use_count);

}  // namespace hearth::cpu
