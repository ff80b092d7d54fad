// ProgressLimit: how long somebody waits who names no deadline: for as long as what they wait for
// gets on. The limit runs from the last progress that was seen; the waiter looks kLooks times in
// it, so a hang is found an eighth of the limit late at most. Threads: its owner's. Invariant: it
// is over only after a look that found no progress.
#pragma once

#include <algorithm>
#include <cstdint>

#include <hearth/runtime/base/deadline.hpp>

namespace hearth {

class ProgressLimit final {
 public:
  /// `progress`: a number that changes whenever what is waited for gets on.
  ProgressLimit(std::chrono::nanoseconds limit, std::uint64_t progress) noexcept
      : limit_(limit), end_(Deadline::in(limit)), progress_(progress) {}

  /// When it is over, unless there is progress before.
  [[nodiscard]] Deadline deadline() const noexcept { return end_; }
  /// When to ask is_over() next.
  [[nodiscard]] Deadline next_look() const noexcept {
    return std::min(end_, Deadline::in(limit_ / kLooks));
  }
  /// Whether the limit has passed without progress; progress begins it anew.
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
