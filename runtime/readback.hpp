// Small shared steps of everything that waits for a device: the helper that borrows its token, records with tickets, questions to the
// actor. Private to runtime.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <hearth/runtime/base/pending.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "device_actor.hpp"
#include "device_endpoint.hpp"
#include "stream_state.hpp"

namespace hearth {

/// Lets whoever waits run the device's loop meanwhile. Keeps the endpoint alive as long as the pending.
[[nodiscard]] PendingHelper helper_of(DeviceEndpoint& endpoint) noexcept;

/// Submits a record that carries a ticket; the ticket belongs to the device once this returns.
template <class Ticket>
void submit_ticket(StreamState& stream, OpRecord& record, std::unique_ptr<Ticket> ticket) {
  const TicketAttributes attributes{.ticket = ticket.get()};
  std::memcpy(record.immediate, &attributes, sizeof attributes);
  stream.submit(record, {});
  static_cast<void>(ticket.release());
}

/// The promise gets what `make` gives or throws.
template <class Answer, class Make>
void fulfil_with(Promise<Answer>& promise, const Make& make) {
  try {
    promise.set_value(make());
  } catch (const Exception& thrown) {
    promise.set_error(thrown.shared_error());
  } catch (const std::exception& thrown) {
    promise.set_error(
        std::make_shared<const Error>(Error{.code = ErrorCode::internal, .text = thrown.what()}));
  }
}

/// Asks the actor, once it has consumed what is queued, and waits for the answer.
template <class Answer, class Question>
[[nodiscard]] Answer ask_actor(DeviceEndpoint& endpoint,
                               Question question,
                               std::optional<Duration> limit = std::nullopt) {
  if (endpoint.is_closed()) {
    throw_error(endpoint.closed_error());
  }
  Promise<Answer> promise(
      PendingOptions{.subject = "an answer of the device", .helper = helper_of(endpoint)});
  Pending<Answer> pending = promise.pending();
  endpoint.post([promise = std::move(promise), question](DeviceActor& actor) mutable {
    actor.when_idle([promise = std::move(promise), question](DeviceActor& idle) mutable {
      fulfil_with(promise, [&] { return question(idle); });
    });
  });
  return limit ? std::move(pending).get(Deadline::in(*limit)) : std::move(pending).get();
}

}  // namespace hearth
