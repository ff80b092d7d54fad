// Device: a cheap handle to one device of a Runtime. Copyable, any thread. Outlives its Runtime
// harmlessly (then every use throws device_closed).
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
  std::int64_t in_place_count = 0;  ///< outputs that took the bytes of a last-used input
  std::int64_t live_tensor_count = 0;
  double fragmentation = 0;  ///< 1 - largest free / free
};

/// What a device reaches at most.
struct DevicePeaks {
  double copy_bytes_per_second = 0;  ///< Bytes that a copy reads; it writes as many.
  double additions_per_second = 0;   ///< Of f32, in one kernel, where nothing waits for memory.

  /// How many additions take as long as one byte that is written and read back.
  [[nodiscard]] double additions_per_byte() const noexcept {
    return additions_per_second / copy_bytes_per_second;
  }
  /// "copies 12.3 GB/s, adds 45.6 G numbers/s, 3.7 additions a byte"
  [[nodiscard]] std::string to_string() const;
};

/// What an actor has done so far. Counts.
struct DeviceStatistics {
  std::uint64_t records = 0;        ///< records consumed
  std::uint64_t kernels = 0;        ///< those that the backend ran
  std::uint64_t poisoned_ops = 0;   ///< ops skipped or failed
  std::uint64_t tokens_lent = 0;    ///< times a waiting thread ran the device's loop
  std::uint64_t foreign_uses = 0;   ///< operands used by a lane that is not their home
  std::uint64_t joined_ops = 0;     ///< ops that ran as one kernel with like ops of other streams
  std::uint64_t fused_ops = 0;      ///< ops that ran as one kernel with their neighbours
  std::uint64_t fused_kernels = 0;  ///< of `kernels`, those
  std::uint64_t early_groups = 0;   ///< that ran op by op while their kernel was compiled
  std::uint64_t compiled = 0;     ///< kernels made from a text that no earlier run has left on disk
  std::uint64_t plans = 0;        ///< forms of such groups that the device knows
  std::uint64_t plan_hits = 0;    ///< groups whose form it knew already
  std::uint64_t plan_misses = 0;  ///< and those that were new to it
  std::uint64_t given_up_ops = 0;  ///< of poisoned_ops, those that a cancel, a stop or a deadline
                                   ///< of their stream kept from running
  std::uint64_t streams = 0;       ///< streams with records so far that have not ended
  /// How often the device stopped looking ahead in a stream, by WindowEnd. All 0 with Fusion::off.
  std::array<std::uint64_t, kWindowEndCount> window_ends = {};
  /// Of these, how often it had looked at all ops between two program boundaries: such windows are
  /// the same in every run of a program.
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

  /// "cpu:0"; `out << device` prints it.
  [[nodiscard]] const std::string& name() const;
  friend std::ostream& operator<<(std::ostream& out, const Device& device);
  /// Cores, instruction set, libraries, in one line.
  [[nodiscard]] const std::string& description() const;
  /// The logical CPUs that the device works on; empty = wherever the system likes. Threads that
  /// feed it do best there too.
  [[nodiscard]] const std::vector<int>& cores() const;
  /// Waits until all that this thread's stream submitted here is done: as long as the device gets
  /// on (RuntimeOptions::wait_limit), or for `limit`.
  ///
  /// Errors: DeadlineExceeded, also when work of the device hangs; DeviceError when the device is
  /// lost or closed. Else the first failure of this stream's ops since its last sync() that nobody
  /// has read, as a read of their results throws it.
  void sync(SourceLoc loc = SourceLoc::current()) const;
  void sync(std::chrono::nanoseconds limit, SourceLoc loc = SourceLoc::current()) const;
  /// The same as a future.
  [[nodiscard]] Pending<void> sync_later(SourceLoc loc = SourceLoc::current()) const;
  /// For the library: sync_later() that says nothing of failed ops, which are for the program to
  /// read.
  [[nodiscard]] Pending<void> catch_up_later(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] MemoryStatistics memory(SourceLoc loc = SourceLoc::current()) const;
  /// The same and more: by kind, by pool, the rungs of the ladder.
  [[nodiscard]] MemoryReport memory_report(SourceLoc loc = SourceLoc::current()) const;
  /// The peaks start again from what is live and reserved now.
  void reset_peak_memory(SourceLoc loc = SourceLoc::current()) const;
  /// Gives memory that no tensor needs back to the machine; how many bytes that were.
  std::int64_t trim(SourceLoc loc = SourceLoc::current()) const;
  /// Who holds most of its memory, the largest first.
  [[nodiscard]] std::vector<LiveTensor> largest_tensors(int count = 10,
                                                        SourceLoc loc = SourceLoc::current()) const;
  /// Records which op gets and frees memory from now on; starts anew when it was on.
  ///
  /// Cost: a look at the clock for each op, and 64 bytes.
  void start_memory_trace(SourceLoc loc = SourceLoc::current()) const;
  /// What was written down; ends it. Empty when it was not on, or the device was restarted
  /// meanwhile.
  [[nodiscard]] MemoryTrace take_memory_trace(SourceLoc loc = SourceLoc::current()) const;
  /// For explain() (explanation.hpp): keeps which kernels run from now on; starts anew when it did.
  ///
  /// Cost: some allocations for each kernel.
  void start_explanation(SourceLoc loc = SourceLoc::current()) const;
  /// What was kept; ends it. Empty when nothing was, the device was restarted meanwhile, or host
  /// memory ran out.
  [[nodiscard]] Explanation take_explanation(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] DeviceStatistics statistics(SourceLoc loc = SourceLoc::current()) const;
  /// What was measured of it, now or in an earlier run: a tape decides by that which values it
  /// makes again instead of keeping them. A cpu device measures itself the first four times that it
  /// is opened on a machine, if there is a folder to keep it in; others by
  /// Runtime::measure_peaks(). Empty where nothing was, and where it decides nothing: in a runtime
  /// that is deterministic, steps by hand or does not fuse. Tapes go by estimates then.
  [[nodiscard]] std::optional<DevicePeaks> peaks() const;
  /// Whether it stopped working. Then its tensors and all that is asked of it fail with
  /// device_lost, until restart().
  [[nodiscard]] bool is_lost() const;
  /// Whether its Runtime has ended. Then all that is asked of it fails with device_closed.
  [[nodiscard]] bool is_closed() const;
  /// Begins a new generation, lost or not: a fresh backend with empty memory behind the same
  /// handles and streams. What was made or queued before stays lost: each use of it fails with
  /// device_lost. Other devices notice nothing. Waits as sync() does. Errors: those of opening the
  /// device, which then stays lost; DeadlineExceeded when its actor does not answer; DeviceError
  /// device_closed.
  void restart(SourceLoc loc = SourceLoc::current()) const;
  void restart(std::chrono::nanoseconds limit, SourceLoc loc = SourceLoc::current()) const;
  /// How often it was restarted.
  [[nodiscard]] std::uint64_t generation() const;
  [[nodiscard]] bool is_valid() const noexcept { return static_cast<bool>(endpoint_); }
  friend bool operator==(const Device& a, const Device& b) noexcept {
    return a.endpoint_ == b.endpoint_;
  }

  [[nodiscard]] DeviceEndpoint& endpoint() const;  ///< For the library.
  /// For results of others (workers) that come of work on this device: waits for them end as those
  /// for the device itself do.
  [[nodiscard]] detail::PendingHelper wait_terms() const;
  /// Its runtime's, for lines about what is done with the device. Threads: any.
  [[nodiscard]] detail::Log& log() const;
  /// Its runtime's, for the library. Threads: any.
  [[nodiscard]] detail::FailureBook& failures() const;

 private:
  [[nodiscard]] Pending<void> restart_later(SourceLoc loc) const;
  void note_restart() const;
  [[nodiscard]] Pending<void> sync_later(bool reports_failures, SourceLoc loc) const;

  IntrusivePtr<DeviceEndpoint> endpoint_;
};

}  // namespace hearth
