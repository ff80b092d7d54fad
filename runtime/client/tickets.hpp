// Tickets: what a client awaits or passes beside a record: host bytes, promises, callbacks. A
// record carries a pointer and owns the ticket until take_ticket(). Private to runtime.
// Threads: made by the client; then the token holder's (on a stopped device, the producer's).
// Invariants: (1) a ticket's callbacks belong to the program: only notify() calls them; (2) the
// code that consumes a record takes its ticket last, when it has the answer; (3) a record that ends
// otherwise, also by an exception, still has its ticket, and reject_ticket() answers it.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/unique_function.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/streams/lane.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_record.hpp>

#include "stop_watch.hpp"

namespace hearth {

class DeviceEndpoint;

/// Bytes on their way from another device. Accessed only by the destination's token holder, once
/// the client has queued both records.
struct Transfer {
  bool is_ready = false;
  std::vector<std::byte> bytes;
  ErrorRef error;
  LaneId waiting_lane;                  ///< the lane parked for the bytes
  IntrusivePtr<DeviceEndpoint> source;  ///< the device that sends the bytes
};

/// upload: the bytes and the owner that keeps them alive, or a transfer that delivers them.
struct UploadTicket {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = {};
  std::shared_ptr<Transfer> transfer = {};
};

/// readback: the target of the bytes. The actor calls `finish` with nullptr, or with the tensor's
/// error.
struct ReadTicket {
  std::span<std::byte> target;
  std::vector<std::byte> bytes;      ///< owns the target if the reader passed none
  std::shared_ptr<void> owner = {};  ///< keeps the target alive if the reader may abandon its wait
  UniqueFunction<void(ReadTicket& ticket, ErrorRef error)> finish;
  /// the copy to another device of which this is the source half
  const Transfer* transfer = nullptr;
};

/// sync: the actor calls `finish` with nullptr, or with the error. `finish` runs on the token
/// holder, so it only fulfils promises.
struct SyncTicket {
  UniqueFunction<void(ErrorRef error)> finish;
  bool reports_failures = true;  ///< false = reports only errors of the device itself
};

/// group_end: `finish` as in SyncTicket. A joint group waits for its decision once it is prepared.
struct GroupTicket {
  UniqueFunction<void(ErrorRef error)> finish;
  JointUpdate joint;
};

/// lend: the actor calls `ready` with the region or with the error. `ready` runs on the token
/// holder, so it only passes the region on.
struct LendTicket {
  UniqueFunction<void(Result<LentRegion> region)> ready;
  Deadline deadline = Deadline::never();
};

/// The ticket of a record, which keeps ownership; nullptr if the record has none or it was taken.
template <class Ticket>
[[nodiscard]] Ticket* ticket_in(const OpView& op) noexcept {
  return static_cast<Ticket*>(op.attributes<TicketAttributes>().ticket);
}

/// Moves the ticket out of a record to the caller; nullptr if it has none.
template <class Ticket>
[[nodiscard]] std::unique_ptr<Ticket> take_ticket(const OpView& op) noexcept {
  TicketAttributes attributes = op.attributes<TicketAttributes>();
  std::unique_ptr<Ticket> ticket(static_cast<Ticket*>(std::exchange(attributes.ticket, nullptr)));
  // The record lies in its lane's ring, which the consumer owns, so it is no const object.
  std::memcpy(const_cast<OpRecord&>(op.record()).immediate, &attributes, sizeof attributes);
  return ticket;
}

/// Moves the stop out of a limit record to the caller; nullptr if it has none.
[[nodiscard]] inline std::unique_ptr<StopWatch> take_stop(const OpView& op) noexcept {
  LimitAttributes attributes = op.attributes<LimitAttributes>();
  std::unique_ptr<StopWatch> stop(static_cast<StopWatch*>(std::exchange(attributes.stop, nullptr)));
  std::memcpy(const_cast<OpRecord&>(op.record()).immediate, &attributes, sizeof attributes);
  return stop;
}

/// The text of the exception being handled, of any type.
[[nodiscard]] std::string current_exception_text();
/// Converts the exception being handled, thrown by `thrower`, to an error and logs it.
[[nodiscard]] ErrorRef log_thrown(DeviceEndpoint& endpoint, const char* thrower) noexcept;

/// Calls a callback of the program, which `thrower` owns. An exception from it ends nothing here:
/// it is logged and returned, for callers with a tensor to poison.
template <class Listener, class... Args>
ErrorRef notify(DeviceEndpoint& endpoint,
                const char* thrower,
                Listener& listener,
                Args&&... args) noexcept {
  try {
    listener(std::forward<Args>(args)...);
    return nullptr;
  } catch (...) {
    return log_thrown(endpoint, thrower);
  }
}

/// Votes no for a joint group that cannot run.
void refuse(DeviceEndpoint& endpoint, GroupTicket& ticket, const ErrorRef& error);
/// Takes the ticket of a record that has no answer and passes `error` to its callback. Has no
/// effect if the ticket was taken.
void reject_ticket(DeviceEndpoint& endpoint, const OpView& op, const ErrorRef& error);
/// Consumes every record in a stopped device's lane and rejects its tickets.
/// Threads: the actor's at its end, then the producer's.
void reject_lane(DeviceEndpoint& endpoint, Lane& lane, const ErrorRef& error);

}  // namespace hearth
