// When the ops of a lane are given up before they begin: the limits that its stream has set, and
// how far it was cancelled. Private to runtime. Touched by the token holder only. Invariants: (1)
// what has begun is never given up; (2) is_set() is false in a lane that nobody limits, whose ops
// pay one branch.
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

/// Why a record is given up.
enum class GivenUp : std::uint8_t { cancelled, stopped, late };

/// The same as an error. Not made by over(), which needs no memory.
[[nodiscard]] Error error_of(GivenUp why);

class LaneLimit final {
 public:
  [[nodiscard]] bool is_set() const noexcept { return is_set_; }
  /// From the next record on, in place of what was set before.
  void set(Deadline deadline, std::unique_ptr<StopWatch> stop) noexcept {
    deadline_ = deadline;
    stop_ = std::move(stop);
    update();
  }
  /// Records up to this number are given up.
  void cancel_through(std::uint64_t sequence) noexcept {
    cancelled_through_ = std::max(cancelled_through_, sequence);
    update();
  }
  /// Why the next record, which has this number, is given up; none: it may begin.
  [[nodiscard]] std::optional<GivenUp> over(std::uint64_t sequence) noexcept;
  /// No record waits longer. Never: a cancel or a stop comes with a message.
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
