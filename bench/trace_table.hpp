// What a traced program's devices spent their time on, added up. Reads the files of TraceScope and
// HEARTH_TRACE_FILE. Values. Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hearth::bench {

/// What rows are made of.
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
  std::vector<std::string> devices;             ///< All that the file knows.
  std::map<std::string, double> busy_devices;   ///< Those that ran kernels: seconds of these.
  std::int64_t side_by_side_count = 0;          ///< Kernels that others may have overlapped.
  std::int64_t shared_out_count = 0;            ///< That share the time of several.
  std::int64_t as_seen_count = 0;               ///< Of devices without a clock.
  double kernel_seconds = 0;
  double wall_seconds = 0;  ///< From the first event to the last.
  std::int64_t dropped_count = 0;

  /// Lines for a person; `most_rows` of them, and one for the rest.
  [[nodiscard]] std::string to_text(TraceKey key, std::size_t most_rows) const;
};

/// What is added up.
struct TraceQuestion {
  TraceKey key = TraceKey::layer;
  std::string device = {};  ///< Its name; empty: all.
  std::size_t depth = 0;    ///< By layer: so many names of a path count; 0: all.
};

/// Errors: std::runtime_error where it is no such file, with the place at which it is none, or
/// knows no such device.
[[nodiscard]] TraceTable read_trace(const std::filesystem::path& file,
                                    const TraceQuestion& question);

/// A kernel's name and its seconds.
struct TimedKernel {
  std::string name;
  double seconds = 0;
};
/// Each kernel of a device in the order in which they ran. Errors: as read_trace().
[[nodiscard]] std::vector<TimedKernel> read_kernels(const std::filesystem::path& file,
                                                    const std::string& device);

/// The first so many names of a path: "layers.0" of "layers.0.attention" and 2; 0: all.
[[nodiscard]] std::string first_names(const std::string& path, std::size_t count);

}  // namespace hearth::bench
