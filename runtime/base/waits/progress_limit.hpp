// ProgressLimit: the limit of a wait without a deadline, which lasts as long as the awaited object
// makes progress. The limit runs from the last observed progress. The waiter checks kChecks times
// within it, so a hang is detected at most an eighth of the limit late.
// Threads: its owner's. Invariant: has_expired() returns true only after a check without progress.
#pragma once

#include <algorithm>
#include <cstdint>

#include <hearth/runtime/base/deadline.hpp>

namespace hearth {

class ProgressLimit final {
 public:
  /// `progress`: a number that changes with each progress of the awaited object.
  ProgressLimit(std::chrono::nanoseconds limit, std::uint64_t progress) noexcept
      : limit_(limit), end_(Deadline::in(limit)), progress_(progress) {}

  /// Returns when the limit ends without further progress.
  [[nodiscard]] Deadline deadline() const noexcept { return end_; }
  /// Returns when to call has_expired() next.
  [[nodiscard]] Deadline next_check() const noexcept {
    return std::min(end_, Deadline::in(limit_ / kChecks));
  }
  /// Returns whether the limit has passed without progress. Progress restarts it.
  [[nodiscard]] bool has_expired(std::uint64_t progress) noexcept {
    if (progress != progress_) {
      progress_ = progress;
      end_ = Deadline::in(limit_);
      return false;
    }
    return end_.has_passed();
  }

 private:
  static constexpr int kChecks = 8;

  std::chrono::nanoseconds limit_;
  Deadline end_;
  std::uint64_t progress_;
};

}  // namespace hearth
