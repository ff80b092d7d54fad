// Small shared steps of everything that waits for a device: the helper that borrows its token,
// records with tickets, questions to the actor. Private to runtime.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <hearth/runtime/base/pending.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "device_endpoint.hpp"
#include "device_message.hpp"
#include "stream_state.hpp"

namespace hearth {

/// Lets the thread that waits run the device's loop meanwhile. Keeps the endpoint alive as long as
/// the pending.
[[nodiscard]] detail::PendingHelper helper_of(DeviceEndpoint& endpoint) noexcept;

/// Submits a record that carries a ticket; the ticket belongs to the device once this returns.
template <class Ticket>
void submit_ticket(StreamState& stream, OpRecord& record, std::unique_ptr<Ticket> ticket) {
  const TicketAttributes attributes{.ticket = ticket.get()};
  std::memcpy(record.immediate, &attributes, sizeof attributes);
  stream.submit(record, {});
  static_cast<void>(ticket.release());
}

/// Asks the device a question of this kind, with these `fields` before its promise.
/// Errors: DeviceError device_closed, now.
template <class Question, class... Fields>
[[nodiscard]] auto ask_later(DeviceEndpoint& endpoint, SourceLoc loc, Fields&&... fields) {
  require_open(endpoint, loc);
  PendingOptions options{
      .subject = "an answer of the device", .helper = helper_of(endpoint), .location = loc};
  if constexpr (requires { Question::kSubject; }) {
    options.subject = Question::kSubject;
  }
  decltype(Question::answer) promise(std::move(options));
  auto answer = promise.pending();
  endpoint.post(DeviceQuestion(Question{std::forward<Fields>(fields)..., std::move(promise)}));
  return answer;
}

/// The same, and waits for the answer. Errors: DeadlineExceeded besides.
template <class Question, class... Fields>
auto ask(DeviceEndpoint& endpoint,
         std::optional<std::chrono::nanoseconds> limit,
         SourceLoc loc,
         Fields&&... fields) {
  auto answer = ask_later<Question>(endpoint, loc, std::forward<Fields>(fields)...);
  return limit ? std::move(answer).get({.deadline = Deadline::in(*limit)})
               : std::move(answer).get();
}

}  // namespace hearth
