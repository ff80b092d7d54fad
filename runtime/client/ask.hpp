// Helpers shared by all calls that wait for a device: borrow its token, submit a record with a
// ticket, send a question to the actor. Private to runtime.
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

/// Returns the helper that lets a waiting thread run the device's loop. The helper keeps the
/// endpoint alive as long as the pending does.
[[nodiscard]] detail::PendingHelper helper_of(DeviceEndpoint& endpoint) noexcept;

/// Submits a record that carries a ticket. The device owns the ticket once this returns.
template <class Ticket>
void submit_ticket(StreamState& stream, OpRecord& record, std::unique_ptr<Ticket> ticket) {
  const TicketAttributes attributes{.ticket = ticket.get()};
  std::memcpy(record.immediate, &attributes, sizeof attributes);
  stream.submit(record, {});
  static_cast<void>(ticket.release());
}

/// Sends the device a question of type `Question`, built from `fields` and a promise; returns the
/// pending answer.
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

/// Calls ask_later() and waits for the answer, at most `limit` where one is given.
/// Errors: as ask_later(), and DeadlineExceeded.
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
