// A kernel compiled for the CPU: instructions over tiles. Each one is a vector loop of the tables
// that single ops use too, so a value has the bits of the separate op. Tiles are small enough that
// all of a program's fit in L1. Private to backends/cpu. Threads: any; a program is a constant once
// compiled.
// Invariants: (1) an instruction reads values that precede it; (2) a tile is not overwritten while
// a later instruction reads it, nor if it is an output.
#pragma once

#include "backends/cpu/elementwise/binary_loops.hpp"
#include "backends/cpu/elementwise/cast_loops.hpp"
#include "backends/cpu/elementwise/move_loops.hpp"
#include "backends/cpu/elementwise/optimizer_loops.hpp"
#include "backends/cpu/elementwise/product_loops.hpp"
#include "backends/cpu/elementwise/random_loops.hpp"
#include "backends/cpu/elementwise/unary_loops.hpp"
#include "backends/cpu/elementwise/wrapped_loops.hpp"
#include "reduce_loops.hpp"
#include "row_loops.hpp"

#include <hearth/backends/cpu/isa.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace hearth::cpu {

/// A value by number: the inputs, then the cells (single elements: constants, parameters, and
/// values that depend on those alone), then the tiles.
using ValueNumber = std::uint16_t;

enum class TileStep : std::uint8_t {
  map,       ///< map_loop of one value: unary functions, conversions, copies.
  combine,   ///< forms of two values.
  choose,    ///< selects of a condition and two values.
  product,   ///< products of (a, b, c) or (a, b, c, d), combined as `sum` specifies.
  wrapped,   ///< wrapped_loop of x and the operands that `parts` names, in its order.
  position,  ///< The row-major places.
  index,     ///< The index along axis `number`.
  words,     ///< Philox words of (seed, counter, place).
  uniform,   ///< uniform_loop of (seed, counter, low, high - low, first, last).
  normal,    ///< (seed, counter, mean, deviation)
  hits,      ///< (seed, counter, limit)
  dropout,   ///< (value, seed, counter, limit, scale)
  adam,      ///< updates of (p, g, m, v) and the scalars of adam_step; results p, m and v.
  fold,      ///< One element for each row of a value.
  row,       ///< A row for each row of one or two values: softmax and related kinds.
  expand,    ///< Each element of a value of rows, repeated along its row.
};

/// The ops around a function: an operand before it, a sum, y, a factor or divisor.
struct WrappedParts {
  WrappedBefore before = WrappedBefore::nothing;
  bool has_sum = false;
  bool has_y = false;
  bool has_factor = false;
  bool is_divisor = false;
};

struct TileInstruction {
  TileStep step = TileStep::map;
  DType type = DType::f32;  ///< Type of the result; for a checked combine, of its operands.
  bool may_fail = false;    ///< combine: of integers; `kind` selects the check.
  OpKind kind = OpKind::add;
  std::int32_t node = kNoNode;  ///< Node of the kernel, for error messages.
  std::int32_t number = 0;
  bool is_of_rows = false;  ///< The result has one element for each row of the tile.
  std::uint8_t out_count = 1;
  std::uint8_t operand_count = 0;
  std::array<ValueNumber, 3> out{};
  std::array<ValueNumber, 12> in{};
  /// adam, fold, row: the first of four, one or two spare tiles, for operands that are one element.
  ValueNumber spare = 0;
  UnaryLoop map_loop = nullptr;  ///< A CastLoop has the same signature.
  const BinaryLoops::Forms* forms = nullptr;
  const std::array<SelectLoop, 4>* selects = nullptr;
  const ProductLoops::Row* products = nullptr;
  ProductSum sum = ProductSum::plus;
  WrappedLoop wrapped_loop = nullptr;
  WrappedParts parts = {};
  RandomLoops::Uniform uniform_loop = nullptr;
  const OptimizerLoops* updates = nullptr;
  bool is_decoupled = false;
  ReduceLoops::Row fold_loop = nullptr;
  Accumulator fold_start = {};
  CastLoop fold_store = nullptr;
  const RowTables* rows = nullptr;
};

/// A single element in its own type.
using TileCell = std::uint64_t;

struct TileOutput {
  ValueNumber value = 0;    ///< A tile.
  bool is_of_rows = false;  ///< Has one element for each row.
  /// Bit i: input i is read after the instruction that computes this output.
  std::uint32_t read_after = 0;
};

struct TileProgram {
  static constexpr std::size_t kMostInputs = kMostExpressionInputs;
  static constexpr std::size_t kMostOutputs = kMostGroupOutputs;
  static constexpr std::size_t kMostValues = 528;
  /// Limit of the memory that a tile program uses at a time: most of an L1 of 32 KiB.
  static constexpr std::int64_t kTileBytes = std::int64_t{24} << 10;
  static constexpr std::int64_t kMostElements = 4096;

  KernelIR kernel = {};
  bool is_pointwise = false;  ///< One axis, along which all operands lie: runs at every rank.
  bool has_rows = false;      ///< A row kernel: tiles are whole rows.
  bool may_fail = false;      ///< Some instruction may fail.
  std::vector<TileCell> cells = {};          ///< Constants; 0 where start() fills in a value.
  std::vector<ValueNumber> parameters = {};  ///< The cell of each parameter, as a value.
  std::vector<TileInstruction> once = {};    ///< Instructions that compute cells from cells.
  std::vector<TileInstruction> body = {};    ///< Instructions that compute tiles.
  std::vector<TileOutput> outputs = {};
  std::uint16_t tile_count = 0;
  std::int64_t element_bytes = 1;  ///< Size of the widest tile value.
  std::int64_t tile_elements = 0;  ///< Most elements of one tile.
  std::int64_t grain = 0;          ///< Elements worth a fork.

  [[nodiscard]] ValueNumber first_cell() const noexcept {
    return static_cast<ValueNumber>(kernel.inputs.size());
  }
  [[nodiscard]] ValueNumber first_tile() const noexcept {
    return static_cast<ValueNumber>(kernel.inputs.size() + cells.size());
  }
  /// Bytes of one tile. Each input that cannot be read in place gets a tile after the program's
  /// own.
  [[nodiscard]] std::int64_t tile_bytes() const noexcept { return tile_elements * element_bytes; }
};

/// Compiles a kernel that passes verify(). Errors: unsupported, with the exceeded limit: folds in a
/// kernel that is no row kernel, more operands or values than a program holds.
[[nodiscard]] Result<TileProgram> make_tile_program(const KernelIR& kernel, IsaLevel isa);

/// Converts an element to its type, rounded once, as a cell stores it.
[[nodiscard]] TileCell make_cell(const CastLoops& casts,
                                 DType type,
                                 const ScalarAttributes& value) noexcept;

}  // namespace hearth::cpu
