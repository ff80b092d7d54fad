// Finds functions and the ops around them in a kernel that wrapped_loops computes in one loop.
// Private to backends/cpu. Threads: any; pure functions.
#pragma once

#include "tile_program.hpp"

#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_kind.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace hearth::cpu {

/// The matched nodes of a kernel's body.
struct WrappedMatch {
  OpKind function = OpKind::exp;
  std::int32_t function_node = kNoNode;
  WrappedParts parts = {};
  std::vector<std::int32_t> operands = {};  ///< In the order of TileStep::wrapped.
};

/// Returns the chain that ends in `node`, whose inner values have no other user; nullopt for the
/// function alone. is_cell, use_count: by node.
[[nodiscard]] std::optional<WrappedMatch> match_wrapped(const KernelIR& kernel,
                                                        std::int32_t node,
                                                        const std::vector<bool>& is_cell,
                                                        const std::vector<int>& use_count);

}  // namespace hearth::cpu
