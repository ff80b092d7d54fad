// One set of operands under a tile program of a row kernel: a tile is one or several whole rows, in
// memory of the launch. Private to backends/cpu. Lives on the stack of the kernel that runs it; any
// thread of the kernel may run a part.
// Invariants: (1) the number of rows in a tile depends on shapes and types only; (2) parts own
// disjoint rows, and a row's inputs are all read before its outputs are stored, except outputs
// whose bytes no input shares. An input that several rows read shares bytes with no output.
#pragma once

#include "expression.hpp"
#include "tile_program.hpp"
#include "tile_run.hpp"

#include <hearth/runtime/base/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

class RowCall {
 public:
  /// Limit of the memory that a part uses at a time: most of an L2 of 1 MiB.
  static constexpr std::int64_t kMostPartBytes = std::int64_t{640} << 10;

  /// All that `call` refers to outlives this. Errors: invalid_argument for shapes that do not
  /// match; unsupported if its rows are too long for the program's values.
  [[nodiscard]] static Result<RowCall> make(const TileProgram& program,
                                            const ExpressionCall& call,
                                            IsaLevel isa);

  [[nodiscard]] std::int64_t row_count() const noexcept { return rows_; }
  /// Rows worth a fork.
  [[nodiscard]] std::int64_t grain() const noexcept;
  /// Returns the memory that a part needs.
  [[nodiscard]] std::int64_t part_bytes() const noexcept;
  /// Runs rows [begin, end) with the call's parameters. `memory` has part_bytes() bytes.
  void run(std::byte* memory, std::int64_t begin, std::int64_t end) const {
    run_to(nullptr, memory, begin, end);
  }
  /// Runs rows [begin, end), and stores those of output 0 from `to` on. Requires a call with
  /// stays_cached and one output.
  void make(std::byte* memory, std::byte* to, std::int64_t begin, std::int64_t end) const {
    run_to(to, memory, begin, end);
  }

 private:
  /// Destination of the rows of output 0, from row `first` on; null: the output's own memory.
  struct Goal {
    std::byte* to = nullptr;
    std::int64_t first = 0;
  };

  enum class AccessKind : std::uint8_t {
    straight,  ///< In the order of the rows.
    repeated,  ///< One contiguous row, shared by all.
    strided,
  };

  RowCall(const TileProgram& program, const ExpressionCall& call, IsaLevel isa) noexcept;
  [[nodiscard]] Status find_rows();
  [[nodiscard]] Status look_at_input(std::size_t input);
  void find_shares() noexcept;
  void set_inputs(TileRun& run, std::int64_t row, std::int64_t count, bool is_first) const;
  void gather(std::size_t input, std::int64_t row, std::int64_t count, std::byte* to) const;
  void run_to(std::byte* to, std::byte* memory, std::int64_t begin, std::int64_t end) const;
  void fetch_ahead(TileRun& run, const Goal& goal, std::int64_t row, std::int64_t count) const;
  void set_outputs(TileRun& run, const Goal& goal, std::int64_t row) const;
  void store_outputs(TileRun& run, const Goal& goal, std::int64_t row, std::int64_t count) const;
  [[nodiscard]] std::byte* place_of(std::size_t output,
                                    const Goal& goal,
                                    std::int64_t row) const noexcept;
  /// Returns the elements of an operand's row.
  [[nodiscard]] std::int64_t width(bool is_of_rows) const noexcept {
    return is_of_rows ? 1 : length_;
  }

  const TileProgram& program_;
  const ExpressionCall& call_;
  IsaLevel isa_;
  const MoveLoops& moves_;
  Shape space_ = {};
  int kept_axes_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t length_ = 0;   ///< Elements of a row.
  std::int64_t at_once_ = 1;  ///< Rows of a tile.
  std::array<bool, TileProgram::kMostInputs> is_of_rows_{};
  std::array<AccessKind, TileProgram::kMostInputs> access_kinds_{};
  std::array<Strides, TileProgram::kMostInputs> strides_{};
  std::array<bool, TileProgram::kMostOutputs> is_fresh_{};  ///< No input shares its bytes.
  std::array<bool, TileProgram::kMostOutputs> is_computed_in_place_{};
  std::array<bool, TileProgram::kMostOutputs> is_streamed_{};
  bool has_streams_ = false;
};

}  // namespace hearth::cpu
