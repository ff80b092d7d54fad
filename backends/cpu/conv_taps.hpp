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
  const EpilogueBlocks* epilogue = nullptr;  ///< Works on y, each block of it once that is final.
};

[[nodiscard]] Status run_tap_convolution(const TapConvolution& convolution, KernelContext& context);

}  // namespace hearth::cpu
