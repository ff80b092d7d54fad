// FusionLimit: limits how many groups of ops of a runtime are fused into one kernel. Rerunning a
// program with other limits finds the first group that gives a wrong result. Private to runtime.
// Threads: any.
// Invariant: with one submitting thread the numbers follow from the program; with several they
// depend on timing.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace hearth {

class FusionLimit final {
 public:
  /// Call before the first op.
  void set(std::uint64_t most) noexcept { most_ = most; }
  [[nodiscard]] bool is_set() const noexcept {
    return most_ != std::numeric_limits<std::uint64_t>::max();
  }
  enum class Admitted : std::uint8_t { yes, last, no };
  /// Decides whether the next group is fused; `last` marks the last one admitted.
  [[nodiscard]] Admitted admit() noexcept {
    const std::uint64_t number = count_.fetch_add(1, std::memory_order_acq_rel) + 1;
    return number < most_ ? Admitted::yes : number == most_ ? Admitted::last : Admitted::no;
  }
  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }

 private:
  std::uint64_t most_ = std::numeric_limits<std::uint64_t>::max();
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace hearth
