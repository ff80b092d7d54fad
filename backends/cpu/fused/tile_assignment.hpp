// Assigns the values of a tile program to tiles, so that few tiles hold many values. Private to
// backends/cpu. A pure free function. Invariant: no tile is overwritten while a later instruction
// reads it, nor if it belongs to an output.
#pragma once

#include "tile_program.hpp"

#include <hearth/runtime/base/result.hpp>

#include <cstddef>
#include <functional>

namespace hearth::cpu {

/// Whether an instruction may overwrite this operand with its result, if the operand ends there.
using MayOverwrite = std::function<bool(const TileInstruction& instruction, std::size_t operand)>;

/// Assigns tiles to the values of the body, and sets TileOutput::read_after. Before the call, a
/// value's number is first_tile() plus its place in definition order; afterwards it is its tile's
/// number.
/// Errors: unsupported if that takes more values than a program holds.
[[nodiscard]] Status assign_tiles(TileProgram& program, const MayOverwrite& may_overwrite);

}  // namespace hearth::cpu
