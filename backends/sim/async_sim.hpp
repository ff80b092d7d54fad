// A simulated asynchronous device: work is in flight in virtual time, and each piece takes effect
// at its end with the oracle's results. Faults come from a plan.
// Virtual time passes while a thread waits. A piece of work waits only for earlier work of its own
// stream on the same bytes and for the points in `after`. So a missing dependency shows as a read
// or a reuse of bytes that comes too early.
// Threads: as Backend. One Mutex guards everything; effects run under it, on the waiting thread.
// Invariants: (1) work that has not ended when the device is lost never ends; (2) no failure is
// dropped: a failure without an error cell is the status of the next wait() or submit().
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
  /// If false, no kernel runs and outputs keep their old bytes. Uploads and downloads always copy.
  bool computes = true;
  SimCost cost = roofline_cost();
  double copy_bytes_per_second = 12e9;
  FaultPlan faults = {};
  /// If true, FaultPlan::late_failures counts only ops with an error cell, so each planned failure
  /// is reported late.
  bool late_failures_name_cells = false;
  /// Limit on the bytes of all pages together.
  std::int64_t budget_bytes = HostPageOptions{}.budget_bytes;
  /// Number of queues, order of execution, random costs and shadow memory. With shadow memory, all
  /// memory must come from pages().
  SimSchedule schedule = {};
};

class AsyncSim final : public Backend, public KernelMaker, public CopyEngine, public BatchTimes {
 public:
  explicit AsyncSim(AsyncSimOptions options = {});
  AsyncSim(const AsyncSim&) = delete;
  AsyncSim& operator=(const AsyncSim&) = delete;
  ~AsyncSim() override;

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] PageProvider& pages() noexcept override;
  /// Every kind runs in place and accepts epilogues, but no prologue.
  [[nodiscard]] const KernelFacts& facts() const noexcept override { return facts_; }
  [[nodiscard]] KernelMaker& kernels() noexcept override { return *this; }
  [[nodiscard]] CopyEngine& copies() noexcept override { return *this; }
  [[nodiscard]] BatchTimes* times() noexcept override { return this; }
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  [[nodiscard]] Status prepare(const KernelCall& call) override;
  /// Errors: kernel_failed and device_lost as planned, with the number of the submit; internal for
  /// a finding of shadow memory, or for an earlier failure without an error cell.
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override HEARTH_EXCLUDES(mutex_);
  /// Reports at its end host bytes that changed since the call.
  /// Errors: device_lost; internal for a finding of shadow memory.
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> after) override
      HEARTH_EXCLUDES(mutex_);
  /// The host bytes are garbage until the point has ended.
  /// Errors: device_lost; internal for a finding of shadow memory.
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> after) override
      HEARTH_EXCLUDES(mutex_);
  /// Leaves the clock where it is.
  [[nodiscard]] std::uint64_t completed(std::uint8_t stream) noexcept override
      HEARTH_EXCLUDES(mutex_);
  /// Moves the clock to the first end of one of these points; with a cost seed sometimes a little
  /// further, as on a real device. Sleeps if the points hang.
  /// Errors: device_lost; deadline_exceeded if work hangs; internal, as submit().
  [[nodiscard]] Status wait(std::span<const TimelinePoint> any_of, Deadline deadline) override
      HEARTH_EXCLUDES(mutex_);
  /// Launch times in virtual time, shifted so that no launch begins before its submit.
  [[nodiscard]] std::vector<LaunchTime> take_launch_times() override HEARTH_EXCLUDES(mutex_);
  /// Errors: the kernel's failure; internal before the kernel's point has ended.
  [[nodiscard]] Status cell_status(ErrorCell cell) override HEARTH_EXCLUDES(mutex_);

  /// Virtual time since the device was created.
  [[nodiscard]] std::chrono::nanoseconds now() const HEARTH_EXCLUDES(mutex_);
  /// Advances the clock and ends the work that is due by then.
  void advance(std::chrono::nanoseconds duration) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] bool is_lost() const HEARTH_EXCLUDES(mutex_);
  /// Number of submitted ops, including planned failures.
  [[nodiscard]] std::uint64_t submitted() const HEARTH_EXCLUDES(mutex_);
  /// Number of pieces of work that the sim keeps: those in flight, and those whose end the host has
  /// not observed yet.
  [[nodiscard]] std::size_t remembered() const HEARTH_EXCLUDES(mutex_);
  /// Accesses that shadow memory found to come too early.
  [[nodiscard]] std::vector<ShadowReport> shadow_reports() const HEARTH_EXCLUDES(mutex_);
  /// Checks whether the host may now access memory by its address, for example the bytes of a loan.
  ///
  /// Errors: internal for a finding of shadow memory.
  [[nodiscard]] Status check_host_access(ByteRange range, bool writes) HEARTH_EXCLUDES(mutex_);

 private:
  struct StoredLaunch;

  [[nodiscard]] Status accept(const Launch& launch, std::uint64_t number) HEARTH_REQUIRES(mutex_);
  /// Whether the plan fails the launch that was accepted last, at its end.
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
  /// Number of further pieces of work after which a wait ends.
  [[nodiscard]] int pick_overrun() HEARTH_REQUIRES(mutex_);
  /// Result of wait() at this time; nullopt if the wait must go on.
  [[nodiscard]] std::optional<Status> progress(std::span<const TimelinePoint> any_of)
      HEARTH_EXCLUDES(mutex_);
  /// Removes and returns the oldest failure without an error cell.
  [[nodiscard]] std::optional<Error> take_stray_failure() HEARTH_REQUIRES(mutex_);
  [[nodiscard]] Status report(std::optional<ShadowReport> fault) HEARTH_REQUIRES(mutex_);
  void report_stray(std::optional<ShadowReport> fault) HEARTH_REQUIRES(mutex_);
  void lose(std::string when) HEARTH_REQUIRES(mutex_);
  [[nodiscard]] Error lost() const HEARTH_REQUIRES(mutex_);
  void wake_waiters_of_lost() HEARTH_EXCLUDES(mutex_);

  const AsyncSimOptions options_;
  const BackendInfo info_;
  const KernelFacts facts_{{.aliased_inputs = KindFacts::kAllInputs, .takes_epilogue = true}};
  std::unique_ptr<SimPages> pages_;  // touched by the owner only
  mutable detail::Mutex mutex_;
  const std::unique_ptr<PlannedFaults> faults_ HEARTH_PT_GUARDED_BY(mutex_);
  const std::unique_ptr<WorkStreams> work_ HEARTH_PT_GUARDED_BY(mutex_);
  std::map<ErrorCell, Error> cells_ HEARTH_GUARDED_BY(mutex_);  // cells with a failure
  std::deque<Error> stray_failures_ HEARTH_GUARDED_BY(mutex_);
  std::vector<ShadowReport> shadow_reports_ HEARTH_GUARDED_BY(mutex_);
  std::vector<LaunchTime> launch_times_ HEARTH_GUARDED_BY(mutex_);
  std::size_t timed_in_flight_ HEARTH_GUARDED_BY(mutex_) = 0;
  /// Offset from virtual time to the host's clock, equal for all launches that are timed together.
  std::chrono::nanoseconds host_lead_ HEARTH_GUARDED_BY(mutex_){0};
  std::uint64_t launches_with_cell_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::uint64_t random_ HEARTH_GUARDED_BY(mutex_);
  bool is_lost_ HEARTH_GUARDED_BY(mutex_) = false;
  std::string when_lost_ HEARTH_GUARDED_BY(mutex_);
  detail::WaitList waiters_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::sim
