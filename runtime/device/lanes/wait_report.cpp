#include "wait_report.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace hearth {
namespace {

/// Text of what a parked lane waits for.
std::string awaited_by(const LaneState& lane) {
  switch (lane.parked) {
    case ParkReason::slot:
      return "a tensor that another stream has not made yet";
    case ParkReason::lanes:
      return "other streams to be done with a tensor";
    case ParkReason::loan:
      return fmt::format("the bytes of loan {} to come back", lane.loan.number);
    case ParkReason::transfer:
      return "bytes from another device";
    case ParkReason::memory:
      return "memory that other streams release";
    case ParkReason::decision:
      return "the decision on its update";
    case ParkReason::device:
      return "the device to finish its work";
    case ParkReason::none:
      break;
  }
  return "nothing";
}

}  // namespace

std::string WaitReport::describe() const {
  std::string text = fmt::format("generation {}, {}; {} kernels given to it",
                                 endpoint_.generation(),
                                 endpoint_.is_lost() ? "lost" : "alive",
                                 dispatch_.kernel_count());
  if (!in_flight_.is_empty()) {
    text += fmt::format("; {}", describe_oldest());
  }
  queues_.for_each([&](const LaneState& lane) {
    if (lane.lane->front() != nullptr || lane.parked != ParkReason::none || lane.in_group) {
      text += "\n    " + describe(lane);
    }
  });
  return text;
}

// A renewable wait names its whole limit, not its next check.
std::string WaitReport::describe(const LaneState& lane) const {
  const std::uint64_t queued = lane.lane->pushed_seen() - lane.lane->consumed();
  std::string text = fmt::format("stream {}: {} ops queued", lane.id.value, queued);
  if (lane.parked != ParkReason::none) {
    text += fmt::format(", waits for {}: {}",
                        awaited_by(lane),
                        detail::time_left(lane.limit ? lane.limit->deadline() : lane.deadline));
  } else {
    text += lane.in_group ? ", in the middle of an update group" : ", ready to run";
  }
  if (lane.window.is_open()) {
    text += fmt::format(", the first {} of them looked at", lane.window.looked());
  }
  if (const OpRecord* next = lane.lane->front(); next != nullptr) {
    const SourceLoc source = endpoint_.tables().sources.location(next->source);
    text += fmt::format(
        "; next is op number {}, {}", next->sequence, endpoint_.tables().op_name(*next));
    if (source.line != 0) {
      text += fmt::format(", called at {}:{}", source.file, source.line);
    }
  }
  return text;
}

std::string WaitReport::describe_oldest() const {
  const std::optional<InFlight::Oldest> oldest = in_flight_.oldest(dispatch_.ended_ops());
  if (!oldest) {
    return in_flight_.is_empty() ? "" : "copies are in flight";
  }
  const OpRecord& record = oldest->record;
  const SourceLoc source = endpoint_.tables().sources.location(record.source);
  std::string text = fmt::format(
      "the device has been at op number {} of stream {}, {}{}",
      record.sequence,
      oldest->lane.value,
      endpoint_.tables().op_name(record),
      source.line == 0 ? "" : fmt::format(", called at {}:{}", source.file, source.line));
  if (oldest->since) {
    const std::chrono::duration<double> time =
        detail::current_context().clock().now() - *oldest->since;
    text += fmt::format(", for {:.3f} s", time.count());
  }
  return text;
}

ErrorRef WaitReport::hung(const OpView& op, const LaneState& lane) const {
  return late(op, lane, fmt::format("the device does not answer: {}", describe_oldest()));
}

detail::Report WaitReport::report() const {
  return detail::Report(fmt::format("watchdog report, open waits:{}\n  device {}: {}",
                                    endpoint_.tables().watchdog->waits(),
                                    endpoint_.name(),
                                    describe()));
}

ErrorRef WaitReport::late(const OpView& op, const LaneState& lane, std::string text) const {
  return dispatch_.failure_of(
      Error{.code = ErrorCode::deadline_exceeded, .text = std::move(text), .report = report()},
      op,
      lane.id);
}

}  // namespace hearth
