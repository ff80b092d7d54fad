// What the actor does with each message, and its answers.
#include "device_actor.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/client/tickets.hpp"

namespace hearth {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

/// The promise gets what `make` gives or throws.
template <class Answer, class Make>
void fulfil_with(Promise<Answer>& promise, const Make& make) {
  try {
    if constexpr (std::is_void_v<Answer>) {
      make();
      promise.set_value();
    } else {
      promise.set_value(make());
    }
  } catch (const Exception& thrown) {
    promise.set_error(thrown.shared_error());
  } catch (const std::exception& thrown) {
    promise.set_error(
        std::make_shared<const Error>(Error{.code = ErrorCode::internal, .text = thrown.what()}));
  }
}

}  // namespace

// What a memory strategy or a backend throws into it must not end the loop.
void DeviceActor::receive(DeviceMessage& message) {
  try {
    std::visit(
        Overloaded{[this](const DropOutside& drop) { drop_from_outside(drop.slot, drop.uses); },
                   [this](TransferArrived& arrival) { accept_transfer(arrival); },
                   [this](const EndLoan& end) { end_loan(end.lane, end.loan, end.status); },
                   [this](const RecallLoan& recall) {
                     recall_loan(recall.lane, recall.loan, recall.error);
                   },
                   [this](RunOnLoan& run) { run_on_loan(run); },
                   [this](const SetPriority& set) { set_priority(set.lane, set.priority); },
                   [this](const GiveUp& give) { give_up(give.lane, give.through); },
                   [this](const SettleUpdate& settle) { settle_update(settle.lane); },
                   [this](const StopDevice& stop) {
                     is_stopping_ = true;
                     stop_limit_ = stop.limit;
                   },
                   [this](DescribeWaits& ask) { ask.answer.set_value(describe()); },
                   [this](DeviceQuestion& question) { keep_question(std::move(question)); }},
        message);
  } catch (...) {
    static_cast<void>(note_thrown(*endpoint_, "a control message"));
  }
}

void DeviceActor::keep_question(DeviceQuestion question) {
  if (const auto* restart = std::get_if<RestartDevice>(&question)) {
    lose(restart->given_up);  // now: what is queued before it belongs to the generation that ends
  }
  questions_.push_back(std::move(question));
  question_turns_ = 0;
}

void DeviceActor::answer_questions() {
  for (DeviceQuestion& question : std::exchange(questions_, {})) {
    answer(question);
  }
}

void DeviceActor::answer(DeviceQuestion& question) {
  const auto reply = [](auto& ask, const auto& make) { fulfil_with(ask.answer, make); };
  MemoryStrategy& strategy = *memory_->strategy;
  std::visit(Overloaded{[&](AskMemory& ask) { reply(ask, [&] { return memory(); }); },
                        [&](AskMemoryReport& ask) { reply(ask, [&] { return memory_report(); }); },
                        [&](AskStatistics& ask) { reply(ask, [&] { return statistics(); }); },
                        [&](AskLargestTensors& ask) {
                          reply(ask, [&] {
                            return handles_.largest_tensors(ask.count, endpoint_->tables());
                          });
                        },
                        [&](ResetPeakMemory& ask) { reply(ask, [&] { strategy.reset_peak(); }); },
                        [&](TrimMemory& ask) { reply(ask, [&] { return strategy.trim(); }); },
                        [&](StartMemoryTrace& ask) { reply(ask, [&] { handles_.start_trace(); }); },
                        [&](TakeMemoryTrace& ask) {
                          reply(ask, [&] { return handles_.take_trace(endpoint_->tables()); });
                        },
                        [&](AwaitIdle& ask) { ask.answer.set_value(); },
                        [&](RestartDevice& ask) { reply(ask, [&] { restart(); }); }},
             question);
}

// ---- messages about lanes ----

void DeviceActor::accept_transfer(TransferArrived& arrival) {
  Transfer& transfer = *arrival.transfer;
  transfer.bytes = std::move(arrival.bytes);
  transfer.error = std::move(arrival.error);
  transfer.is_ready = true;
  LaneState* const lane = lanes_.find(transfer.waiting_lane);
  if (lane != nullptr && lane->parked == ParkReason::transfer) {
    unpark(*lane);
  }
}

// The work is the borrower's: what it throws must not end the loop.
void DeviceActor::run_on_loan(RunOnLoan& run) {
  try {
    run.work();
  } catch (...) {
    LaneState* const lane = find_borrowed(run.lane, run.loan);
    if (lane != nullptr && !lane->loan.error) {
      lane->loan.error = std::make_shared<const Error>(
          Error{.code = ErrorCode::worker_failed,
                .text = fmt::format("work on lent bytes threw: {}", what_was_thrown())});
    }
  }
}

void DeviceActor::set_priority(LaneId id, Priority priority) {
  if (endpoint_->lanes.find(id) != nullptr) {
    LaneState& lane = state_of(id);
    urgent_waits_ -= waits_urgently(lane) ? 1 : 0;
    lane.priority = priority;
    urgent_waits_ += waits_urgently(lane) ? 1 : 0;
  }
}

void DeviceActor::settle_update(LaneId id) {
  LaneState* const lane = lanes_.find(id);
  if (lane != nullptr && lane->parked == ParkReason::decision) {
    unpark(*lane);
  }
}

// ---- figures ----

MemoryStatistics DeviceActor::memory() const {
  const MemoryReport report = memory_->strategy->report();
  return MemoryStatistics{.live_bytes = report.total.live_bytes,
                          .reserved_bytes = report.total.reserved_bytes,
                          .peak_live_bytes = report.total.peak_live_bytes,
                          .peak_reserved_bytes = report.total.peak_reserved_bytes,
                          .budget_bytes = report.budget_bytes,
                          .allocation_count = static_cast<std::int64_t>(report.total.acquire_count),
                          .in_place_count = static_cast<std::int64_t>(report.in_place_count),
                          .live_tensor_count = handles_.live_count(),
                          .fragmentation = report.total.fragmentation()};
}

MemoryReport DeviceActor::memory_report() const {
  MemoryReport report = memory_->strategy->report();
  report.rungs.wait_count += dispatch_.rungs().wait_count;
  report.rungs.refuse_count += dispatch_.rungs().refuse_count;
  return report;
}

DeviceStatistics DeviceActor::statistics() noexcept {
  DeviceStatistics figures = dispatch_.statistics();
  figures.records = records_;
  figures.tokens_lent = tokens_lent_;
  figures.streams = lanes_.size();
  return figures;
}

}  // namespace hearth
