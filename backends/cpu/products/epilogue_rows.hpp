// The epilogue of an op that produces its result in row-major order: a pointwise expression that
// runs on each piece. The piece is then still in the cache of the core that computed it. The op's
// own result reaches memory only if the expression outputs it. So results may have other types and,
// with the same number of elements, another shape. Private to backends/cpu. Lives on the kernel's
// stack; each thread has a Part. Invariant: values have the bits of the separate ops.
#pragma once

#include "backends/cpu/fused/expression.hpp"
#include "backends/cpu/fused/tile_call.hpp"
#include "backends/cpu/fused/tile_program.hpp"
#include "backends/cpu/fused/tile_run.hpp"
#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/backends/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace hearth::cpu {

class EpilogueRows {
 public:
  /// Size of one piece: with the tiles of a program it stays in L1.
  static constexpr std::int64_t kPieceBytes = std::int64_t{16} << 10;

  EpilogueRows() = default;
  EpilogueRows(const EpilogueRows&) = delete;
  EpilogueRows& operator=(const EpilogueRows&) = delete;
  ~EpilogueRows() = default;

  /// Prepares the epilogue of a call that supports_epilogue(), if it has one; the call outlives
  /// this. Results without bytes, as in a prologue, go to the memory that run() receives.
  /// Errors: those of the program.
  [[nodiscard]] Status start(const KernelCall& call, const KernelContext& context);
  [[nodiscard]] bool is_there() const noexcept { return tiles_.has_value(); }
  /// Elements worth a fork. Requires is_there().
  [[nodiscard]] std::int64_t grain() const noexcept { return program_->grain; }

  /// The state of one thread.
  class Part {
   public:
    /// Requires is_there().
    explicit Part(const EpilogueRows& of);
    /// Runs on finished elements [begin, end) of the op's result, stored from `made` on.
    void run(const std::byte* made, std::int64_t begin, std::int64_t end) {
      tiles_.run_piece(run_, made, begin, end);
    }
    /// Runs on finished elements [begin, end), and stores the one result, which has no bytes, from
    /// `to` on. `to` may equal `made`.
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
  std::optional<TileCall> tiles_ = {};  ///< Without an own result of the op.
};

}  // namespace hearth::cpu
