// Plays an op trace through the public interface: tensors, streams and update groups, as its
// program did. Private to runtime; tests and the fuzzers use it. Threads: the caller's; one at a
// time.
// Invariant: an invalid trace, or one that exceeds the limits, is refused before any op runs.
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
  /// Whether the values that are left at the end are read, too.
  bool reads_all_at_end = false;
  /// The longest wait for one value.
  std::chrono::nanoseconds limit = kDefaultWait;
};

/// A value that was read.
struct PlayedRead {
  std::size_t op =
      0;  ///< The index of the readback in the trace, from 0; ops.size() for those at the end.
  std::size_t producer = 0;  ///< The index of the op that made the value.
  Operand operand;           ///< The value's operand in the trace.
  std::vector<std::byte> bytes = {};
  ErrorRef error = {};
  /// All bytes that it depends on are in the trace, so a comparison is meaningful.
  bool is_known = true;
};

struct PlayedTrace {
  std::vector<PlayedRead> reads;
  /// By the index of the group's end.
  std::vector<std::pair<std::size_t, ErrorRef>> failed_groups;
};

/// Plays a trace on one device for all of its devices, or on one for each. Bytes that the trace
/// lacks are generated: zeros for integers, else small pseudo-random numbers.
/// Errors: those of check_trace(); DeviceError, DeadlineExceeded if the devices do not accept the
/// ops.
[[nodiscard]] Result<PlayedTrace> play_trace(const OpTrace& trace,
                                             std::span<const Device> devices,
                                             const PlayOptions& options = {});

/// The largest difference of two sets of values.
struct Difference {
  double largest = 0;  ///< Maximum of |a - b| / (1 + |b|); infinity if only one is NaN or infinite.
  std::size_t at = 0;  ///< Index of the element.
  double a = 0;
  double b = 0;
};
/// Compares two byte ranges of equal size.
[[nodiscard]] Difference difference(DType dtype,
                                    std::span<const std::byte> a,
                                    std::span<const std::byte> b);
/// The accepted difference between two backends: 0 for integers and bool.
[[nodiscard]] double replay_tolerance(DType dtype) noexcept;

}  // namespace hearth
