// One set of operands under a tile program: classifies the operands by layout, and gathers those
// that are not in work order, tile by tile. Private to backends/cpu. Lives on the stack of the
// kernel that runs it; any thread of the kernel may run a part.
// Invariants: (1) the tiles depend on shapes and strides only; (2) parts own disjoint places, and a
// tile's inputs are all read before its outputs are stored, except outputs whose bytes no input
// shares.
#pragma once

#include "backends/cpu/machine/collapse.hpp"
#include "expression.hpp"
#include "tile_program.hpp"
#include "tile_run.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace hearth::cpu {

class TileCall {
 public:
  /// Returns the elements of each output if each operand has one element or lies in work order,
  /// else 0. Reads no strides, so it finds only what the layouts' flags and sizes show.
  [[nodiscard]] static std::int64_t flat_count(const TileProgram& program,
                                               const ExpressionCall& call) noexcept;

  /// All that `call` refers to outlives this.
  TileCall(const TileProgram& program, const ExpressionCall& call, IsaLevel isa);

  /// Elements of each output.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] TileSizes sizes() const noexcept { return shape_.dims(); }

  /// Work units, the ranges of run(), and the number worth a fork.
  [[nodiscard]] std::int64_t unit_count() const noexcept;
  [[nodiscard]] std::int64_t grain() const noexcept;
  /// Runs units [begin, end). `run` must have been started with this call's parameters and sizes().
  void run(TileRun& run, std::int64_t begin, std::int64_t end) const;
  /// Runs elements [begin, end) in row-major order, with those of input 0 stored from `made` on.
  /// Requires an input 0 in that order. Pieces of one run may follow one another.
  void run_piece(TileRun& run, const std::byte* made, std::int64_t begin, std::int64_t end);
  /// Runs elements [begin, end), and stores those of output 0 from `to` on, which may equal `made`.
  /// Requires a call with stays_cached and one output.
  void run_piece(
      TileRun& run, const std::byte* made, std::byte* to, std::int64_t begin, std::int64_t end);
  /// Computes elements [begin, end) of output 0 in row-major order, from `to` on. Requires a call
  /// with stays_cached and one output.
  void make_piece(TileRun& run, std::byte* to, std::int64_t begin, std::int64_t end);
  /// Whether an operand is contiguous along another axis than the last, which suits blocks, not
  /// pieces.
  [[nodiscard]] bool suits_blocks() const noexcept { return order_ == Order::blocks; }
  /// Searches elements [begin, end) for the first undefined one; stores nothing.
  [[nodiscard]] bool find_undefined(TileRun& run,
                                    std::int64_t begin,
                                    std::int64_t end,
                                    UndefinedElement& undefined) const;

 private:
  enum class Order : std::uint8_t {
    flat,    ///< Tiles of neighbours, read in place.
    rows,    ///< Rows, or pieces of them; short ones several at a time.
    blocks,  ///< Some rows by some columns, for an operand that is contiguous along the rows.
  };
  struct Block {
    std::int64_t row = 0;
    std::int64_t column = 0;
    std::int64_t rows = 1;
    std::int64_t columns = 0;
  };
  enum class AccessKind : std::uint8_t { linear, one, strided, mapped };

  void lay_flat() noexcept;
  [[nodiscard]] Strides strides_of(std::size_t operand);
  [[nodiscard]] AccessKind access_kind_of(std::size_t operand) const;
  void find_space();
  void find_shares();
  [[nodiscard]] TilePlaces places_of(const Block& block) const;
  [[nodiscard]] bool is_straight(std::size_t operand, const Block& block) const;
  [[nodiscard]] Block next_rows(std::int64_t at, std::int64_t end) const;
  void run_flat(TileRun& run, std::int64_t begin, std::int64_t end) const;
  void run_rows(TileRun& run, std::int64_t begin, std::int64_t end) const;
  void run_blocks(TileRun& run, std::int64_t begin, std::int64_t end) const;
  [[nodiscard]] std::int64_t first_of(std::size_t input) const noexcept {
    return input == 0 ? first_ : 0;
  }
  /// Returns the address of an output's element at a row-major place.
  [[nodiscard]] std::byte* result(std::size_t output, std::int64_t place) const noexcept {
    const TensorView& view = call_.outputs[output];
    return result_ != nullptr ? result_ + (place - first_result_) * size_bytes(view.dtype)
                              : view.data + place * size_bytes(view.dtype);
  }
  void run_in_order(TileRun& run, std::int64_t begin, std::int64_t end) const;
  void set_flat_inputs(TileRun& run, std::int64_t at) const;
  void fetch_ahead(TileRun& run, std::int64_t at, std::int64_t count) const;
  /// `place` is that of the block's first row.
  void set_inputs(TileRun& run, const Block& block, const TilePlace& place) const;
  void run_block(TileRun& run, const Block& block, const TilePlace& place) const;
  void gather(std::size_t input, const Block& block, std::byte* to) const;
  void gather_mapped(std::size_t input, const Block& block, std::byte* to) const;
  void store(TileRun& run, std::size_t output, std::byte* to, std::int64_t count) const;
  void scatter(const TileRun& run, std::size_t output, const Block& block) const;

  const TileProgram& program_;
  const ExpressionCall& call_;
  const MoveLoops& moves_;
  Shape shape_;  ///< Shape of the work.
  std::int64_t count_ = 0;
  Order order_ = Order::flat;
  std::array<AccessKind, TileProgram::kMostInputs> access_kinds_{};
  std::array<const std::byte*, TileProgram::kMostInputs> base_{};
  std::int64_t first_ = 0;         ///< Piece: place of the element at base_[0].
  std::byte* result_ = nullptr;    ///< Destination of a piece of output 0, if set,
  std::int64_t first_result_ = 0;  ///< and the place of its first element.
  std::array<bool, TileProgram::kMostOutputs> is_fresh_{};  ///< No input shares its bytes.
  /// In the output's own memory, if contiguous.
  std::array<bool, TileProgram::kMostOutputs> is_computed_in_place_{};
  std::array<bool, TileProgram::kMostOutputs> is_streamed_{};
  bool has_streams_ = false;
  bool is_one_pass_ = false;
  bool fetches_itself_ = false;          ///< Its single loop prefetches,
  bool streams_itself_ = false;          ///< and stores past the caches.
  bool is_far_ = false;                  ///< Larger than the caches near a core.
  std::optional<TileSpace> space_ = {};  ///< Space of inputs, then outputs; unset when flat.
};

}  // namespace hearth::cpu
