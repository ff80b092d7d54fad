// MemoryTraceScope: traces, to a file, which tensors hold a runtime's memory during part of a
// program. `hearth-bench memory` draws the file: each tensor from its op to its end, with its layer
// and line.
//
//   {
//     const hearth::MemoryTraceScope trace(runtime, "step.memory.json");
//     train_step();
//   }
//
// Owned by the code that traces. Threads: one; the trace covers the work of all threads.
// Invariants: (1) one memory trace at a time in a runtime; (2) the file is complete or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor_origin.hpp>

namespace hearth {

class Runtime;

class [[nodiscard]] MemoryTraceScope final {
 public:
  /// Starts the trace on all devices of the runtime, once previously submitted work has run.
  /// Errors: ArgumentError if the runtime's memory is already traced; FileError if the file cannot
  /// be written; those of Device::sync(). After an error nothing is traced.
  MemoryTraceScope(const Runtime& runtime,
                   std::filesystem::path file,
                   SourceLoc loc = SourceLoc::current());
  MemoryTraceScope(const MemoryTraceScope&) = delete;
  MemoryTraceScope& operator=(const MemoryTraceScope&) = delete;
  /// Ends the trace, if stop() did not. Errors are logged.
  ~MemoryTraceScope();

  /// Ends the trace once submitted work has run, and writes the file. Of more than a million
  /// changes the first are kept, and the log reports it.
  /// Errors: io_error; invalid_argument if the trace had ended; the error of a device that does not
  /// answer.
  [[nodiscard]] Status stop();

 private:
  [[nodiscard]] Status write() const;
  /// Abandons the trace, so that another one may begin.
  void abandon() noexcept;

  std::vector<Device> devices_;
  std::filesystem::path file_;
  bool is_open_ = false;
};

/// The part of a MemoryTraceScope's file for one device.
struct DeviceMemoryTrace {
  std::string device;
  MemoryTrace events;
  /// Owns the file names in `events`.
  std::shared_ptr<const std::set<std::string>> files = nullptr;
};

/// Writes traces to a file. Errors: io_error.
[[nodiscard]] Status write_memory_traces(const std::filesystem::path& file,
                                         std::span<const DeviceMemoryTrace> traces);
/// Reads a file of a MemoryTraceScope. Errors: those of read_file; bad_format if the file has
/// another format.
[[nodiscard]] Result<std::vector<DeviceMemoryTrace>> read_memory_traces(
    const std::filesystem::path& file);

}  // namespace hearth
