// Runs a tile program on one tile after another: holds the values of a tile and runs the
// instructions. Private to backends/cpu. Threads: one object for each part of a launch, on the
// stack of the thread that runs the part.
// Invariants: (1) results depend on the inputs' elements, the parameters and the places alone,
// wherever tiles begin and end; (2) a value that is one element for all of a tile is computed once.
#pragma once

#include "tile_program.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth::cpu {

/// The elements of a tile: rows of neighbours in row-major order.
struct TilePlaces {
  std::int64_t first = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t row_step = 0;  ///< From the first place of a row to the first place of the next.
  std::int64_t lines = 0;     ///< Row kernels: number of whole kernel rows in one row here.

  [[nodiscard]] std::int64_t count() const noexcept { return rows * columns; }
};

/// Sizes of the axes, row-major, for values that depend on an index along one of them.
using TileSizes = std::span<const std::int64_t>;

/// An integer division or power with an undefined result.
struct UndefinedElement {
  std::int64_t place = 0;
  const TileInstruction* instruction = nullptr;
  std::array<std::int64_t, 2> operands{};
};

class TileRun {
 public:
  TileRun(const TileProgram& program, IsaLevel isa) noexcept;
  /// Uses tiles of `tile_bytes` bytes each from `tiles` on, which outlive this: the program's own,
  /// and one for each input. Null: tiles inside the object.
  TileRun(const TileProgram& program,
          IsaLevel isa,
          std::byte* tiles,
          std::int64_t tile_bytes) noexcept;
  TileRun(const TileRun&) = delete;
  TileRun& operator=(const TileRun&) = delete;
  ~TileRun() = default;

  /// Fills the cells for one set of operands; `sizes` outlive that set. Returns true if a value
  /// shared by all elements is undefined; the cells are then incomplete.
  [[nodiscard]] bool start(std::span<const ScalarAttributes> parameters,
                           TileSizes sizes,
                           UndefinedElement& undefined) noexcept;
  /// Whether run() may meet an undefined element, as far as the cells show.
  [[nodiscard]] bool may_fail() const noexcept;

  void set_input(std::size_t input, const std::byte* data, bool is_one) noexcept {
    at_[input] = const_cast<std::byte*>(data);
    is_one_[input] = is_one;
  }
  /// Returns a tile for gathering an input's elements.
  [[nodiscard]] std::byte* room_of(std::size_t input) noexcept {
    return tiles_ + (program_.tile_count + static_cast<std::int64_t>(input)) * tile_bytes_;
  }
  /// Number of equal whole rows of an input that this tile holds for the current call.
  [[nodiscard]] std::int64_t& repeated_rows(std::size_t input) noexcept {
    return repeated_rows_[input];
  }
  void forget_rows() noexcept { repeated_rows_ = {}; }
  /// Sets the memory of an output's value; by default it is a tile of the program.
  void set_output(std::size_t output, std::byte* data) noexcept {
    at_[program_.outputs[output].value] = data;
  }
  void set_output_in_tile(std::size_t output) noexcept {
    const ValueNumber value = program_.outputs[output].value;
    at_[value] = tile_at(value);
  }
  /// Lets a program of one wrapped instruction run in memory directly.
  void set_far(bool streams) noexcept {
    is_far_ = true;
    streams_ = streams;
  }
  /// Registers bytes that the next tile reads, or writes if is_written. They are prefetched during
  /// this tile, some of them before each instruction.
  void add_next(const std::byte* data, std::int64_t size_bytes, bool is_written) noexcept {
    next_[next_count_++] = {.data = data, .lines = size_bytes / kLine, .is_written = is_written};
  }
  /// Computes the values of one tile; inputs and outputs are set.
  void run(const TilePlaces& places) noexcept;
  /// Runs one tile until the first undefined element; returns true if it found one. Every output
  /// must be in a tile of the program.
  [[nodiscard]] bool find_undefined(const TilePlaces& places, UndefinedElement& undefined) noexcept;
  /// Returns the address of an output's value after run(); is_one(): whether it is a single
  /// element.
  [[nodiscard]] const std::byte* output(std::size_t output) const noexcept {
    return at_[program_.outputs[output].value];
  }
  [[nodiscard]] bool is_one(std::size_t output) const noexcept {
    return is_one_[program_.outputs[output].value];
  }

 private:
  [[nodiscard]] std::byte* tile_at(ValueNumber value) noexcept {
    return tiles_ + (value - program_.first_tile()) * tile_bytes_;
  }
  [[nodiscard]] bool all_one(const TileInstruction& each) const noexcept;
  [[nodiscard]] bool is_undefined(const TileInstruction& each,
                                  const TilePlaces& places,
                                  UndefinedElement& undefined) const noexcept;
  void fetch_next(std::int64_t number) const noexcept;
  void execute(const TileInstruction& each, const TilePlaces& places) noexcept;
  [[nodiscard]] bool choose(const TileInstruction& each, std::int64_t count) noexcept;
  void add_products(const TileInstruction& each, std::int64_t count) const noexcept;
  void run_wrapped(const TileInstruction& each, std::int64_t count) const noexcept;
  void draw(const TileInstruction& each, const TilePlaces& places) noexcept;
  void fold_rows(const TileInstruction& each, const TilePlaces& places) noexcept;
  void make_rows(const TileInstruction& each, const TilePlaces& places) noexcept;
  template <class T>
  void make_rows(const TileInstruction& each,
                 const RowLoops<T>& loops,
                 const TilePlaces& places) noexcept;
  /// Repeats each element along its row. Returns whether the result is one element.
  [[nodiscard]] bool expand(const TileInstruction& each, const TilePlaces& places) noexcept;
  /// Returns the operand with an element at each place.
  [[nodiscard]] const std::byte* whole(const TileInstruction& each,
                                       std::size_t operand,
                                       std::int64_t count) noexcept;
  void write_places(const TileInstruction& each, const TilePlaces& places) noexcept;
  void write_words(const TileInstruction& each, std::int64_t count) noexcept;
  template <class T>
  void update(const TileInstruction& each,
              std::int64_t count,
              void (*loop)(const AdamArrays<T>&, const AdamFactors&, std::int64_t)) noexcept;
  template <class T>
  [[nodiscard]] T cell(ValueNumber value) const noexcept;

  const TileProgram& program_;
  const MoveLoops& moves_;
  const CastLoops& casts_;
  const RandomLoops& random_;
  static constexpr std::int64_t kLine = 64;
  struct Next {
    const std::byte* data;
    std::int64_t lines;
    bool is_written;
  };
  TileSizes sizes_ = {};
  bool is_far_ = false;
  bool streams_ = false;
  std::size_t next_count_ = 0;
  std::array<std::int64_t, TileProgram::kMostInputs> repeated_rows_{};
  std::array<Next, TileProgram::kMostInputs + TileProgram::kMostOutputs> next_;
  // Only the program's entries are set: to fill all would take longer than small ops.
  std::array<std::byte*, TileProgram::kMostValues> at_;
  std::array<bool, TileProgram::kMostValues> is_one_;
  std::array<TileCell, TileProgram::kMostValues> cells_;
  std::byte* tiles_;
  std::int64_t tile_bytes_;
  alignas(64) std::array<std::byte, TileProgram::kTileBytes> own_tiles_;
};

}  // namespace hearth::cpu
