// The epilogue of a contraction: a pointwise expression that runs on each block of the result. The
// block is then still in the cache of the core that computed it. For ops that produce their result
// in order, see epilogue_rows. The result uses the bytes of one of the outputs. A product passes
// rows and columns, a convolution boxes of [image, channel, row, column]. Private to backends/cpu.
// Lives on the kernel's stack; any of its threads passes blocks. Invariant: values have the bits of
// the separate ops, if the expression rounds where they do.
#pragma once

#include "backends/cpu/fused/tile_program.hpp"
#include "backends/cpu/machine/kernel_table.hpp"
#include "gemm.hpp"

#include <hearth/backends/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Returns whether the epilogue of a call, if any, can run on the blocks of its op. Blocks of a
/// matmul have two axes: the last of its result, and all others merged.
[[nodiscard]] Support supports_epilogue(const KernelCall& call, KernelContext& context);
/// Returns the program of the epilogue's expression. Errors: those of the program.
[[nodiscard]] Result<const TileProgram*> program_of(const Epilogue& epilogue,
                                                    const KernelContext& context);

/// A box of the result: `sizes` elements along each axis, `steps` apart, from `first` on.
struct ResultBox {
  static constexpr std::size_t kMostAxes = 4;
  using Axes = std::array<std::int64_t, kMostAxes>;
  Axes first{};
  Axes sizes{};
  Axes steps{1, 1, 1, 1};
};

struct ExpressionCall;

class EpilogueBlocks {
 public:
  /// Requires supports_epilogue(); the call outlives this. Errors: those of the program.
  [[nodiscard]] static Result<EpilogueBlocks> make(const KernelCall& call, KernelContext& context);

  /// Returns the memory of the contraction's own result.
  [[nodiscard]] std::byte* result() const noexcept;
  /// Returns the sink of a matmul's blocks of rows and columns.
  [[nodiscard]] BlockSink sink() const noexcept;
  /// Runs on a finished box, which has the axes of the result, or the two of a matmul.
  void run(const ResultBox& box) const;
  /// Whether the expression maps each element to one of the same type and reads no other operand.
  /// It may then run on results in other memory.
  [[nodiscard]] bool runs_anywhere() const noexcept;
  /// Maps `count` consecutive elements of the result in place. Requires runs_anywhere().
  void run_in_place(std::byte* elements, std::int64_t count) const;

 private:
  /// Steps of an operand along each axis of a box, in elements.
  using Steps = ResultBox::Axes;

  EpilogueBlocks(const KernelCall& call, const TileProgram& program, IsaLevel isa) noexcept;
  void find_beside() noexcept;
  void run_on(const ExpressionCall& call) const;

  const KernelCall* call_;
  const TileProgram* program_;
  IsaLevel isa_;
  int axes_ = 2;
  Steps result_steps_{};
  std::array<Steps, TileProgram::kMostInputs> steps_{};
  std::size_t beside_count_ = 0;
  std::array<BesideResult, TileProgram::kMostInputs + TileProgram::kMostOutputs> beside_{};
};

}  // namespace hearth::cpu
