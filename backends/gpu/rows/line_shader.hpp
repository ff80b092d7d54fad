// The shader that normalises lines, in its kinds, and the dispatches of a plan. Pure functions.
// Threads: any.
#pragma once

#include <cstdint>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "line_plan.hpp"

namespace hearth::gpu {

enum class LineKind : std::uint32_t {
  softmax,               ///< x to out
  log_softmax,           ///< x to out
  softmax_backward,      ///< gradient x and result y to out
  log_softmax_backward,  ///< gradient x and result y to out
  loss,                  ///< x and targets to losses, and to out if it is not 0
};

/// Addresses of a call, beside the lines of the plan. The plan's operands are x, y for the backward
/// kinds, and out unless it is 0.
struct LineCall {
  LineKind kind = LineKind::softmax;
  DType dtype = DType::f32;
  std::uint64_t x = 0;
  std::uint64_t y = 0;
  std::uint64_t out = 0;
  DType target_dtype = DType::i64;
  std::uint64_t targets = 0;
  std::int64_t target_step = 0;
  std::uint64_t losses = 0;
};

/// Errors: out_of_memory.
[[nodiscard]] Status encode_lines(const LineCall& call,
                                  const LinePlan& plan,
                                  KernelEncoder& encoder);

}  // namespace hearth::gpu
