// Explanation: the kernels that a device made of a program's ops. For each kernel: the ops that it
// fused, the bytes that it moved, and why it did not include the op after it. Values. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/device.hpp>

namespace hearth {

/// One kernel that a device ran. Byte counts are of elements: bytes read twice, or expanded from
/// one element, count once; two parts of one tensor count as two.
struct ExplainedKernel {
  /// Names of its ops: "matmul", "mul+erf+add+mul", or "mul > matmul+add" for two stages.
  std::string name = {};
  std::int64_t op_count = 1;  ///< Number of ops in the kernel.
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  std::string module_path = {};  ///< Module path of its first op: "model.layers.3.inner", or empty.
  SourceLoc location = {};       ///< The user's call of its first op; line 0 = unknown.
  std::string boundary = {};     ///< The rule that closed it: why the next op is not part of it.

  friend bool operator==(const ExplainedKernel&, const ExplainedKernel&) = default;
};

namespace detail {
/// A repeated sequence of kernels: `length` of them from `first` on, `times` times.
struct RepeatedKernels {
  std::size_t first = 0;
  std::size_t length = 1;
  std::size_t times = 1;
};
/// Partitions the kernels into repeated sequences.
[[nodiscard]] std::vector<RepeatedKernels> repeated(const std::vector<ExplainedKernel>& kernels);
}  // namespace detail

/// All kernels of a device in the order of submission.
struct Explanation {
  std::string device = {};
  std::vector<ExplainedKernel> kernels = {};
  std::int64_t launches = 0;  ///< Calls of the backend; one may take several kernels.
  /// Ops that never ran, as no result of theirs was needed.
  std::int64_t unneeded_ops = 0;
  /// Bytes that a single kernel for the whole program would move: reads each earlier tensor once,
  /// writes each remaining tensor once.
  std::int64_t ideal_bytes = 0;

  [[nodiscard]] std::int64_t op_count() const noexcept;
  [[nodiscard]] std::int64_t bytes_read() const noexcept;
  [[nodiscard]] std::int64_t bytes_written() const noexcept;
  /// The launches saved compared with one launch for each op. Views count as none.
  [[nodiscard]] std::int64_t launches_saved() const noexcept;

  /// Formats one line for each kernel, with the rule that closed it below, and the sums. Repeated
  /// sequences have one line.
  [[nodiscard]] std::string to_string() const;
  [[deprecated("it is to_string() now, as everywhere")]] [[nodiscard]] std::string to_text() const {
    return to_string();
  }
  /// Formats one JSON object: device, ops, unneeded_ops, kernels, launches, launches_saved,
  /// bytes_read, bytes_written, ideal_bytes, and `runs`, the kernels one by one.
  [[nodiscard]] std::string to_json() const;
};

/// Runs `program`, which submits ops to the device, and waits for them on the calling thread's
/// stream. The result includes kernels that other streams run there meanwhile. Devices make plans
/// when they first see a program, so run it once before to see its later runs.
///
/// Errors: those of `program`, and of Device::sync().
/// Threads: any. If two threads explain one device at once, the second call restarts the recording.
/// Cost: host memory for each kernel and tensor of the program.
[[nodiscard]] Explanation explain(const Device& device, const std::function<void()>& program);

}  // namespace hearth
