// A trace as a file in the Chrome trace format, which Perfetto and chrome://tracing display.
// Each device is a process with a track for its kernels, uploads, readbacks and collectives, and
// with counters for its memory and queue. The host is a process with tracks for each thread's waits
// and parts.
// Stateless. Threads: any.
// Invariants: (1) events are sorted by time; on one track they nest or follow one another, and
// overlapping events get further tracks; (2) the file states the number of dropped events.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <hearth/runtime/base/path_table.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape_table.hpp>
#include <hearth/runtime/base/trace.hpp>

namespace hearth {

/// Tables that resolve the ids in events.
struct TraceNames {
  const ShapeTable& shapes;
  const PathTable& paths;
};

/// Returns the layer of a tensor's path: "blocks.0" for "blocks.0.weight". A path without a dot is
/// its own layer. An optimizer's "mean.blocks.0.weight" belongs to the parameter's layer.
[[nodiscard]] std::string_view layer_of(std::string_view path) noexcept;

/// Passes the file's text piece by piece to `write`.
///
/// Errors: those of `write`.
[[nodiscard]] Status write_chrome_trace(const detail::TraceLog& log,
                                        const TraceNames& names,
                                        const std::function<Status(std::string_view)>& write);
/// Replaces or creates the file.
///
/// Errors: io_error.
[[nodiscard]] Status write_chrome_trace(const detail::TraceLog& log,
                                        const TraceNames& names,
                                        const std::filesystem::path& path);

}  // namespace hearth
