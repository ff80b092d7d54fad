// A trace as a file in the Chrome trace format, which Perfetto and chrome://tracing show: a process
// a device, with a track for its kernels, uploads, readbacks and collectives, and counters for its
// memory and queue; and one for the host, with a track for each thread's waits and parts.
// Stateless. Threads: any.
// Invariants: (1) events are sorted by time, and on a track they nest or follow one another: what
// overlaps gets a track of its own beside; (2) the file says how many events found no room.
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

/// What the numbers in events stand for.
struct TraceNames {
  const ShapeTable& shapes;
  const PathTable& paths;
};

/// The layer of a tensor's path: "blocks.0.weight" is of "blocks.0". A path without a point stands
/// for itself, and an optimizer's "mean.blocks.0.weight" for its parameter's.
[[nodiscard]] std::string_view layer_of(std::string_view path) noexcept;

/// Gives the file's text piece by piece. Errors: those of `write`.
[[nodiscard]] Status write_chrome_trace(const detail::TraceLog& log,
                                        const TraceNames& names,
                                        const std::function<Status(std::string_view)>& write);
/// Replaces or creates the file. Errors: io_error.
[[nodiscard]] Status write_chrome_trace(const detail::TraceLog& log,
                                        const TraceNames& names,
                                        const std::filesystem::path& path);

}  // namespace hearth
