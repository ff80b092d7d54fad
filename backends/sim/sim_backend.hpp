// A simulated device: the oracle's results, or none, in virtual time and with planned faults.
// For tests of everything above a backend, and for measuring the runtime without kernels.
// Owned by its device, driven by its actor: no locks; the clock's functions too are for the owner.
// Invariants: (1) ops finish in the order of submit, each `cost` after the later of its submission
// and its predecessor's end; (2) submitted() counts every accepted op, a planned failure too; (3) a
// lost device never completes anything again.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/sim/fault_plan.hpp>
#include <hearth/backends/sim/sim_cost.hpp>
#include <hearth/memory/host_page_provider.hpp>

namespace hearth::sim {

enum class ClockMode : std::uint8_t {
  follows_work,  ///< The clock jumps to the end of each op as it is submitted, so everything is
                 ///< completed.
  manual,        ///< The clock moves by advance() only; completed() lags behind submitted().
};

struct SimOptions {
  std::string name = "sim:0";
  /// false: kernels are not run, outputs keep whatever bytes they had. Uploads and downloads copy
  /// either way.
  bool computes = true;
  bool is_host = true;
  ClockMode clock = ClockMode::follows_work;
  SimCost cost = roofline_cost();
  FaultPlan faults = {};
  std::int64_t budget_bytes = HostPageOptions{}.budget_bytes;  ///< Of all pages.
};

class SimBackend final : public Backend {
 public:
  explicit SimBackend(SimOptions options = {});

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] PageProvider& pages() noexcept override { return pages_; }
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  /// Always.
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept override;
  /// Results are there at once, whatever the clock says.
  ///
  /// Errors: those of reference::evaluate; kernel_failed and device_lost as planned, naming the
  /// submit.
  [[nodiscard]] Status submit(const KernelCall& call) override;
  /// Errors: device_lost.
  [[nodiscard]] Status upload(std::byte* to, std::span<const std::byte> from) override;
  [[nodiscard]] Status download(std::span<std::byte> to, const std::byte* from) override;
  [[nodiscard]] std::uint64_t submitted() const noexcept override { return submitted_; }
  [[nodiscard]] std::uint64_t completed() noexcept override { return completed_; }

  /// Virtual time since the device was made.
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return now_; }
  /// When the last submitted op ends.
  [[nodiscard]] std::chrono::nanoseconds busy_until() const noexcept { return busy_until_; }
  /// Moves the clock on and completes what ends by then.
  void advance(std::chrono::nanoseconds duration);
  [[nodiscard]] bool is_lost() const noexcept { return is_lost_; }

 private:
  [[nodiscard]] Error lost() const;
  void spend(const KernelCall& call);
  void complete();

  SimOptions options_;
  BackendInfo info_;
  HostPageProvider pages_;
  std::chrono::nanoseconds now_{0};
  std::chrono::nanoseconds busy_until_{0};
  std::deque<std::chrono::nanoseconds> ends_;  ///< Of the ops that are not completed, oldest first.
  std::uint64_t submitted_ = 0;
  std::uint64_t completed_ = 0;
  bool is_lost_ = false;
};

}  // namespace hearth::sim
