// The epilogue of an op that makes its result in row-major order, piece by piece: a pointwise
// expression that runs on each piece while that lies near the core which made it. The op's own
// result reaches memory only if the expression gives it out, so results may have other types and,
// with as many elements, another shape. Private to backends/cpu. On the stack of the kernel; each
// thread has a Part. Invariant: values have the bits that the ops have when they run singly.
#pragma once

#include "expression.hpp"
#include "kernel_table.hpp"
#include "tile_call.hpp"
#include "tile_program.hpp"
#include "tile_run.hpp"

#include <hearth/backends/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace hearth::cpu {

class EpilogueRows {
 public:
  /// Of one piece: with the tiles of a program it stays in L1.
  static constexpr std::int64_t kPieceBytes = std::int64_t{16} << 10;

  EpilogueRows() = default;
  EpilogueRows(const EpilogueRows&) = delete;
  EpilogueRows& operator=(const EpilogueRows&) = delete;
  ~EpilogueRows() = default;

  /// The epilogue of a call that supports_epilogue(), if it has one; the call outlives this.
  /// Results without bytes, as those of a call that makes an input, go where run() says. Errors:
  /// those of the program.
  [[nodiscard]] Status start(const KernelCall& call, const KernelContext& context);
  [[nodiscard]] bool is_there() const noexcept { return tiles_.has_value(); }
  /// Elements worth a fork. Requires is_there().
  [[nodiscard]] std::int64_t grain() const noexcept { return program_->grain; }

  /// What one thread runs.
  class Part {
   public:
    /// Requires is_there().
    explicit Part(const EpilogueRows& of);
    /// Elements [begin, end) of the op's result, which lie from `made` on, are final.
    void run(const std::byte* made, std::int64_t begin, std::int64_t end) {
      tiles_.run_piece(run_, made, begin, end);
    }
    /// The same, where the one result, which has no bytes, goes from `to` on, which may be `made`.
    void run(const std::byte* made, std::byte* to, std::int64_t begin, std::int64_t end) {
      tiles_.run_piece(run_, made, to, begin, end);
    }

   private:
    TileCall tiles_;
    TileRun run_;
  };

 private:
  const TileProgram* program_ = nullptr;
  IsaLevel isa_ = {};
  std::array<TensorView, TileProgram::kMostInputs> inputs_{};
  ExpressionCall call_ = {};
  std::optional<TileCall> tiles_ = {};  ///< With nothing made yet.
};

}  // namespace hearth::cpu
