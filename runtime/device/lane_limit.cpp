#include "lane_limit.hpp"

namespace hearth {

std::optional<Error> LaneLimit::over(std::uint64_t sequence) noexcept {
  if (sequence <= cancelled_through_) {
    return Error{.code = ErrorCode::cancelled,
                 .text = "given up before it began: its stream was cancelled"};
  }
  if (cancelled_through_ != 0) {
    cancelled_through_ = 0;
    update();
  }
  if (stop_ && stop_->is_stopped()) {
    return Error{.code = ErrorCode::cancelled,
                 .text = "given up before it began: a stop was requested"};
  }
  if (!deadline_.is_never() && deadline_.has_passed()) {
    return Error{.code = ErrorCode::deadline_exceeded,
                 .text = "given up before it began: the deadline of its stream has passed"};
  }
  return std::nullopt;
}

}  // namespace hearth
