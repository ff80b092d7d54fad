// Tickets: what a client waits for or hands over beside a record (host bytes, promises, callbacks).
// A record carries a pointer and owns the ticket until take_ticket(). Private to runtime. Threads:
// made by the client, then the token holder's (a stopped device's producer's).
// Invariants: (1) what a ticket calls is the program's: notify() is the only way to call it; (2)
// the code that consumes a record takes its ticket last, when it has the answer; a record that ends
// otherwise, by an exception too, still has its ticket, and reject_ticket() answers it.
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

/// Bytes on their way from another device. Touched by the destination's token holder only, once the
/// client has queued both records.
struct Transfer {
  bool is_ready = false;
  std::vector<std::byte> bytes;
  ErrorRef error;
  LaneId waiting_lane;                  ///< the lane that is parked for it
  IntrusivePtr<DeviceEndpoint> source;  ///< the device that sends them
};

/// upload: the bytes and the owner that keeps them alive, or a transfer that brings them.
struct UploadTicket {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = {};
  std::shared_ptr<Transfer> transfer = {};
};

/// readback: where the bytes go; the actor calls `finish` with nullptr, or with the error that the
/// tensor carries.
struct ReadTicket {
  std::span<std::byte> target;
  std::vector<std::byte> bytes;      ///< Owns the target where the reader brought none.
  std::shared_ptr<void> owner = {};  ///< Keeps a target alive whose reader may give up waiting.
  UniqueFunction<void(ReadTicket& ticket, ErrorRef error)> finish;
  const Transfer* transfer = nullptr;  ///< The copy to another device that this is one half of.
};

/// sync: the actor calls `finish` with nullptr, or with the error. It runs on the token holder, so
/// it only fulfils promises.
struct SyncTicket {
  UniqueFunction<void(ErrorRef error)> finish;
  bool reports_failures = true;  ///< Or only what the device itself has to say.
};

/// group_end: `finish` as in SyncTicket. With a decision, the group waits for it once it is
/// prepared.
struct GroupTicket {
  UniqueFunction<void(ErrorRef error)> finish;
  JointUpdate joint;
};

/// lend: the actor calls `ready` with the region or with the error. It runs on the token holder, so
/// it only hands the region on.
struct LendTicket {
  UniqueFunction<void(Result<LentRegion> region)> ready;
  Deadline deadline = Deadline::never();
};

/// The ticket of a record, which keeps it; nullptr where the record has none, or none any more.
template <class Ticket>
[[nodiscard]] Ticket* ticket_in(const OpView& op) noexcept {
  return static_cast<Ticket*>(op.attributes<TicketAttributes>().ticket);
}

/// The same ticket, which belongs to the caller from now on: the record has none any more.
template <class Ticket>
[[nodiscard]] std::unique_ptr<Ticket> take_ticket(const OpView& op) noexcept {
  TicketAttributes attributes = op.attributes<TicketAttributes>();
  std::unique_ptr<Ticket> ticket(static_cast<Ticket*>(std::exchange(attributes.ticket, nullptr)));
  // The record lies in its lane's ring, which is its consumer's: no constant object.
  std::memcpy(const_cast<OpRecord&>(op.record()).immediate, &attributes, sizeof attributes);
  return ticket;
}

/// The stop of a limit record, in the same way; nullptr where it has none.
[[nodiscard]] inline std::unique_ptr<StopWatch> take_stop(const OpView& op) noexcept {
  LimitAttributes attributes = op.attributes<LimitAttributes>();
  std::unique_ptr<StopWatch> stop(static_cast<StopWatch*>(std::exchange(attributes.stop, nullptr)));
  std::memcpy(const_cast<OpRecord&>(op.record()).immediate, &attributes, sizeof attributes);
  return stop;
}

/// What the exception being handled says, whatever it is.
[[nodiscard]] std::string what_was_thrown();
/// The exception being handled, which `whom` threw, as an error; logged.
[[nodiscard]] ErrorRef note_thrown(DeviceEndpoint& endpoint, const char* whom) noexcept;

/// Calls a function of the program, which belongs to `whom`. An exception of it ends nothing here:
/// the log reports it, and a caller gets it that has a tensor to poison.
template <class Listener, class... Args>
ErrorRef notify(DeviceEndpoint& endpoint,
                const char* whom,
                Listener& listener,
                Args&&... args) noexcept {
  try {
    listener(std::forward<Args>(args)...);
    return nullptr;
  } catch (...) {
    return note_thrown(endpoint, whom);
  }
}

/// A joint group that cannot run says no.
void refuse(DeviceEndpoint& endpoint, GroupTicket& ticket, const ErrorRef& error);
/// Takes the ticket of a record that has no answer, and notifies the code that waits for it; does
/// nothing for a record whose ticket was taken.
void reject_ticket(DeviceEndpoint& endpoint, const OpView& op, const ErrorRef& error);
/// Consumes everything in a lane of a stopped device, failing what waits for it. Threads: the
/// actor's at its end, then the producer's.
void reject_lane(DeviceEndpoint& endpoint, Lane& lane, const ErrorRef& error);

}  // namespace hearth
