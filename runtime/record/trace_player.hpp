// Runs an op trace again, through the front door: tensors, streams and update groups, as its
// program did. Private to runtime; tests and the fuzzers use it. Threads: the caller's; one at a
// time. Invariant: a trace that is not valid, or asks for more than the limits, is refused before
// anything of it runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include <hearth/runtime/device.hpp>
#include <hearth/streams/trace/op_trace.hpp>
#include <hearth/streams/trace/op_trace_checker.hpp>

namespace hearth {

struct PlayOptions {
  TraceLimits limits = {};
  /// Reads what is left at the end as well, as if the program had.
  bool reads_all_at_end = false;
  /// The longest wait for one value.
  std::chrono::nanoseconds limit = kDefaultWait;
};

/// A value that was read.
struct PlayedRead {
  std::size_t op =
      0;  ///< The place of the readback in the trace, from 0; ops.size() for those at the end.
  std::size_t maker = 0;  ///< The place of the op that made the value.
  Operand operand;        ///< As in the trace.
  std::vector<std::byte> bytes = {};
  ErrorRef error = {};
  /// What it was computed from is in the trace, so that it means something to compare it.
  bool is_known = true;
};

struct PlayedTrace {
  std::vector<PlayedRead> reads;
  std::vector<std::pair<std::size_t, ErrorRef>> failed_groups;  ///< By the place of their ends.
};

/// Plays on one device for all of the trace's, or on one for each.
/// Bytes that the trace lacks are made up: zeros for integers, else small numbers of no pattern.
/// Errors: those of check_trace(); DeviceError, DeadlineExceeded when the devices do not take the
/// ops.
[[nodiscard]] Result<PlayedTrace> play_trace(const OpTrace& trace,
                                             std::span<const Device> devices,
                                             const PlayOptions& options = {});

/// How far two sets of values lie apart.
struct Difference {
  double largest = 0;  ///< Of |a - b| / (1 + |b|); infinity where only one is NaN or infinite.
  std::size_t at = 0;  ///< The element.
  double a = 0;
  double b = 0;
};
/// Requires as many bytes in both.
[[nodiscard]] Difference difference(DType dtype,
                                    std::span<const std::byte> a,
                                    std::span<const std::byte> b);
/// What may lie between two backends: 0 for integers and bool.
[[nodiscard]] double replay_tolerance(DType dtype) noexcept;

}  // namespace hearth
