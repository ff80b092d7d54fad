// ProgressLimit: the limit of a wait without a deadline, which lasts as long as the awaited object
// makes progress. The limit runs from the last observed progress. The waiter checks kLooks times
// within it, so a hang is detected at most an eighth of the limit late.
// Threads: its owner's. Invariant: is_over() returns true only after a check without progress.
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
  /// Returns when to call is_over() next.
  [[nodiscard]] Deadline next_look() const noexcept {
    return std::min(end_, Deadline::in(limit_ / kLooks));
  }
  /// Returns whether the limit has passed without progress. Progress restarts it.
  [[nodiscard]] bool is_over(std::uint64_t progress) noexcept {
    if (progress != progress_) {
      progress_ = progress;
      end_ = Deadline::in(limit_);
      return false;
    }
    return end_.has_passed();
  }

 private:
  static constexpr int kLooks = 8;

  std::chrono::nanoseconds limit_;
  Deadline end_;
  std::uint64_t progress_;
};

}  // namespace hearth
