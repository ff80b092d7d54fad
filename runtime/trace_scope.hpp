// TraceScope: a stretch of a program written to a file that Perfetto shows and `hearth-bench trace`
// adds up: which kernels ran when, of which layer and line, and what waited for what. TracePart
// names a part of the program in it. HEARTH_TRACE_FILE traces a whole run, without a line of code.
//
//   {
//     const hearth::TraceScope trace(runtime, "step.json");
//     train_step();
//   }
//
// Owned by the code that traces; what is traced are all threads of the runtime.
// Invariants: (1) one trace at a time in a runtime; (2) the file is whole or not there; (3) while
// nothing is traced, an op pays one load for the possibility.
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
  /// So many events are kept, of 128 bytes each; of the others the file has the number.
  std::size_t max_events = detail::Trace::kDefaultMostEvents;
};

class [[nodiscard]] TraceScope final {
 public:
  /// Begins. Errors: ArgumentError when the runtime is traced already; FileError when the file
  /// cannot be written.
  TraceScope(const Runtime& runtime,
             std::filesystem::path file,
             TraceOptions options = {},
             SourceLoc loc = SourceLoc::current());
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  /// Ends, if stop() did not. A file that cannot be written is logged as an error.
  ~TraceScope();

  /// Ends, and writes the file. What the calling thread's stream has submitted is waited for, as
  /// sync() does; a device that does not finish it is a warning in the log, and the file goes
  /// without the rest. Other streams' work is traced as far as it has come.
  /// Errors: io_error; invalid_argument when it had ended.
  [[nodiscard]] Status stop();

 private:
  std::vector<Device> devices_;  // of the runtime; each keeps what they share
  std::filesystem::path file_;
  SourceLoc location_;
  bool is_open_ = false;
};

/// A part of the program, from here to the end of the scope, on the calling thread's own track.
/// Parts nest. Threads: one. Cost: one load while nothing is traced.
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
/// Writes what a trace of this device's runtime has kept.
[[nodiscard]] Status write_trace(const Device& device,
                                 const TraceLog& log,
                                 const std::filesystem::path& file);
}  // namespace detail

}  // namespace hearth
