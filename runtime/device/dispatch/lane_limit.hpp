// LaneLimit: when the ops of a lane are cancelled before they begin. It holds the limits of the
// lane's stream and the number of its last cancelled record. Private to runtime. Touched by the
// token holder only.
// Invariants: (1) an op that has begun is never cancelled; (2) is_set() is false in a lane without
// limits, whose ops pay one branch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/error.hpp>

#include "runtime/client/stop_watch.hpp"

namespace hearth {

/// Reason for which a record is cancelled: by cancel_through(), by a stop, or by its deadline.
enum class CancelReason : std::uint8_t { cancelled, stopped, late };

/// Converts the reason to an error. Separate from over(), which needs no memory.
[[nodiscard]] Error error_of(CancelReason why);

class LaneLimit final {
 public:
  [[nodiscard]] bool is_set() const noexcept { return is_set_; }
  /// Sets the limits from the next record on; replaces earlier ones.
  void set(Deadline deadline, std::unique_ptr<StopWatch> stop) noexcept {
    deadline_ = deadline;
    stop_ = std::move(stop);
    update();
  }
  /// Cancels all records up to this number.
  void cancel_through(std::uint64_t sequence) noexcept {
    cancelled_through_ = std::max(cancelled_through_, sequence);
    update();
  }
  /// Reason for which the next record, with this number, is cancelled; nullopt if it may begin.
  [[nodiscard]] std::optional<CancelReason> over(std::uint64_t sequence) noexcept;
  /// Time limit for waits of the lane's records. A cancel or a stop instead comes with a message.
  [[nodiscard]] Deadline deadline() const noexcept { return deadline_; }

 private:
  void update() noexcept {
    is_set_ = cancelled_through_ != 0 || stop_ != nullptr || !deadline_.is_never();
  }

  bool is_set_ = false;
  std::uint64_t cancelled_through_ = 0;
  Deadline deadline_ = Deadline::never();
  std::unique_ptr<StopWatch> stop_;
};

}  // namespace hearth
