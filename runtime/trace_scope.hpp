// TraceScope: traces part of a program to a file that Perfetto shows and `hearth-bench trace` sums
// up. The file has the times of kernels, their layers and lines, and the waits between them.
// TracePart names a part of the program in it. HEARTH_TRACE_FILE traces a whole run without code.
//
//   {
//     const hearth::TraceScope trace(runtime, "step.json");
//     train_step();
//   }
//
// Owned by the code that traces; covers all threads of the runtime.
// Invariants: (1) one trace at a time in a runtime; (2) the file is complete or absent; (3) without
// a trace, an op pays one load.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/trace.hpp>
#include <hearth/runtime/device.hpp>

namespace hearth {

class Runtime;

struct TraceOptions {
  /// Largest number of events kept, of 128 bytes each; the file holds the number of the others.
  std::size_t max_events = detail::Trace::kDefaultMostEvents;
};

class [[nodiscard]] TraceScope final {
 public:
  /// Starts the trace. Errors: ArgumentError if the runtime is already traced; FileError if the
  /// file cannot be written.
  TraceScope(const Runtime& runtime,
             std::filesystem::path file,
             TraceOptions options = {},
             SourceLoc loc = SourceLoc::current());
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  /// Ends the trace, if stop() did not. A file that cannot be written is logged as an error.
  ~TraceScope();

  /// Ends the trace and writes the file. Waits for work of the calling thread's stream, as sync()
  /// does. If a device does not finish it, the log warns and the file lacks the rest. Work of other
  /// streams is traced up to its current point.
  /// Errors: io_error; invalid_argument if the trace had ended.
  [[nodiscard]] Status stop();

 private:
  std::vector<Device> devices_;  // of the runtime; each keeps the shared state alive
  std::filesystem::path file_;
  SourceLoc location_;
  bool is_open_ = false;
};

/// Marks a part of the program, until the end of the scope, on the calling thread's own track.
/// Parts nest. Threads: one. Cost: one load without a trace.
class [[nodiscard]] TracePart final {
 public:
  TracePart(const Runtime& runtime, std::string_view name, SourceLoc loc = SourceLoc::current());
  TracePart(const Device& device, std::string_view name, SourceLoc loc = SourceLoc::current());
  TracePart(const TracePart&) = delete;
  TracePart& operator=(const TracePart&) = delete;
  ~TracePart();

 private:
  Device device_;  // empty: the trace was off when the part began
  detail::TraceEvent event_;
};

namespace detail {
/// Writes the recorded trace of this device's runtime.
[[nodiscard]] Status write_trace(const Device& device,
                                 const TraceLog& log,
                                 const std::filesystem::path& file);
}  // namespace detail

}  // namespace hearth
