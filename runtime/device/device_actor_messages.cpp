// Handlers of the actor's messages, and its answers to questions.
#include "device_actor.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/client/tickets.hpp"
#include "runtime/device/tuning/picks.hpp"

namespace hearth {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

/// Fulfils the promise with the result or the exception of `make`.
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
  } catch (...) {
    promise.set_error(std::make_shared<const Error>(Error{
        .code = ErrorCode::internal, .text = "it threw something that is no std::exception"}));
  }
}

}  // namespace

// An exception of a memory strategy or a backend must not end the loop.
void DeviceActor::receive(DeviceMessage& message) {
  try {
    std::visit(
        Overloaded{[this](const DropOutside& drop) {
                     records_.drops.drop_from_outside(drop.slot, drop.uses);
                   },
                   [this](TransferArrived& arrival) { records_.accept_transfer(arrival); },
                   [this](const EndLoan& end) { records_.loans.end(end); },
                   [this](const RecallLoan& recall) { records_.loans.recall(recall); },
                   [this](RunOnLoan& run) { records_.loans.run(run); },
                   [this](const SetPriority& set) { queues_.set_priority(set.lane, set.priority); },
                   [this](const CancelRecords& give) { records_.cancel(give); },
                   [this](const SettleUpdate& settle) { records_.groups.settle(settle.lane); },
                   [this](const StopDevice& stop) {
                     is_stopping_ = true;
                     stop_limit_ = stop.limit;
                   },
                   [this](const WorkEnded& ended) { record_work_ended(ended); },
                   [this](DescribeWaits& ask) { ask.answer.set_value(report_.describe()); },
                   [this](const UseEntries& use) {
                     if (options_.picks) {
                       options_.picks->add(use.tuned->entries);
                     }
                   },
                   [this](DeviceQuestion& question) { keep_question(std::move(question)); }},
        message);
  } catch (...) {
    static_cast<void>(log_thrown(*endpoint_, "a control message"));
  }
}

// Each question restarts the count of turns: a device with endless questions answers when it is
// idle.
void DeviceActor::keep_question(DeviceQuestion question) {
  if (const auto* restart = std::get_if<RestartDevice>(&question)) {
    lose(restart->restart_error);  // now: work queued before it belongs to the ending generation
  }
  questions_.push_back(std::move(question));
  question_turns_ = 0;
}

// A device that is never idle answers while windows are open: those end first.
void DeviceActor::answer_questions() {
  queues_.for_each([this](LaneState& lane) { queues_.end_window(lane, WindowEnd::duty); });
  for (DeviceQuestion& question : std::exchange(questions_, {})) {
    answer(question);
  }
}

void DeviceActor::answer(DeviceQuestion& question) {
  const auto reply = [](auto& ask, const auto& make) { fulfil_with(ask.answer, make); };
  MemoryStrategy& strategy = *memory_->strategy;
  std::visit(
      Overloaded{
          [&](AskMemory& ask) { reply(ask, [&] { return memory(); }); },
          [&](AskMemoryReport& ask) { reply(ask, [&] { return memory_report(); }); },
          [&](AskStatistics& ask) { reply(ask, [&] { return statistics(); }); },
          [&](AskLargestTensors& ask) {
            reply(ask, [&] {
              name_blocks();
              return handles_.largest_tensors(ask.count, endpoint_->tables());
            });
          },
          [&](ResetPeakMemory& ask) { reply(ask, [&] { strategy.reset_peak(); }); },
          [&](TrimMemory& ask) {
            reply(ask, [&] { return memory_->backend->copies().trim() + strategy.trim(); });
          },
          [&](StartMemoryTrace& ask) {
            reply(ask, [&] {
              name_blocks();
              handles_.start_trace();
            });
          },
          [&](TakeMemoryTrace& ask) { reply(ask, [&] { return take_memory_trace(); }); },
          [&](StartExplanation& ask) { reply(ask, [&] { dispatch_.start_journal(); }); },
          [&](TakeExplanation& ask) { reply(ask, [&] { return dispatch_.take_journal(); }); },
          [&](AskWantedCalls& ask) {
            reply(ask, [&] {
              return std::make_shared<const WantedCalls>(options_.picks ? options_.picks->wanted()
                                                                        : WantedCalls());
            });
          },
          [&](AwaitIdle& ask) { ask.answer.set_value(); },
          [&](RestartDevice& ask) { reply(ask, [&] { restart(); }); }},
      question);
}

// ---- figures ----

void DeviceActor::name_blocks() {
  handles_.name_blocks([this](SlotId slot, std::uint32_t generation) {
    return endpoint_->recorded_path(slot, generation);
  });
}

MemoryTrace DeviceActor::take_memory_trace() {
  name_blocks();
  if (const std::uint64_t dropped = handles_.dropped_changes(); dropped > 0) {
    endpoint_->tables().log.warn(
        fmt::format("the memory trace of {} ends after {} changes; there was no room for {} more",
                    endpoint_->name(),
                    MemoryJournal::kMostEntries,
                    dropped));
  }
  return handles_.take_trace(endpoint_->tables());
}

// Reading the pool's figures costs one or two microseconds, so not every turn reads them.
void DeviceActor::trace_figures(detail::TimePoint now) {
  constexpr std::chrono::microseconds kPause{200};
  if (now - figures_traced_at_ < kPause) {
    return;
  }
  figures_traced_at_ = now;
  detail::Trace& trace = endpoint_->tables().trace();
  const MemoryReport report = memory_->strategy->report();
  detail::TraceEvent event{.name = {},
                           .device = endpoint_->traced_name(),
                           .begin = now,
                           .end = now,
                           .value = report.total.live_bytes,
                           .other = report.total.reserved_bytes,
                           .track = detail::TraceTrack::memory};
  trace.add(event);
  event.track = detail::TraceTrack::queue;
  event.value = 0;
  queues_.for_each([&](const LaneState& lane) {
    event.value += static_cast<std::int64_t>(lane.lane->pushed_seen() - lane.lane->consumed());
  });
  event.other = static_cast<std::int64_t>(in_flight_.issued_ops() - in_flight_.ended(kOpStream));
  trace.add(event);
}

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

// The strategy counts the rungs that it tries itself; waits and refusals happen above it.
MemoryReport DeviceActor::memory_report() const {
  MemoryReport report = memory_->strategy->report();
  report.rungs.unstage_count += dispatch_.rungs().unstage_count;
  report.rungs.wait_count += dispatch_.rungs().wait_count;
  report.rungs.refuse_count += dispatch_.rungs().refuse_count;
  report.pinned_bytes = memory_->backend->copies().pinned_bytes();
  return report;
}

DeviceStatistics DeviceActor::statistics() noexcept {
  DeviceStatistics figures = dispatch_.statistics();
  figures.compiled = memory_->backend->kernels().compile_counts().compiled;
  figures.plans = groups_.plan_count();
  figures.plan_hits = groups_.plan_hits();
  figures.plan_misses = groups_.plan_misses();
  figures.records = queues_.record_count();
  figures.tokens_lent = tokens_lent_;
  figures.streams = queues_.lane_count();
  figures.window_ends = queues_.window_ends();
  figures.whole_windows = queues_.whole_windows();
  return figures;
}

}  // namespace hearth
