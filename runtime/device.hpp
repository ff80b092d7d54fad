// Device: a cheap handle to one device of a Runtime. Copyable, any thread. It may outlive its
// Runtime: then every use throws device_closed.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <hearth/memory/memory_report.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/fusion.hpp>
#include <hearth/runtime/tensor_origin.hpp>

namespace hearth {

class DeviceEndpoint;
struct Explanation;
namespace detail {
class FailureBook;
class Log;
}  // namespace detail

/// Exact figures of a device's memory. Units: bytes and counts.
struct MemoryStatistics {
  std::int64_t live_bytes = 0;
  std::int64_t reserved_bytes = 0;
  std::int64_t peak_live_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t budget_bytes = 0;
  std::int64_t allocation_count = 0;
  std::int64_t in_place_count = 0;  ///< Outputs that reused the memory of a last-used input.
  std::int64_t live_tensor_count = 0;
  double fragmentation = 0;  ///< 1 - largest free block / free bytes
};

/// Measured peak rates of a device.
struct DevicePeaks {
  /// Bytes that a copy reads each second; it writes the same number.
  double copy_bytes_per_second = 0;
  /// f32 additions each second, in one kernel that does not wait for memory.
  double additions_per_second = 0;

  /// The additions that take as long as one byte which is written and read back.
  [[nodiscard]] double additions_per_byte() const noexcept {
    return additions_per_second / copy_bytes_per_second;
  }
  /// Formats the rates: "copies 12.3 GB/s, adds 45.6 G numbers/s, 3.7 additions a byte".
  [[nodiscard]] std::string to_string() const;
};

/// Counters of a device's work so far.
struct DeviceStatistics {
  std::uint64_t records = 0;        ///< Records consumed.
  std::uint64_t kernels = 0;        ///< Records that the backend ran.
  std::uint64_t poisoned_ops = 0;   ///< Ops skipped or failed.
  std::uint64_t tokens_lent = 0;    ///< Times a waiting thread ran the device's loop.
  std::uint64_t foreign_uses = 0;   ///< Operands used by a lane that is not their home.
  std::uint64_t joined_ops = 0;     ///< Ops that ran as one kernel with like ops of other streams.
  std::uint64_t fused_ops = 0;      ///< Ops that ran as one kernel with their neighbours.
  std::uint64_t fused_kernels = 0;  ///< Fused kernels; `kernels` counts them too.
  /// Fused groups that ran op by op while their kernel was compiled.
  std::uint64_t early_groups = 0;
  std::uint64_t compiled = 0;     ///< Kernels compiled from text that was not in the disk cache.
  std::uint64_t plans = 0;        ///< Forms of fused groups that the device knows.
  std::uint64_t plan_hits = 0;    ///< Groups whose form was known.
  std::uint64_t plan_misses = 0;  ///< Groups whose form was new.
  /// Poisoned ops that a cancel, a stop or a deadline of their stream kept from running.
  std::uint64_t given_up_ops = 0;
  std::uint64_t streams = 0;  ///< Open streams that have submitted records.
  /// Number of closed windows for each WindowEnd. All 0 with Fusion::off.
  std::array<std::uint64_t, kWindowEndCount> window_ends = {};
  /// Closed windows that held all ops between two program boundaries. Such windows are the same in
  /// every run of a program.
  std::uint64_t whole_windows = 0;

  [[nodiscard]] std::uint64_t ends(WindowEnd why) const noexcept {
    return window_ends[static_cast<std::size_t>(why)];
  }
};

class Device {
 public:
  Device() noexcept;  ///< Empty: is_valid() is false, every use throws.
  explicit Device(IntrusivePtr<DeviceEndpoint> endpoint) noexcept;
  Device(const Device&);
  Device(Device&&) noexcept;
  Device& operator=(const Device&);
  Device& operator=(Device&&) noexcept;
  ~Device();

  /// The device's name, "cpu:0"; `out << device` prints it.
  [[nodiscard]] const std::string& name() const;
  friend std::ostream& operator<<(std::ostream& out, const Device& device);
  /// Cores, instruction set and libraries, in one line.
  [[nodiscard]] const std::string& description() const;
  /// The logical CPUs that the device works on; empty = no affinity. Threads that feed the device
  /// run best there too.
  [[nodiscard]] const std::vector<int>& cores() const;
  /// Waits until all work that this thread's stream submitted here is done: as long as the device
  /// makes progress (RuntimeOptions::wait_limit), or at most `limit`.
  ///
  /// Errors: DeadlineExceeded, also if work of the device hangs; DeviceError if the device is lost
  /// or closed. Otherwise the first unread failure of this stream's ops since its last sync(), as a
  /// read of their results would throw it.
  void sync(SourceLoc loc = SourceLoc::current()) const;
  void sync(std::chrono::nanoseconds limit, SourceLoc loc = SourceLoc::current()) const;
  /// Returns a pending that is ready when sync() would return.
  [[nodiscard]] Pending<void> sync_later(SourceLoc loc = SourceLoc::current()) const;
  /// For the library: sync_later() without failures of ops, which the program reads.
  [[nodiscard]] Pending<void> catch_up_later(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] MemoryStatistics memory(SourceLoc loc = SourceLoc::current()) const;
  /// memory() with details by kind and by pool, and the steps taken under memory pressure.
  [[nodiscard]] MemoryReport memory_report(SourceLoc loc = SourceLoc::current()) const;
  /// Resets the peaks to the bytes that are live and reserved now.
  void reset_peak_memory(SourceLoc loc = SourceLoc::current()) const;
  /// Returns unused memory to the system. Returns the number of bytes.
  std::int64_t trim(SourceLoc loc = SourceLoc::current()) const;
  /// The tensors that hold most of the memory, the largest first.
  [[nodiscard]] std::vector<LiveTensor> largest_tensors(int count = 10,
                                                        SourceLoc loc = SourceLoc::current()) const;
  /// Starts a trace of the ops that allocate and free memory. Restarts a running trace.
  ///
  /// Cost: a clock read for each op, and 64 bytes.
  void start_memory_trace(SourceLoc loc = SourceLoc::current()) const;
  /// Ends the trace and returns its events. Empty if no trace was on, or if the device was
  /// restarted meanwhile.
  [[nodiscard]] MemoryTrace take_memory_trace(SourceLoc loc = SourceLoc::current()) const;
  /// For explain() (explanation.hpp): starts to record the kernels that run. Restarts a running
  /// recording.
  ///
  /// Cost: some allocations for each kernel.
  void start_explanation(SourceLoc loc = SourceLoc::current()) const;
  /// Ends the recording of kernels and returns it. Empty if none was on, if the device was
  /// restarted meanwhile, or if host memory ran out.
  [[nodiscard]] Explanation take_explanation(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] DeviceStatistics statistics(SourceLoc loc = SourceLoc::current()) const;
  /// The peak rates, measured now or in an earlier run. A tape uses them to decide which values it
  /// recomputes instead of keeping them. A cpu device measures itself at its first four openings on
  /// a machine with a cache folder. Other devices are measured by Runtime::measure_peaks(). Empty
  /// if nothing was measured, and in a runtime that is deterministic, steps by hand or does not
  /// fuse. Tapes then use estimates.
  [[nodiscard]] std::optional<DevicePeaks> peaks() const;
  /// True if the device stopped working. Then its tensors and all calls fail with device_lost,
  /// until restart().
  [[nodiscard]] bool is_lost() const;
  /// True if its Runtime has ended. Then all calls fail with device_closed.
  [[nodiscard]] bool is_closed() const;
  /// Starts a new generation, lost or not: a fresh backend with empty memory behind the same
  /// handles and streams. Earlier tensors and queued work stay lost: each use fails with
  /// device_lost. Other devices are not affected. Waits like sync().
  /// Errors: those of opening the device, which then stays lost; DeadlineExceeded if its actor does
  /// not answer; DeviceError device_closed.
  void restart(SourceLoc loc = SourceLoc::current()) const;
  void restart(std::chrono::nanoseconds limit, SourceLoc loc = SourceLoc::current()) const;
  /// The number of restarts.
  [[nodiscard]] std::uint64_t generation() const;
  [[nodiscard]] bool is_valid() const noexcept { return static_cast<bool>(endpoint_); }
  friend bool operator==(const Device& a, const Device& b) noexcept {
    return a.endpoint_ == b.endpoint_;
  }

  [[nodiscard]] DeviceEndpoint& endpoint() const;  ///< For the library.
  /// For the library: whether a waiting thread may run the device's kernels itself. Otherwise the
  /// device works by itself, and several batches of work may be in flight.
  [[nodiscard]] bool runs_inline() const;
  /// The wait limits of this device, for results that others (workers) compute with it. Waits for
  /// such results end as waits for the device do.
  [[nodiscard]] detail::PendingHelper wait_terms() const;
  /// The log of its runtime. Threads: any.
  [[nodiscard]] detail::Log& log() const;
  /// The failure book of its runtime, for the library. Threads: any.
  [[nodiscard]] detail::FailureBook& failures() const;

 private:
  [[nodiscard]] Pending<void> restart_later(SourceLoc loc) const;
  void log_restart() const;
  [[nodiscard]] Pending<void> sync_later(bool reports_failures, SourceLoc loc) const;

  IntrusivePtr<DeviceEndpoint> endpoint_;
};

}  // namespace hearth
