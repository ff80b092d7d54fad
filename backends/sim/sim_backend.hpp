// A simulated device: the oracle's results, or none, in virtual time and with planned faults.
// For tests of everything above a backend, and for measuring the runtime without kernels.
// Owned by its device, driven by its actor: no locks; the clock's functions too are for the owner.
// Invariants: (1) an op begins when all earlier ops and copies that touch its bytes have ended, and
// on one queue all earlier ones; (2) submitted() counts every accepted op, a planned failure too;
// (3) a lost device never completes anything again.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/sim/shadow_memory.hpp>
#include <hearth/backends/sim/sim_cost.hpp>
#include <hearth/backends/sim/sim_machine.hpp>
#include <hearth/memory/host_page_provider.hpp>
#include <hearth/runtime/base/fault_plan.hpp>

namespace hearth::sim {

class PlannedFaults;

using hearth::FaultPlan;

enum class ClockMode : std::uint8_t {
  follows_work,  ///< The clock jumps to the end of each op as it is submitted, so everything is
                 ///< completed.
  manual,  ///< The clock moves by advance(), and where the host waits; completed() lags behind.
};

enum class Effects : std::uint8_t {
  at_submit,  ///< Bytes change when the op is submitted, whatever the clock says.
  at_end,     ///< Bytes change when the op ends, and downloads wait for their bytes.
};

struct SimOptions {
  std::string name = "sim:0";
  /// false: kernels are not run, outputs keep whatever bytes they had. Uploads and downloads copy
  /// either way.
  bool computes = true;
  ClockMode clock = ClockMode::follows_work;
  SimCost cost = roofline_cost();
  FaultPlan faults = {};
  std::int64_t budget_bytes = HostPageOptions{}.budget_bytes;  ///< Of all pages.
  int queues = 1;  ///< Ops go to the one that has the least to do.
  /// Engines for uploads and downloads; without one, copies take no time.
  int copy_engines = 0;
  double copy_bytes_per_second = 12e9;
  std::uint64_t reorder_seed = 0;  ///< Not 0: work that nothing orders runs in any order.
  Effects effects = Effects::at_submit;
  /// Checks each access; all memory must come from pages(). A fault is reported, and fails the
  /// access (internal).
  bool has_shadow = false;
};

class SimBackend final : public Backend {
 public:
  explicit SimBackend(SimOptions options = {});
  SimBackend(const SimBackend&) = delete;
  SimBackend& operator=(const SimBackend&) = delete;
  ~SimBackend() override;

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] PageProvider& pages() noexcept override;
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  /// Always.
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept override;
  /// Errors: those of reference::evaluate; kernel_failed and device_lost as planned, naming the
  /// submit; internal what shadow memory finds. With a manual clock and effects at the end, what
  /// evaluate() says is in late_failures().
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override;
  /// Errors: device_lost; internal.
  [[nodiscard]] Result<TimelinePoint> upload(std::byte* to,
                                             std::span<const std::byte> from,
                                             std::span<const TimelinePoint> after) override;
  /// Errors: device_lost; internal; deadline_exceeded when the bytes come from work that hangs.
  [[nodiscard]] Result<TimelinePoint> download(std::span<std::byte> to,
                                               const std::byte* from,
                                               std::span<const TimelinePoint> after) override;
  /// Moves the clock to the end of all work.
  /// Errors: device_lost; deadline_exceeded when some of it hangs.
  [[nodiscard]] Status wait(std::span<const TimelinePoint> any_of, Deadline deadline) override;
  [[nodiscard]] std::uint64_t submitted() const noexcept;
  [[nodiscard]] std::uint64_t ended_ops() noexcept;

  /// Virtual time since the device was made.
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept;
  /// When the last submitted work ends.
  [[nodiscard]] std::chrono::nanoseconds busy_until() const;
  /// Moves the clock on and completes what ends by then.
  void advance(std::chrono::nanoseconds duration);
  [[nodiscard]] bool is_lost() const noexcept { return is_lost_; }

  /// What shadow memory has found.
  [[nodiscard]] const std::vector<ShadowReport>& shadow_reports() const noexcept {
    return shadow_reports_;
  }
  /// For memory that others read or write by its address, such as a loan: whether the host may do
  /// so now. Noted like a copy's access.
  ///
  /// Errors: internal, what shadow memory finds.
  [[nodiscard]] Status check_host_access(ByteRange range, bool writes);
  [[nodiscard]] const std::vector<Error>& late_failures() const noexcept { return late_failures_; }

 private:
  class Pages;
  struct InFlight {
    std::uint64_t number = 0;  // of the machine's command
    std::vector<ByteRange> reads;
    std::vector<ByteRange> writes;
  };
  struct Access {
    std::vector<ByteRange> reads;
    std::vector<ByteRange> writes;
  };
  struct Enqueued {
    std::uint64_t number = 0;
    Status status;  // what shadow memory says
  };

  [[nodiscard]] Status run(const KernelCall& call);
  [[nodiscard]] Status copy_in(std::byte* to, std::span<const std::byte> from);
  [[nodiscard]] Status copy_out(std::span<std::byte> to, const std::byte* from);
  [[nodiscard]] Error lost() const;
  void lose(std::string why);
  [[nodiscard]] Status evaluate(const KernelCall& call) const;
  [[nodiscard]] Status submit_at_once(const KernelCall& call, bool fails);
  [[nodiscard]] Status submit_to_machine(const KernelCall& call, bool fails);
  /// Gives a command to the machine, behind what it must wait for, and checks its bytes.
  [[nodiscard]] Enqueued enqueue(SimCommand command, Access access, bool waits);
  [[nodiscard]] std::vector<std::uint64_t> conflicts(const Access& access);
  /// The host waits: the clock moves until the command has ended.
  [[nodiscard]] Status wait_for(std::uint64_t number);
  [[nodiscard]] Status copy(Access access, std::int64_t size_bytes, UniqueFunction<void()> effect);
  [[nodiscard]] Status report(std::optional<ShadowReport> fault);

  SimOptions options_;
  BackendInfo info_;
  std::unique_ptr<PlannedFaults> faults_;
  std::unique_ptr<Pages> pages_;
  /// Null where nothing is ever in flight: one queue, no copy engine, a clock that follows.
  std::unique_ptr<SimMachine> machine_;
  std::chrono::nanoseconds now_{0};  // without a machine
  ShadowMemory shadow_;
  std::vector<ShadowReport> shadow_reports_;
  std::vector<Error> late_failures_;
  std::deque<InFlight> in_flight_;
  std::deque<std::uint64_t> op_numbers_;  // of ops that are not known to have completed
  std::uint64_t completed_ = 0;
  bool is_lost_ = false;
  std::string why_lost_;
};

}  // namespace hearth::sim
