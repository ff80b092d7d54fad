// Convolution as a sum over taps, computed straight from padded planes by register tiles: the
// forward pass, and one stride phase of the gradient of the input. Threads: owner only; forks in
// the arena. Invariant: an output element is one sum over (channel, tap) in a fixed order, whatever
// the cut into tasks.
#pragma once

#include "kernel_table.hpp"

#include <hearth/backends/constant.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth::cpu {

class EpilogueBlocks;

/// Who takes a convolution's results as they are made, in place of memory.
struct PlaneSink {
  /// Rows [first_row, first_row + rows) of some planes of the result, those of one plane behind
  /// those of the other, in the type of the sum.
  struct Block {
    std::byte* made = nullptr;  ///< May be written over.
    std::int64_t first_plane = 0;
    std::int64_t planes = 0;
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
  };
  using Take = void (*)(const void* context, const Block& block, std::byte* memory);

  Take take = nullptr;  ///< nullptr: nobody. Called once for each block, on any thread.
  const void* context = nullptr;
  std::int64_t row_unit = 0;  ///< Blocks begin at multiples of so many rows; 0: of whole planes.
  /// Of the memory that a thread needs to take a block of so many rows of so many planes.
  std::int64_t (*memory_bytes)(const void* context,
                               std::int64_t planes,
                               std::int64_t rows) = nullptr;
};

/// One input position of a window, relative to (row · row_stride, column · column_stride), and
/// where its weight lies.
struct ConvTap {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t weight_offset = 0;  ///< In elements.
};

/// y[n, g·outputs + o, i·y_row_step + y_first_row, …] = bias[…] + Σ_{c, tap} x[n, g·inputs + c,
/// i·row_stride + tap.row, …]·w(g, o, c, tap) with w(g, o, c, tap) = w[g·group_step + o·output_step
/// + c·input_step + tap.weight_offset]. y is contiguous.
struct TapConvolution {
  TensorView x;
  TensorView y;
  const TensorView* bias = nullptr;
  const std::byte* w = nullptr;
  Constant* constant = nullptr;  ///< The weights, where their packed form may be kept.
  ConstantForm form = {};        ///< What that depends on, but for how it is packed here.
  std::int64_t group_step = 0;
  std::int64_t output_step = 0;
  std::int64_t input_step = 0;
  std::span<const ConvTap> taps;
  std::int64_t groups = 1;
  std::int64_t inputs = 0;   ///< Channels of one group of x.
  std::int64_t outputs = 0;  ///< Channels of one group of y.
  std::int64_t rows = 0;     ///< How many rows and columns of y are written.
  std::int64_t columns = 0;
  std::int64_t row_stride = 1;
  std::int64_t column_stride = 1;
  std::int64_t y_first_row = 0;
  std::int64_t y_first_column = 0;
  std::int64_t y_row_step = 1;
  std::int64_t y_column_step = 1;
  PlaneSink sink = {};                       ///< In place of y, which then has no bytes.
  const EpilogueBlocks* epilogue = nullptr;  ///< Works on y, each block of it once that is final.
};

/// Whether a convolution is cut into whole planes of its groups, enough of them for so many cores,
/// whose results stay near the core.
struct PlaneCut {
  std::int64_t planes = 0;        ///< Groups of planes, of all images.
  std::int64_t input_bytes = 0;   ///< Of a group, padded.
  std::int64_t result_bytes = 0;  ///< Of a group.
  double flops = 0;               ///< Of all.

  [[nodiscard]] bool is_whole(int cores) const noexcept;
};

[[nodiscard]] Status run_tap_convolution(const TapConvolution& convolution, KernelContext& context);

}  // namespace hearth::cpu
