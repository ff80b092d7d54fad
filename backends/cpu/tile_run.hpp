// Runs a tile program on one tile after another: the values of a tile, and its instructions.
// Private to backends/cpu. One object for each part of a launch, on the stack of the thread that
// runs the part, which alone uses it. Invariants: (1) results follow from the inputs' elements, the
// parameters and the places alone, wherever tiles begin and end; (2) a value that is one element
// for all of a tile is computed once.
#pragma once

#include "tile_program.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth::cpu {

/// Which elements a tile holds: rows of neighbours in row-major order.
struct TilePlaces {
  std::int64_t first = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t row_step = 0;  ///< From the first place of a row to that of the next.
  std::int64_t lines = 0;     ///< Row kernels: so many whole rows of the kernel are one row here.

  [[nodiscard]] std::int64_t count() const noexcept { return rows * columns; }
};

/// Axes by size, row-major, for values that follow from an index along one of them.
using TileSizes = std::span<const std::int64_t>;

/// An element of an integer division or power that has no answer.
struct UndefinedElement {
  std::int64_t place = 0;
  const TileInstruction* instruction = nullptr;
  std::array<std::int64_t, 2> operands{};
};

class TileRun {
 public:
  TileRun(const TileProgram& program, IsaLevel isa) noexcept;
  /// With tiles of so many bytes from `tiles` on, which outlive it: the program's own, and one for
  /// each input. Null: as above.
  TileRun(const TileProgram& program,
          IsaLevel isa,
          std::byte* tiles,
          std::int64_t tile_bytes) noexcept;
  TileRun(const TileRun&) = delete;
  TileRun& operator=(const TileRun&) = delete;
  ~TileRun() = default;

  /// Fills the cells for one set of operands, whose sizes outlive that. Whether one of the values
  /// that all elements share has no answer; the cells are then not all filled.
  [[nodiscard]] bool start(std::span<const ScalarAttributes> parameters,
                           TileSizes sizes,
                           UndefinedElement& undefined) noexcept;
  /// Whether run() could meet an element without an answer, as far as cells can tell.
  [[nodiscard]] bool may_fail() const noexcept;

  void set_input(std::size_t input, const std::byte* data, bool is_one) noexcept {
    at_[input] = const_cast<std::byte*>(data);
    is_one_[input] = is_one;
  }
  /// A tile in which an input's elements may be brought together.
  [[nodiscard]] std::byte* room_of(std::size_t input) noexcept {
    return tiles_ + (program_.tile_count + static_cast<std::int64_t>(input)) * tile_bytes_;
  }
  /// How many equal rows of an input, all of them whole, were brought together there for the call
  /// at hand.
  [[nodiscard]] std::int64_t& repeated_rows(std::size_t input) noexcept {
    return repeated_rows_[input];
  }
  void forget_rows() noexcept { repeated_rows_ = {}; }
  /// Lets the value of an output be made at `data`, else in a tile of the program's own.
  void set_output(std::size_t output, std::byte* data) noexcept {
    at_[program_.outputs[output].value] = data;
  }
  void set_output_in_tile(std::size_t output) noexcept {
    const ValueNumber value = program_.outputs[output].value;
    at_[value] = tile_at(value);
  }
  /// For a program of one wrapped instruction that runs in memory itself.
  void set_far(bool streams) noexcept {
    is_far_ = true;
    streams_ = streams;
  }
  /// Bytes that the next tile reads, or writes if so: they are brought near while this one is
  /// worked on, some of them before each instruction.
  void add_next(const std::byte* data, std::int64_t size_bytes, bool is_written) noexcept {
    next_[next_count_++] = {.data = data, .lines = size_bytes / kLine, .is_written = is_written};
  }
  /// Makes the values of one tile; inputs and outputs are set.
  void run(const TilePlaces& places) noexcept;
  /// The same, looking for the first element without an answer, which ends it: returns true. Every
  /// output is in a tile of the program's own.
  [[nodiscard]] bool find_undefined(const TilePlaces& places, UndefinedElement& undefined) noexcept;
  /// Where the value of an output lies after run(), and whether it is one element for all.
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
  /// Lays each element out along its row. Whether the result is one element.
  [[nodiscard]] bool expand(const TileInstruction& each, const TilePlaces& places) noexcept;
  /// The operand with an element at each place.
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
  // Uninitialised but for what the program has: filling them would take longer than small ops.
  std::array<std::byte*, TileProgram::kMostValues> at_;
  std::array<bool, TileProgram::kMostValues> is_one_;
  std::array<TileCell, TileProgram::kMostValues> cells_;
  std::byte* tiles_;
  std::int64_t tile_bytes_;
  alignas(64) std::array<std::byte, TileProgram::kTileBytes> own_tiles_;
};

}  // namespace hearth::cpu
