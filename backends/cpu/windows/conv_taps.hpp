// Convolution as a sum over taps, computed from padded planes by register tiles: the forward pass,
// and one stride phase of the input gradient. Threads: owner only; forks in the arena. Invariant:
// an output element is one sum over (channel, tap) in a fixed order, whatever the cut into tasks.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/backends/constant.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth::cpu {

class EpilogueBlocks;

/// Consumer of a convolution's results, in place of memory.
struct PlaneSink {
  /// Rows [first_row, first_row + rows) of some planes of the result, plane after plane, in the
  /// type of the sum.
  struct Block {
    std::byte* made = nullptr;  ///< May be overwritten.
    std::int64_t first_plane = 0;
    std::int64_t planes = 0;
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
  };
  using Take = void (*)(const void* context, const Block& block, std::byte* memory);

  Take take = nullptr;  ///< nullptr: no consumer. Called once for each block, on any thread.
  const void* context = nullptr;
  /// Blocks begin at multiples of this number of rows; 0: whole planes only.
  std::int64_t row_unit = 0;
  /// Returns the bytes that a thread needs to consume a block of `rows` rows of `planes` planes.
  std::int64_t (*memory_bytes)(const void* context,
                               std::int64_t planes,
                               std::int64_t rows) = nullptr;
};

/// One input position of a window, relative to (row · row_stride, column · column_stride), and the
/// place of its weight.
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
  Constant* constant = nullptr;  ///< The weights, if their packed form may be cached.
  ConstantForm form = {};        ///< Key of the cached form, without the packing parameters.
  std::int64_t group_step = 0;
  std::int64_t output_step = 0;
  std::int64_t input_step = 0;
  std::span<const ConvTap> taps;
  std::int64_t groups = 1;
  std::int64_t inputs = 0;   ///< Channels of one group of x.
  std::int64_t outputs = 0;  ///< Channels of one group of y.
  std::int64_t rows = 0;     ///< Number of rows of y that are written.
  std::int64_t columns = 0;
  std::int64_t row_stride = 1;
  std::int64_t column_stride = 1;
  std::int64_t y_first_row = 0;
  std::int64_t y_first_column = 0;
  std::int64_t y_row_step = 1;
  std::int64_t y_column_step = 1;
  /// Rows of the op's result that x, y, rows and columns hold as one.
  std::int64_t merged_rows = 1;
  PlaneSink sink = {};                       ///< Set: consumes the results, and y has no bytes.
  const EpilogueBlocks* epilogue = nullptr;  ///< Runs on each block of y once it is final.
};

/// Tiles over (pixel, output channel) read the input by scalars and the weights by vectors; their
/// results must be transposed. Tiles over (output channel, pixel) do the opposite, and suit short
/// sums and few output channels.
/// Windows: vectors along rows, for few output channels (conv_windows.hpp).
enum class TapForm : std::uint8_t { by_size, pixels_by_channels, channels_by_pixels, windows };

/// Choice among ways to cut a convolution. No choice changes a bit.
struct TapChoice {
  TapForm form = TapForm::by_size;
  std::int64_t block_pixels = 0;  ///< Results of a block in a row; 0: by size.
  std::int64_t plane_bytes = 0;   ///< Limit of a block's inputs; 0: by size.
};

/// Plan of a choice on one thread.
struct TapPlan {
  TapForm form = TapForm::by_size;
  std::int64_t block_rows = 0;
  std::int64_t unit_groups = 1;  ///< Groups of a task, in the form `windows`.

  friend bool operator==(const TapPlan&, const TapPlan&) = default;
};

/// Cut of a convolution into whole planes of its groups. is_whole() returns whether there are
/// enough of them for the cores, and whether inputs and results of a group fit in a core's cache.
struct PlaneCut {
  std::int64_t planes = 0;        ///< Groups of planes over all images.
  std::int64_t input_bytes = 0;   ///< Padded input of one group.
  std::int64_t result_bytes = 0;  ///< Result of one group.
  double flops = 0;               ///< The whole convolution.

  [[nodiscard]] bool is_whole(int cores) const noexcept;
};

/// Whether a sum runs over the taps of a channel before the next channel. So it does if the weights
/// of a channel are contiguous.
[[nodiscard]] bool has_taps_inside(const TapConvolution& convolution) noexcept;

/// Runs a choice of tiles; `windows` counts as by_size.
[[nodiscard]] Status run_tap_convolution(const TapConvolution& convolution,
                                         const TapChoice& choice,
                                         KernelContext& context);
/// Returns the plan of a convolution of this choice.
[[nodiscard]] TapPlan plan_tap_convolution(const TapConvolution& convolution,
                                           const KernelContext& context,
                                           const TapChoice& choice);

}  // namespace hearth::cpu
