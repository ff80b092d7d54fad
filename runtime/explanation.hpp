// What a device made of a program's ops: which of them ran as one kernel, the bytes that each
// kernel moved, and why it did not take in the op behind it. Values. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/device.hpp>

namespace hearth {

/// A kernel that a device ran. Bytes of elements: what a kernel reads twice, or what is expanded
/// from one element, counts once; two parts of one tensor count as two.
struct ExplainedKernel {
  std::string name = {};      ///< "matmul", "mul+erf+add+mul", "mul > matmul+add" of two stages.
  std::int64_t op_count = 1;  ///< How many ops it stands for.
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  std::string module_path = {};  ///< Of its first op: "model.layers.3.inner", or empty.
  SourceLoc location = {};       ///< Of its first op: the user's call; line 0 = unknown.
  std::string boundary = {};     ///< The rule that closed it: why the op behind it is not in it.

  friend bool operator==(const ExplainedKernel&, const ExplainedKernel&) = default;
};

namespace detail {
/// Kernels in a row that come again as they are: `length` of them, from `first` on, `times` times.
struct RepeatedKernels {
  std::size_t first = 0;
  std::size_t length = 1;
  std::size_t times = 1;
};
/// All of the kernels, each once.
[[nodiscard]] std::vector<RepeatedKernels> repeated(const std::vector<ExplainedKernel>& kernels);
}  // namespace detail

/// All kernels of a device in the order in which they were given to it.
struct Explanation {
  std::string device = {};
  std::vector<ExplainedKernel> kernels = {};
  std::int64_t launches = 0;  ///< Calls of the backend; one may take several kernels.
  /// Ops that never ran, as nobody needs their results.
  std::int64_t unneeded_ops = 0;
  /// What a single kernel for all of it would move: each tensor that was there before is read once,
  /// each that is left is written once.
  std::int64_t ideal_bytes = 0;

  [[nodiscard]] std::int64_t op_count() const noexcept;
  [[nodiscard]] std::int64_t bytes_read() const noexcept;
  [[nodiscard]] std::int64_t bytes_written() const noexcept;
  /// By how many there are fewer than if each op were one. Views are none, here or there.
  [[nodiscard]] std::int64_t launches_saved() const noexcept;

  /// A line for each kernel, with the rule that closed it below, and the sums. Those that come
  /// again and again, in a row or in turn, have one line.
  [[nodiscard]] std::string to_string() const;
  [[deprecated("it is to_string() now, as everywhere")]] [[nodiscard]] std::string to_text() const {
    return to_string();
  }
  /// One object: device, ops, unneeded_ops, kernels, launches, launches_saved, bytes_read,
  /// bytes_written, ideal_bytes, and `runs`, the kernels one by one.
  [[nodiscard]] std::string to_json() const;
};

/// Runs `program`, which submits ops to the device, and waits for them on the calling thread's
/// stream. What other streams run there meanwhile is in the answer too. A program that ran before
/// shows how it goes from then on: devices make plans at first sight. Threads: any. Where two
/// explain the same device at once, the second begins anew. Cost: host memory for each kernel and
/// tensor of the program.
///
/// Errors: those of `program`, and of Device::sync().
[[nodiscard]] Explanation explain(const Device& device, const std::function<void()>& program);

}  // namespace hearth
