// A simulated device whose work has ended when it is submitted: the oracle's results, or none, in
// virtual time and with planned faults. For tests of everything above a backend, and for measuring
// the runtime without kernels. async_sim.hpp has work in flight.
// Owned by its device, driven by its actor: no locks; the clock's functions too are for the owner.
// Invariants: (1) the clock moves on by each op's cost; (2) submitted() counts every accepted op, a
// planned failure too; (3) a lost device never completes anything again; (4) an op that hangs never
// has its effect, nor has any after it: submit() fails for each with deadline_exceeded.
#pragma once

#include <chrono>
#include <cstdint>
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

namespace hearth::sim {

using hearth::FaultPlan;

class PlannedFaults;
class SimPages;
struct Access;

struct SimOptions {
  std::string name = "sim:0";
  /// false: kernels are not run, outputs keep whatever bytes they had. Uploads and downloads copy
  /// either way, in no time.
  bool computes = true;
  SimCost cost = roofline_cost();
  FaultPlan faults = {};
  std::int64_t budget_bytes = HostPageOptions{}.budget_bytes;  ///< Of all pages.
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
  [[nodiscard]] Status prepare(const KernelCall& call) override;
  /// Always.
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept override;
  /// As the oracle.
  [[nodiscard]] bool may_take_prologue(OpKind kind,
                                       int input,
                                       OpKind maker) const noexcept override;
  /// Errors: those of reference::evaluate; kernel_failed and device_lost as planned, naming the
  /// submit; deadline_exceeded for the op that hangs and all behind it; internal what shadow memory
  /// finds.
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override;
  /// Errors: device_lost; internal; deadline_exceeded where an op hangs that uses the bytes.
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> after) override;
  /// Errors: device_lost; internal; deadline_exceeded where the bytes come from an op that hangs.
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> after) override;
  /// For all work, whatever points are named.
  /// Errors: device_lost; deadline_exceeded when an op hangs.
  [[nodiscard]] Status wait(std::span<const TimelinePoint> any_of, Deadline deadline) override;

  /// Ops that were submitted, planned failures too.
  [[nodiscard]] std::uint64_t submitted() const noexcept;
  /// Of these, those that have ended.
  [[nodiscard]] std::uint64_t ended_ops() const noexcept { return ended_ops_; }
  /// Virtual time since the device was made.
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return now_; }
  /// Moves the clock on.
  void advance(std::chrono::nanoseconds duration);
  [[nodiscard]] bool is_lost() const noexcept { return is_lost_; }
  /// What shadow memory has found.
  [[nodiscard]] const std::vector<ShadowReport>& shadow_reports() const noexcept {
    return shadow_reports_;
  }

 private:
  [[nodiscard]] Status run(const KernelCall& call);
  [[nodiscard]] Status check(std::span<const ByteRange> reads, std::span<const ByteRange> writes);
  [[nodiscard]] Error hang(const KernelCall& call, const Access& access);
  [[nodiscard]] bool is_stuck(const ByteRange& bytes, bool writes) const;
  [[nodiscard]] Error stuck() const;
  void lose(std::string when);
  [[nodiscard]] Error lost() const;
  void note(std::optional<ShadowReport> fault);

  SimOptions options_;
  BackendInfo info_;
  std::unique_ptr<PlannedFaults> faults_;
  std::unique_ptr<SimPages> pages_;
  std::chrono::nanoseconds now_{0};
  ShadowMemory shadow_;
  std::vector<ShadowReport> shadow_reports_;
  bool has_begun_ = false;  // with the launch that failed
  bool is_hung_ = false;
  std::vector<ByteRange> stuck_reads_;  // of the op that hangs and those after it
  std::vector<ByteRange> stuck_writes_;
  std::uint64_t ended_ops_ = 0;
  bool is_lost_ = false;
  std::string when_lost_;
};

}  // namespace hearth::sim
