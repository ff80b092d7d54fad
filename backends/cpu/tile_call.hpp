// One set of operands under a tile program: which of them lie in the order of the work, and how the
// others are brought into it, tile by tile. Private to backends/cpu. On the stack of the kernel
// that runs it; any thread of it may run a part. Invariants: (1) the tiles depend on shapes and
// strides only; (2) parts own disjoint places, and a tile's inputs are all read before its outputs
// are stored, but for those that no input shares.
#pragma once

#include "collapse.hpp"
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
  /// The elements of each output when all operands lie in the order of the work, or are one
  /// element, as far as that can be told without a look at strides; else 0.
  [[nodiscard]] static std::int64_t flat_count(const TileProgram& program,
                                               const ExpressionCall& call) noexcept;

  /// What `call` refers to outlives it.
  TileCall(const TileProgram& program, const ExpressionCall& call, IsaLevel isa);

  /// Elements of each output.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] TileSizes sizes() const noexcept { return shape_.dims(); }

  /// The work as units that run() takes ranges of, and how many are worth a fork.
  [[nodiscard]] std::int64_t unit_count() const noexcept;
  [[nodiscard]] std::int64_t grain() const noexcept;
  /// Runs units [begin, end). `run` was started with this call's parameters and sizes().
  void run(TileRun& run, std::int64_t begin, std::int64_t end) const;
  /// Runs the elements [begin, end) in row-major order, those of input 0 from `made` on. Requires
  /// an input 0 in that order. Pieces of one run may follow one another.
  void run_piece(TileRun& run, const std::byte* made, std::int64_t begin, std::int64_t end);
  /// The same, with those of output 0 from `to` on, which may be `made`. Requires a call that stays
  /// near, of one output.
  void run_piece(
      TileRun& run, const std::byte* made, std::byte* to, std::int64_t begin, std::int64_t end);
  /// Makes the elements [begin, end) of output 0 in row-major order, from `to` on. Requires a call
  /// that stays near, of one output.
  void make_piece(TileRun& run, std::byte* to, std::int64_t begin, std::int64_t end);
  /// Whether an operand is read along another axis than the last, which suits blocks, not pieces.
  [[nodiscard]] bool suits_blocks() const noexcept { return order_ == Order::blocks; }
  /// Looks for the first of the elements [begin, end) without an answer and stores nothing.
  [[nodiscard]] bool find_undefined(TileRun& run,
                                    std::int64_t begin,
                                    std::int64_t end,
                                    UndefinedElement& undefined) const;

 private:
  enum class Order : std::uint8_t {
    flat,    ///< Tiles of neighbours, read where they lie.
    rows,    ///< Rows, or pieces of them; short ones several at a time.
    blocks,  ///< Some rows by some columns, for an operand that lies along the rows.
  };
  struct Block {
    std::int64_t row = 0;
    std::int64_t column = 0;
    std::int64_t rows = 1;
    std::int64_t columns = 0;
  };
  enum class Lie : std::uint8_t { linear, one, strided, mapped };

  void lay_flat() noexcept;
  [[nodiscard]] Strides strides_of(std::size_t operand);
  [[nodiscard]] Lie lie_of(std::size_t operand) const;
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
  /// Where an output's element at a row-major place lies.
  [[nodiscard]] std::byte* result(std::size_t output, std::int64_t place) const noexcept {
    const TensorView& view = call_.outputs[output];
    return result_ != nullptr ? result_ + (place - first_result_) * size_bytes(view.dtype)
                              : view.data + place * size_bytes(view.dtype);
  }
  void run_in_order(TileRun& run, std::int64_t begin, std::int64_t end) const;
  void set_flat_inputs(TileRun& run, std::int64_t at) const;
  void fetch_ahead(TileRun& run, std::int64_t at, std::int64_t count) const;
  /// `place`: of the block's first row.
  void set_inputs(TileRun& run, const Block& block, const TilePlace& place) const;
  void run_block(TileRun& run, const Block& block, const TilePlace& place) const;
  void gather(std::size_t input, const Block& block, std::byte* to) const;
  void gather_mapped(std::size_t input, const Block& block, std::byte* to) const;
  void store(TileRun& run, std::size_t output, std::byte* to, std::int64_t count) const;
  void scatter(const TileRun& run, std::size_t output, const Block& block) const;

  const TileProgram& program_;
  const ExpressionCall& call_;
  const MoveLoops& moves_;
  Shape shape_;  ///< Of the work.
  std::int64_t count_ = 0;
  Order order_ = Order::flat;
  std::array<Lie, TileProgram::kMostInputs> lies_{};
  std::array<const std::byte*, TileProgram::kMostInputs> base_{};
  std::int64_t first_ = 0;         ///< The place of the element at base_[0], of a piece.
  std::byte* result_ = nullptr;    ///< Of output 0, where a piece of it goes elsewhere,
  std::int64_t first_result_ = 0;  ///< and the place of the element there.
  std::array<bool, TileProgram::kMostOutputs> is_fresh_{};          ///< No input lies there.
  std::array<bool, TileProgram::kMostOutputs> is_made_in_place_{};  ///< Where it lies straight.
  std::array<bool, TileProgram::kMostOutputs> is_streamed_{};
  bool has_streams_ = false;
  bool is_one_pass_ = false;
  bool fetches_itself_ = false;          ///< Its one loop asks for what lies ahead,
  bool streams_itself_ = false;          ///< and writes past the caches.
  bool is_far_ = false;                  ///< More than the caches near a core hold.
  std::optional<TileSpace> space_ = {};  ///< Of inputs, then outputs; none when flat.
};

}  // namespace hearth::cpu
