// One set of operands under a tile program of a row kernel: tiles are whole rows, one or several at
// a time, in memory of the launch. Private to backends/cpu. On the stack of the kernel that runs
// it; any thread of it may run a part. Invariants: (1) how rows go together depends on shapes and
// types only; (2) parts own disjoint rows, and a row's inputs are all read before its outputs are
// stored, but for those that no input shares. What several rows read shares bytes with no output.
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
  /// What a part may touch at a time: most of an L2 of 1 MiB.
  static constexpr std::int64_t kMostPartBytes = std::int64_t{640} << 10;

  /// What `call` refers to outlives it. Errors: invalid_argument, where its shapes do not fit;
  /// unsupported, where its rows are too long for the program's values.
  [[nodiscard]] static Result<RowCall> make(const TileProgram& program,
                                            const ExpressionCall& call,
                                            IsaLevel isa);

  [[nodiscard]] std::int64_t row_count() const noexcept { return rows_; }
  /// Rows worth a fork.
  [[nodiscard]] std::int64_t grain() const noexcept;
  /// Of the memory that a part needs.
  [[nodiscard]] std::int64_t part_bytes() const noexcept;
  /// Runs rows [begin, end), with part_bytes() of memory. Parameters are those of the call.
  void run(std::byte* memory, std::int64_t begin, std::int64_t end) const {
    run_to(nullptr, memory, begin, end);
  }
  /// The same, with those of output 0 from `to` on. Requires a call that stays near, of one output.
  void make(std::byte* memory, std::byte* to, std::int64_t begin, std::int64_t end) const {
    run_to(to, memory, begin, end);
  }

 private:
  /// Where the rows of output 0 go, from a row on; to null: where they lie.
  struct Goal {
    std::byte* to = nullptr;
    std::int64_t first = 0;
  };

  enum class Lie : std::uint8_t {
    straight,  ///< As the rows are walked.
    repeated,  ///< The same row, without gaps, for all.
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
  /// Elements of a row of an operand.
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
  std::int64_t length_ = 0;   ///< Of a row.
  std::int64_t at_once_ = 1;  ///< Rows of a tile.
  std::array<bool, TileProgram::kMostInputs> is_of_rows_{};
  std::array<Lie, TileProgram::kMostInputs> lies_{};
  std::array<Strides, TileProgram::kMostInputs> strides_{};
  std::array<bool, TileProgram::kMostOutputs> is_fresh_{};  ///< No input lies there.
  std::array<bool, TileProgram::kMostOutputs> is_made_in_place_{};
  std::array<bool, TileProgram::kMostOutputs> is_streamed_{};
  bool has_streams_ = false;
};

}  // namespace hearth::cpu
