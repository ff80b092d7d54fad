// Which tile holds each value of a tile program, so that few tiles serve many values. Private to
// backends/cpu. A free function; pure. Invariant: no tile is written over while an instruction
// still reads it, nor when it is an output's.
#pragma once

#include "tile_program.hpp"

#include <hearth/runtime/base/result.hpp>

#include <cstddef>
#include <functional>

namespace hearth::cpu {

/// Whether an instruction may write its result over this operand, when that ends with it.
using MayOverwrite = std::function<bool(const TileInstruction& instruction, std::size_t operand)>;

/// Gives the values of the body tiles, and says of each output which inputs are read behind it.
/// Before, a value's number is first_tile() and its place in the order of making; afterwards it is
/// that of its tile.
/// Errors: unsupported when that takes more values than a program holds.
[[nodiscard]] Status assign_tiles(TileProgram& program, const MayOverwrite& may_overwrite);

}  // namespace hearth::cpu
