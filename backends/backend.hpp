// The backend seam: what a device type must offer. One Backend object belongs to one device and is
// driven by its actor. Threads: owner only (the holder of the device's token), except info(). A
// backend runs work in the order of submit; completed() tells how far it is. Host backends finish
// inside submit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <hearth/backends/kernel.hpp>
#include <hearth/backends/scratch_memory.hpp>
#include <hearth/memory/page_provider.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth {

struct BackendInfo {
  std::string name;         ///< "cpu:0"
  std::string description;  ///< "2 cores of ..., avx512, OpenBLAS 0.3.21 (pthread build)"
  bool is_host = true;  ///< Its memory is host memory and its work runs on the submitting thread:
                        ///< the token may be lent to a reader, which cannot leave a kernel. So
                        ///< never where a kernel may hang.
  int core_count = 1;
  bool computes = true;  ///< false: results are undefined (a sim that only keeps time).
};

/// How far a batch came: the calls before `done` have run, and where that is not all of them,
/// `status` is that of the next one.
struct BatchOutcome {
  std::size_t done = 0;
  Status status = {};
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual const BackendInfo& info() const noexcept = 0;
  /// Where the memory pool gets its pages.
  [[nodiscard]] virtual PageProvider& pages() noexcept = 0;
  /// Whether this op can run with these operands.
  [[nodiscard]] virtual Support supports(const KernelCall& call) const = 0;
  /// Whether output 0 may share the bytes of input `index` when both have the same size and dtype
  /// and are contiguous.
  [[nodiscard]] virtual bool may_alias(OpKind kind, int input_index) const noexcept = 0;
  /// How many calls like this one, which share all but input 0 and output 0, may run as one call
  /// with those two put together along their first axis, so that every result has the bits it has
  /// alone. 1: none.
  [[nodiscard]] virtual std::int64_t joinable_calls(const KernelCall& call) const noexcept {
    static_cast<void>(call);
    return 1;
  }
  /// Where kernels get the memory that they need while they run. The device calls it once, before
  /// the first op; a backend that is driven without a device has some of its own.
  virtual void use_scratch(ScratchMemory& scratch) noexcept { static_cast<void>(scratch); }
  /// The bytes that submit() of this call would take there, for ops that must not fail for want of
  /// them once others have run: those of an update group. 0: none, or that is not known before.
  [[nodiscard]] virtual std::int64_t scratch_bytes(const KernelCall& call) const noexcept {
    static_cast<void>(call);
    return 0;
  }
  /// Runs or enqueues one op. A failure is the op's own (kernel_failed, out_of_range, unsupported);
  /// device_lost is the device's. An op that finds no scratch memory has changed no input.
  [[nodiscard]] virtual Status submit(const KernelCall& call) = 0;
  /// Runs calls in this order, none of which reads or writes what another one writes; where one
  /// fails, those behind it do not run. A backend may run several as one launch.
  [[nodiscard]] virtual BatchOutcome submit_batch(std::span<const KernelCall> calls) {
    BatchOutcome outcome;
    for (const KernelCall& call : calls) {
      outcome.status = submit(call);
      if (!outcome.status.has_value()) {
        break;
      }
      ++outcome.done;
    }
    return outcome;
  }
  /// Copies between host memory and the device, in order with submit. `to`/`from` are device
  /// addresses of TensorView::data.
  [[nodiscard]] virtual Status upload(std::byte* to, std::span<const std::byte> from) = 0;
  [[nodiscard]] virtual Status download(std::span<std::byte> to, const std::byte* from) = 0;
  /// Waits until all that was submitted has ended; a host backend has nothing to wait for.
  /// Errors: device_lost; deadline_exceeded when some of it hangs.
  [[nodiscard]] virtual Status finish() { return {}; }
  /// Timeline values: the last submitted, and the last completed.
  [[nodiscard]] virtual std::uint64_t submitted() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t completed() noexcept = 0;
};

}  // namespace hearth
