// Executes a FaultPlan: counts submits, compilations and downloads, and creates the planned errors.
// Private to the sims. Owned by one device: no locks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth::sim {

class PlannedFaults final {
 public:
  PlannedFaults(FaultPlan plan, std::string device);

  [[nodiscard]] const FaultPlan& plan() const noexcept { return plan_; }
  /// Compiles the call's kernel, unless an equal kernel was compiled before.
  ///
  /// Errors: kernel_failed, as planned.
  [[nodiscard]] Status compile(const KernelCall& call) {
    return plan_.failing_compiles.empty() ? Status() : compile_anew(call);
  }
  /// Number of the next submit.
  [[nodiscard]] std::uint64_t next_submit() const noexcept { return submitted_ + 1; }
  /// Counts a submit and returns its number.
  std::uint64_t count_submit() noexcept { return ++submitted_; }
  [[nodiscard]] std::uint64_t submitted() const noexcept { return submitted_; }
  [[nodiscard]] bool fails(std::uint64_t submit) const noexcept {
    return names(plan_.failing_submits, submit);
  }
  [[nodiscard]] bool fails_late(std::uint64_t submit) const noexcept {
    return names(plan_.late_failures, submit);
  }
  [[nodiscard]] bool forgets_order(std::uint64_t submit) const noexcept {
    return names(plan_.forgotten_barriers, submit);
  }
  /// Counts a download and returns whether its bytes are corrupted.
  [[nodiscard]] bool corrupts_next_download() noexcept {
    return names(plan_.corrupted_downloads, ++download_count_);
  }

  /// Error of a submit that fails as planned.
  [[nodiscard]] Error submit_failure(const KernelCall& call, std::uint64_t submit) const;
  /// Error of a lost device.
  [[nodiscard]] Error loss(const std::string& when) const;
  /// Time of the planned loss as text, for example "at 250 ns".
  [[nodiscard]] std::string time_of_loss() const;

 private:
  [[nodiscard]] static bool names(const std::vector<std::uint64_t>& numbers,
                                  std::uint64_t number) noexcept {
    return !numbers.empty() && std::ranges::find(numbers, number) != numbers.end();
  }
  [[nodiscard]] Status compile_anew(const KernelCall& call);
  [[nodiscard]] Error failure(const KernelCall& call, const std::string& what) const;

  FaultPlan plan_;
  std::string device_;
  std::set<std::string> compiled_;
  std::uint64_t compile_count_ = 0;
  std::uint64_t download_count_ = 0;
  std::uint64_t submitted_ = 0;
};

/// Flips one bit, by more than any rounding error.
void corrupt(std::span<std::byte> bytes) noexcept;

}  // namespace hearth::sim
