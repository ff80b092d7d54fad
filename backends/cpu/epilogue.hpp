// The epilogue of a contraction: a pointwise expression that runs on each block of the result while
// that lies near the core which made it; of ops that make theirs in order: epilogue_rows. The
// result itself is made in the bytes of one of the outputs. A product gives rows and columns, a
// convolution boxes of [image, channel, row, column]. Private to backends/cpu. On the stack of the
// kernel; any of its threads gives blocks. Invariant: values have the bits that the ops have when
// they run singly, behind the contraction, where the expression rounds as they do.
#pragma once

#include "gemm.hpp"
#include "kernel_table.hpp"
#include "tile_program.hpp"

#include <hearth/backends/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Whether the epilogue of a call, if it has one, can run on the blocks that its op gives: those of
/// a matmul have two axes, the last of its result and all others as one.
[[nodiscard]] Support supports_epilogue(const KernelCall& call, KernelContext& context);
/// The program of its expression. Errors: those of the program.
[[nodiscard]] Result<const TileProgram*> program_of(const Epilogue& epilogue,
                                                    const KernelContext& context);

/// A box of the result: `sizes` elements along each axis, which lie `steps` apart, from `first` on.
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
  /// Requires a call that supports_epilogue(); it outlives this. Errors: those of the program.
  [[nodiscard]] static Result<EpilogueBlocks> make(const KernelCall& call, KernelContext& context);

  /// Where the contraction's own result is made.
  [[nodiscard]] std::byte* result() const noexcept;
  /// Blocks of rows and columns, of a matmul.
  [[nodiscard]] BlockSink sink() const noexcept;
  /// The elements of the box are final; it has the axes of the result, or a matmul's two.
  void run(const ResultBox& box) const;
  /// Whether it makes of each element of the result one of the same type, and reads nothing else:
  /// then it may run on results that lie elsewhere.
  [[nodiscard]] bool runs_anywhere() const noexcept;
  /// So many elements of the result, in a row, become what they are made into. Requires
  /// runs_anywhere().
  void run_in_place(std::byte* elements, std::int64_t count) const;

 private:
  /// How an operand moves along each axis of a box, in elements.
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
