// The epilogue of a contraction: a pointwise expression that runs on each block of the result while
// that lies near the core which made it. The result itself is made in the bytes of one of the
// outputs. Private to backends/cpu. On the stack of the kernel; any of its threads gives blocks.
// Invariant: values have the bits that the ops have when they run singly, behind the contraction.
#pragma once

#include "gemm.hpp"
#include "kernel_table.hpp"
#include "tile_program.hpp"

#include <hearth/backends/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Whether the epilogue of a call, if it has one, can run on blocks of rows and columns: over the
/// last axis of its result, and all others as one.
[[nodiscard]] Support supports_epilogue(const KernelCall& call, KernelContext& context);

class EpilogueBlocks {
 public:
  /// Requires a call that supports_epilogue(); it outlives this. Errors: those of the program.
  [[nodiscard]] static Result<EpilogueBlocks> make(const KernelCall& call, KernelContext& context);

  /// Where the contraction's own result is made.
  [[nodiscard]] std::byte* result() const noexcept;
  [[nodiscard]] BlockSink sink() const noexcept;

 private:
  EpilogueBlocks(const KernelCall& call, const TileProgram& program, IsaLevel isa) noexcept;
  void run(std::int64_t row,
           std::int64_t row_count,
           std::int64_t column,
           std::int64_t column_count) const;

  /// How an operand moves from row to row and from column to column, in elements.
  struct Steps {
    std::int64_t row = 0;
    std::int64_t column = 0;
  };

  const KernelCall* call_;
  const TileProgram* program_;
  IsaLevel isa_;
  std::array<Steps, TileProgram::kMostInputs> steps_{};
};

}  // namespace hearth::cpu
