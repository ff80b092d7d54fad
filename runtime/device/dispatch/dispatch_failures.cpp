// Failures of ops: their place in the program, their counts, and whether they were read.
#include "dispatch.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

#include "runtime/client/renamed.hpp"

namespace hearth {
namespace {

// Returns 3 from "index -1 at [3, 0] is outside …". Not every device reports the position.
std::string_view first_number(std::string_view text) {
  const std::size_t bracket = text.find('[');
  const std::size_t begin = bracket == text.npos ? text.size() : bracket + 1;
  const std::size_t end = text.find_first_not_of("0123456789", begin);
  return text.substr(begin, end == text.npos ? end : end - begin);
}

}  // namespace

// Copies the error: several ops may report the same one, each with its own place.
ErrorRef Dispatch::with_provenance(const Error& error, const OpView& op, LaneId lane) const {
  const bool is_group = op.kind() == OpKind::group_begin || op.kind() == OpKind::group_end;
  const std::string_view called =
      is_group ? "update group" : endpoint_.tables().op_name(op.record());
  Error full = renamed(error, name(op.kind()), called);
  const std::string_view hint = called_info(called_as(op.record().flags)).hint;
  if (!hint.empty() && error.code == ErrorCode::out_of_range) {
    const std::string_view row = first_number(error.text);
    full.text = row.empty() ? fmt::format("{}: a row {}", called, hint)
                            : fmt::format("{}: row {} {}", called, row, hint);
  }
  full.module_path = endpoint_.tables().paths.path(op.record().path);
  full.device = endpoint_.name();
  full.stream = lane.value;
  full.sequence = op.record().sequence;
  full.location = endpoint_.tables().sources.location(op.record().source);
  return std::make_shared<const Error>(std::move(full));
}

ErrorRef Dispatch::failure_of(const Error& error, const OpView& op, LaneId lane) const {
  RuntimeTables& tables = endpoint_.tables();
  ErrorRef failure = tables.failures().enter(with_provenance(error, op, lane));
  if (tables.recorder.is_on()) {
    tables.recorder.register_failure(endpoint_, lane, op.record().sequence, *failure);
  }
  return failure;
}

void Dispatch::account(const ErrorRef& error, LaneState& lane) {
  ++statistics_.poisoned_ops;
  if (detail::Failure* const failure = detail::find_failure(*error)) {
    failure->count_op();
  }
  register_failure(error, lane);
}

void Dispatch::account_late(const ErrorRef& error, LaneState* lane) {
  if (lane != nullptr) {
    account(error, *lane);
  } else {
    ++statistics_.poisoned_ops;
  }
}

void Dispatch::register_failure(const ErrorRef& error, LaneState& lane) {
  detail::Failure* const failure = detail::find_failure(*error);
  if (failure == nullptr || failure->is_read()) {
    return;
  }
  std::vector<UnreadFailure>& unread = lane.failures;
  const auto is_same = [failure](const UnreadFailure& each) {
    return each.failure.get() == failure;
  };
  if (std::ranges::any_of(unread, is_same)) {
    return;
  }
  if (unread.size() == LaneState::kMostFailures) {
    std::erase_if(unread, [](const UnreadFailure& each) { return each.failure->is_read(); });
  }
  if (unread.size() < LaneState::kMostFailures) {
    unread.push_back({failure->shared_from_this(), error});
    has_new_failure_ = true;
    has_aftermath_ = true;
  }
}

ErrorRef Dispatch::thrown_by(const OpView& op, LaneId lane) const noexcept {
  try {
    return failure_of(
        Error{.code = ErrorCode::internal, .text = current_exception_text()}, op, lane);
  } catch (...) {
    return endpoint_.tables().no_host_memory;
  }
}

void Dispatch::log_mistake(const char* what) const noexcept {
  static_cast<void>(log_thrown(endpoint_, what));
}

ErrorRef Dispatch::error_of(const Status& status, const OpView& op, LaneId lane) {
  Error said = status.error();
  if (said.code == ErrorCode::deadline_exceeded && said.report.empty()) {
    said.report = detail::Report(fmt::format("watchdog report, open waits:{}\n  device {}: {}",
                                             endpoint_.tables().watchdog->waits(),
                                             endpoint_.name(),
                                             endpoint_.describe_holder()));
  }
  ErrorRef error = failure_of(said, op, lane);
  // The first op that meets the loss names it. Later errors report a lost device, with this op's
  // place.
  if (error->code == ErrorCode::device_lost && !lost_) {
    lost_ = error;
    endpoint_.mark_lost();  // before a reader of the error can query the state
    has_aftermath_ = true;  // the actor notifies the waiters of the loss
  }
  return error;
}

}  // namespace hearth
