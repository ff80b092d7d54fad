// A simulated device on which work really is in flight: the oracle's results in virtual time, each
// at the end of its work, with planned faults. Time passes while somebody waits. It finds who reads
// or reuses bytes too early: a piece of work waits for earlier work of its own stream on the same
// bytes, for what `after` names, and for nothing else.
// Threads: as Backend. One Mutex guards everything; effects run under it, on the thread that waits.
// Invariants: (1) what has not ended when the device is lost never does; (2) no failure is lost:
// what no error cell takes is the status of the next wait() or submit().
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/sim/shadow_memory.hpp>
#include <hearth/backends/sim/sim_cost.hpp>
#include <hearth/memory/host_page_provider.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/runtime/base/sim_schedule.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/base/wait_list.hpp>

namespace hearth::sim {

class PlannedFaults;
class SimPages;
class WorkStreams;

struct AsyncSimOptions {
  std::string name = "sim:0";
  /// false: kernels are not run, outputs keep whatever bytes they had. Uploads and downloads copy
  /// either way.
  bool computes = true;
  SimCost cost = roofline_cost();
  double copy_bytes_per_second = 12e9;
  FaultPlan faults = {};
  /// FaultPlan::late_failures are numbers of the ops with an error cell among themselves, so that
  /// each of them comes late.
  bool late_failures_name_cells = false;
  std::int64_t budget_bytes = HostPageOptions{}.budget_bytes;  ///< Of all pages.
  /// Where memory is checked, all of it must come from pages().
  SimSchedule schedule = {};
};

class AsyncSim final : public Backend {
 public:
  explicit AsyncSim(AsyncSimOptions options = {});
  AsyncSim(const AsyncSim&) = delete;
  AsyncSim& operator=(const AsyncSim&) = delete;
  ~AsyncSim() override;

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] PageProvider& pages() noexcept override;
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  [[nodiscard]] Status prepare(const KernelCall& call) override;
  /// Always.
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept override;
  /// Errors: kernel_failed and device_lost as planned, naming the submit; internal what shadow
  /// memory finds, and an earlier failure that had no error cell.
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override HEARTH_EXCLUDES(mutex_);
  /// Notices at its end whether the host bytes have changed since the call.
  /// Errors: device_lost; internal, what shadow memory finds.
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> after) override
      HEARTH_EXCLUDES(mutex_);
  /// The host bytes are garbage up to the point.
  /// Errors: device_lost; internal, what shadow memory finds.
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> after) override
      HEARTH_EXCLUDES(mutex_);
  /// Does not move the clock.
  [[nodiscard]] std::uint64_t completed(std::uint8_t stream) noexcept override
      HEARTH_EXCLUDES(mutex_);
  /// Moves the clock, to the first end of one of these points; with a seed for costs sometimes a
  /// little further, as time on a device does. Sleeps where they hang.
  /// Errors: device_lost; deadline_exceeded where work hangs; internal, as submit().
  [[nodiscard]] Status wait(std::span<const TimelinePoint> any_of, Deadline deadline) override
      HEARTH_EXCLUDES(mutex_);
  /// In virtual time, moved so that no launch begins before the host has submitted it.
  [[nodiscard]] std::vector<LaunchTime> take_launch_times() override HEARTH_EXCLUDES(mutex_);
  /// Errors: what the kernel left; internal before its point.
  [[nodiscard]] Status cell_status(ErrorCell cell) override HEARTH_EXCLUDES(mutex_);

  /// Virtual time since the device was made.
  [[nodiscard]] std::chrono::nanoseconds now() const HEARTH_EXCLUDES(mutex_);
  /// Moves the clock on and ends what ends by then.
  void advance(std::chrono::nanoseconds duration) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] bool is_lost() const HEARTH_EXCLUDES(mutex_);
  /// Ops that were submitted, planned failures too.
  [[nodiscard]] std::uint64_t submitted() const HEARTH_EXCLUDES(mutex_);
  /// How many pieces of work it remembers: those in flight, and those of which the host does not
  /// know that they have ended.
  [[nodiscard]] std::size_t remembered() const HEARTH_EXCLUDES(mutex_);
  /// What was found of accesses that came too early.
  [[nodiscard]] std::vector<ShadowReport> shadow_reports() const HEARTH_EXCLUDES(mutex_);
  /// For memory that others read or write by its address, such as a loan: whether the host may do
  /// so now.
  ///
  /// Errors: internal, what shadow memory finds.
  [[nodiscard]] Status check_host_access(ByteRange range, bool writes) HEARTH_EXCLUDES(mutex_);

 private:
  struct StoredLaunch;

  [[nodiscard]] Status accept(const Launch& launch, std::uint64_t number) HEARTH_REQUIRES(mutex_);
  /// Whether the launch that was accepted last fails at its end, by plan.
  [[nodiscard]] bool fails_late(const Launch& launch) const HEARTH_REQUIRES(mutex_);
  [[nodiscard]] Status enqueue(const Launch& launch,
                               std::uint64_t number,
                               std::span<const TimelinePoint> after,
                               TimelinePoint& point) HEARTH_REQUIRES(mutex_);
  [[nodiscard]] Issue submit_locked(std::span<const Launch> batch,
                                    std::span<const TimelinePoint> after) HEARTH_REQUIRES(mutex_);
  void run(const StoredLaunch& launch) HEARTH_REQUIRES(mutex_);
  [[nodiscard]] std::chrono::nanoseconds cost_of(std::chrono::nanoseconds cost)
      HEARTH_REQUIRES(mutex_);
  [[nodiscard]] std::chrono::nanoseconds copy_cost(std::size_t size_bytes) HEARTH_REQUIRES(mutex_);
  /// After how many more pieces of work a wait ends.
  [[nodiscard]] int pick_overrun() HEARTH_REQUIRES(mutex_);
  /// What wait() returns now; nothing when it must go on.
  [[nodiscard]] std::optional<Status> progress(std::span<const TimelinePoint> any_of)
      HEARTH_EXCLUDES(mutex_);
  /// The next of the failures that no cell took.
  [[nodiscard]] std::optional<Error> take_stray_failure() HEARTH_REQUIRES(mutex_);
  [[nodiscard]] Status report(std::optional<ShadowReport> fault) HEARTH_REQUIRES(mutex_);
  void report_stray(std::optional<ShadowReport> fault) HEARTH_REQUIRES(mutex_);
  void lose(std::string when) HEARTH_REQUIRES(mutex_);
  [[nodiscard]] Error lost() const HEARTH_REQUIRES(mutex_);
  void wake_waiters_of_lost() HEARTH_EXCLUDES(mutex_);

  const AsyncSimOptions options_;
  const BackendInfo info_;
  std::unique_ptr<SimPages> pages_;  // by the owner alone
  mutable detail::Mutex mutex_;
  const std::unique_ptr<PlannedFaults> faults_ HEARTH_PT_GUARDED_BY(mutex_);
  const std::unique_ptr<WorkStreams> work_ HEARTH_PT_GUARDED_BY(mutex_);
  std::map<ErrorCell, Error> cells_ HEARTH_GUARDED_BY(mutex_);  // those with a failure
  std::deque<Error> stray_failures_ HEARTH_GUARDED_BY(mutex_);
  std::vector<ShadowReport> shadow_reports_ HEARTH_GUARDED_BY(mutex_);
  std::vector<LaunchTime> launch_times_ HEARTH_GUARDED_BY(mutex_);
  std::size_t timed_in_flight_ HEARTH_GUARDED_BY(mutex_) = 0;
  /// Of the host's clock beyond virtual time, the same for all that are timed together.
  std::chrono::nanoseconds host_lead_ HEARTH_GUARDED_BY(mutex_){0};
  std::uint64_t launches_with_cell_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::uint64_t random_ HEARTH_GUARDED_BY(mutex_);
  bool is_lost_ HEARTH_GUARDED_BY(mutex_) = false;
  std::string when_lost_ HEARTH_GUARDED_BY(mutex_);
  detail::WaitList waiters_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::sim
