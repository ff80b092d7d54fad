#include "lane_limit.hpp"

namespace hearth {

std::optional<CancelReason> LaneLimit::over(std::uint64_t sequence) noexcept {
  if (sequence <= cancelled_through_) {
    return CancelReason::cancelled;
  }
  if (cancelled_through_ != 0) {
    cancelled_through_ = 0;
    update();
  }
  if (stop_ && stop_->is_stopped()) {
    return CancelReason::stopped;
  }
  if (!deadline_.is_never() && deadline_.has_passed()) {
    return CancelReason::late;
  }
  return std::nullopt;
}

Error error_of(CancelReason why) {
  switch (why) {
    case CancelReason::cancelled:
      return {.code = ErrorCode::cancelled,
              .text = "cancelled before it ran: its stream was cancelled"};
    case CancelReason::stopped:
      return {.code = ErrorCode::cancelled,
              .text = "cancelled before it ran: a stop was requested"};
    case CancelReason::late:
    default:
      return {.code = ErrorCode::deadline_exceeded,
              .text = "cancelled before it ran: the deadline of its stream has passed"};
  }
}

}  // namespace hearth
