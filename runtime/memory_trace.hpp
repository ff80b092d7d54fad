// MemoryTraceScope: who holds a runtime's memory during a stretch of a program, written to a file
// that `hearth-bench memory` draws: each tensor from its op to its end, with its layer and line.
//
//   {
//     const hearth::MemoryTraceScope trace(runtime, "step.memory.json");
//     train_step();
//   }
//
// Owned by the code that traces. Threads: one; what is traced is the work of all.
// Invariants: (1) one memory trace at a time in a runtime; (2) the file is whole or not there.
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
  /// Begins, on all devices of the runtime, once what was submitted before has run.
  /// Errors: ArgumentError when the runtime's memory is traced already; FileError when the file
  /// cannot be written; those of Device::sync(). Then nothing is traced.
  MemoryTraceScope(const Runtime& runtime,
                   std::filesystem::path file,
                   SourceLoc loc = SourceLoc::current());
  MemoryTraceScope(const MemoryTraceScope&) = delete;
  MemoryTraceScope& operator=(const MemoryTraceScope&) = delete;
  /// Ends, if stop() did not. What goes wrong is logged as an error.
  ~MemoryTraceScope();

  /// Ends, once what was submitted has run, and writes the file. Of more than a million changes
  /// the first are kept, as the log says. Errors: io_error; invalid_argument when it had ended;
  /// that of a device that does not answer.
  [[nodiscard]] Status stop();

 private:
  [[nodiscard]] Status write() const;
  /// Nothing is traced any more, and another one may begin.
  void give_up() noexcept;

  std::vector<Device> devices_;
  std::filesystem::path file_;
  bool is_open_ = false;
};

/// What a file of a MemoryTraceScope holds of a device.
struct DeviceMemoryTrace {
  std::string device;
  MemoryTrace events;
  std::shared_ptr<const std::set<std::string>> files = nullptr;  ///< Keeps the names in `events`.
};

/// Errors: io_error.
[[nodiscard]] Status write_memory_traces(const std::filesystem::path& file,
                                         std::span<const DeviceMemoryTrace> traces);
/// Errors: those of read_file; bad_format when it is no such file.
[[nodiscard]] Result<std::vector<DeviceMemoryTrace>> read_memory_traces(
    const std::filesystem::path& file);

}  // namespace hearth
