#include "tickets.hpp"

#include <exception>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

#include "device_endpoint.hpp"

namespace hearth {

std::string current_exception_text() {
  try {
    throw;
  } catch (const std::exception& thrown) {
    return thrown.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

ErrorRef log_thrown(DeviceEndpoint& endpoint, const char* thrower) noexcept {
  try {
    auto error = std::make_shared<const Error>(
        Error{.code = ErrorCode::worker_failed,
              .text = fmt::format("{} threw: {}", thrower, current_exception_text()),
              .device = endpoint.name()});
    const std::string line = fmt::format("device {}: {}", endpoint.name(), error->text);
    endpoint.tables().log.write_counted(detail::LogLevel::error, line, [&line] { return line; });
    return error;
  } catch (...) {
    return endpoint.tables().no_host_memory;
  }
}

void refuse(DeviceEndpoint& endpoint, GroupTicket& ticket, const ErrorRef& error) {
  if (ticket.joint.decision) {
    ticket.joint.decision->abort(error);
    // once: a group that already waits has had its call
    if (auto listener = std::exchange(ticket.joint.prepared, {})) {
      notify(endpoint, "the caller that waits for an update", listener, error);
    }
  }
}

void reject_ticket(DeviceEndpoint& endpoint, const OpView& op, const ErrorRef& error) {
  switch (op.kind()) {
    case OpKind::upload: {
      const auto ticket = take_ticket<UploadTicket>(op);
      return;
    }
    case OpKind::readback: {
      if (const auto ticket = take_ticket<ReadTicket>(op)) {
        notify(endpoint, "the reader of a tensor", ticket->finish, *ticket, error);
      }
      return;
    }
    case OpKind::lend: {
      if (const auto ticket = take_ticket<LendTicket>(op)) {
        notify(endpoint, "the receiver of lent bytes", ticket->ready, error);
      }
      return;
    }
    case OpKind::sync: {
      if (const auto ticket = take_ticket<SyncTicket>(op)) {
        notify(endpoint, "the caller that waits for a stream", ticket->finish, error);
      }
      return;
    }
    case OpKind::group_end: {
      if (const auto ticket = take_ticket<GroupTicket>(op)) {
        refuse(endpoint, *ticket, error);
        notify(endpoint, "the caller that waits for an update", ticket->finish, error);
      }
      return;
    }
    case OpKind::limit: {
      const std::unique_ptr<StopWatch> stop = take_stop(op);
      return;
    }
    default:
      return;
  }
}

void reject_lane(DeviceEndpoint& endpoint, Lane& lane, const ErrorRef& error) {
  do {
    while (const OpRecord* record = lane.front()) {
      reject_ticket(endpoint, OpView(*record, lane.front_blob()), error);
      lane.pop();
    }
  } while (lane.finish_turn() == Lane::Turn::more);
}

}  // namespace hearth
