// Sums the time that a traced program's devices spent, from the files of TraceScope and
// HEARTH_TRACE_FILE. Values. Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hearth::bench {

/// Key of the rows.
enum class TraceKey : std::uint8_t { layer, op, line };

struct TraceRow {
  std::string name;  ///< Empty in a table by layer: ops without one.
  double seconds = 0;
  std::int64_t kernel_count = 0;
  std::int64_t op_count = 0;
};

/// Kernels of one or all devices by layer, op or line, the costliest first.
struct TraceTable {
  std::vector<TraceRow> rows;
  std::map<std::string, double> without_layer;  ///< Seconds by op.
  std::map<std::string, double> other_seconds;  ///< By track: "waits", "uploads", …
  std::vector<std::string> devices;             ///< All devices in the file.
  std::map<std::string, double> busy_devices;   ///< Devices that ran kernels, with their seconds.
  std::int64_t side_by_side_count = 0;          ///< Kernels that may have overlapped others.
  std::int64_t shared_out_count = 0;  ///< Kernels that share the measured time of several.
  std::int64_t as_seen_count = 0;     ///< Kernels of devices without a clock.
  double kernel_seconds = 0;
  double wall_seconds = 0;  ///< From the first event to the last.
  std::int64_t dropped_count = 0;

  /// Formats the table for a terminal: `most_rows` lines, and one for the rest.
  [[nodiscard]] std::string to_text(TraceKey key, std::size_t most_rows) const;
};

/// Selection of the events to sum.
struct TraceQuestion {
  TraceKey key = TraceKey::layer;
  std::string device = {};  ///< Name of the device; empty: all.
  std::size_t depth = 0;    ///< By layer: number of names of a path that count; 0: all.
};

/// Errors: std::runtime_error for a file that is no trace, with the position of the fault, or that
/// does not contain the device.
[[nodiscard]] TraceTable read_trace(const std::filesystem::path& file,
                                    const TraceQuestion& question);

/// A kernel's name and its seconds.
struct TimedKernel {
  std::string name;
  double seconds = 0;
};
/// Returns each kernel of a device in execution order. Errors: those of read_trace().
[[nodiscard]] std::vector<TimedKernel> read_kernels(const std::filesystem::path& file,
                                                    const std::string& device);

/// The first `count` names of a path: "layers.0" for "layers.0.attention" and 2; 0: all.
[[nodiscard]] std::string first_names(const std::string& path, std::size_t count);

}  // namespace hearth::bench
