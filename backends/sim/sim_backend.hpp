// A simulated inline device: work has ended when submit() returns. Results come from the oracle, or
// are not computed; time is virtual and faults are planned.
// For tests of everything above a backend, and for measuring the runtime without kernels.
// async_sim.hpp is the asynchronous counterpart.
// Owned by its device, driven by its actor: no locks. The owner calls the clock's functions, too.
// Invariants: (1) the clock advances by each op's cost; (2) submitted() counts every accepted op,
// including planned failures; (3) a lost device completes no more work; (4) an op that hangs has no
// effect, nor has any later op: submit() fails for each with deadline_exceeded.
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
  /// If false, no kernel runs and outputs keep their old bytes. Uploads and downloads always copy,
  /// in zero virtual time.
  bool computes = true;
  SimCost cost = roofline_cost();
  FaultPlan faults = {};
  /// Limit on the bytes of all pages together.
  std::int64_t budget_bytes = HostPageOptions{}.budget_bytes;
  /// Checks each access with shadow memory. A faulty access is reported and fails (internal). All
  /// memory must come from pages().
  bool has_shadow = false;
};

class SimBackend final : public Backend, public KernelMaker, public CopyEngine {
 public:
  explicit SimBackend(SimOptions options = {});
  SimBackend(const SimBackend&) = delete;
  SimBackend& operator=(const SimBackend&) = delete;
  ~SimBackend() override;

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] PageProvider& pages() noexcept override;
  /// Returns the oracle's facts.
  [[nodiscard]] const KernelFacts& facts() const noexcept override { return facts_; }
  [[nodiscard]] KernelMaker& kernels() noexcept override { return *this; }
  [[nodiscard]] CopyEngine& copies() noexcept override { return *this; }
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  [[nodiscard]] Status prepare(const KernelCall& call) override;
  /// Errors: those of reference::evaluate; kernel_failed and device_lost as planned, with the
  /// number of the submit; deadline_exceeded for the op that hangs and every later op; internal for
  /// a finding of shadow memory.
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override;
  /// Errors: device_lost; internal; deadline_exceeded if a hanging op uses the bytes.
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> after) override;
  /// Errors: device_lost; internal; deadline_exceeded if a hanging op writes the bytes.
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> after) override;
  /// Reports on all work, whatever the points.
  /// Errors: device_lost; deadline_exceeded if an op hangs.
  [[nodiscard]] Status wait(std::span<const TimelinePoint> any_of, Deadline deadline) override;

  /// Number of submitted ops, including planned failures.
  [[nodiscard]] std::uint64_t submitted() const noexcept;
  /// Number of submitted ops that have ended.
  [[nodiscard]] std::uint64_t ended_ops() const noexcept { return ended_ops_; }
  /// Virtual time since the device was created.
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return now_; }
  /// Advances the clock.
  void advance(std::chrono::nanoseconds duration);
  [[nodiscard]] bool is_lost() const noexcept { return is_lost_; }
  /// Findings of shadow memory.
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
  const KernelFacts facts_;
  std::unique_ptr<PlannedFaults> faults_;
  std::unique_ptr<SimPages> pages_;
  std::chrono::nanoseconds now_{0};
  ShadowMemory shadow_;
  std::vector<ShadowReport> shadow_reports_;
  bool has_begun_ = false;  // whether the failed launch had begun
  bool is_hung_ = false;
  std::vector<ByteRange> stuck_reads_;  // of the hanging op and all later ones
  std::vector<ByteRange> stuck_writes_;
  std::uint64_t ended_ops_ = 0;
  bool is_lost_ = false;
  std::string when_lost_;
};

}  // namespace hearth::sim
