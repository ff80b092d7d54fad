#include "in_flight.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {
namespace {

detail::TimePoint now() {
  return detail::current_context().clock().now();
}

}  // namespace

void InFlight::note_issued(TimelinePoint point) {
  HEARTH_ASSERT(point.stream < kStreams && point.value >= issued_[point.stream],
                "points of a stream rise");
  issued_[point.stream] = point.value;
}

void InFlight::add_op(TimelinePoint point, const OpRecord& record, LaneId lane) {
  if (ops_.empty()) {
    oldest_since_ = now();
  }
  note_issued(point);
  ops_.push_back({point.value, {record, lane}});
}

WorkEnd& InFlight::add(TimelinePoint point, WorkEnd end) {
  note_issued({std::max(point.value, issued_[point.stream]), point.stream});
  ends_[point.stream].push_back({point.value, std::move(end)});
  return ends_[point.stream].back().end;
}

void InFlight::trace(TimelinePoint point, const detail::TraceEvent& event) {
  traced_[point.stream].push_back({point.value, event});
}

// What a device's own clock says of a batch is shared out among its events; without it, the time
// up to now among all that were seen to have ended.
void InFlight::finish_traced(detail::Trace& trace, Backend& backend) {
  std::map<std::uint64_t, BatchTime> times;
  if (keeps_times_) {
    for (const BatchTime& time : backend.take_batch_times()) {
      times.emplace(time.value, time);
    }
    if (!trace.is_on()) {
      backend.keep_batch_times(false);
      keeps_times_ = false;
    }
  }
  const std::map<std::uint64_t, BatchTime> none;
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    std::deque<Traced>& waiting = traced_[stream];
    // Copies have values of their own, which may be equal.
    const std::map<std::uint64_t, BatchTime>& known = stream == kOpStream ? times : none;
    while (!waiting.empty() && waiting.front().value <= ended_[stream]) {
      const auto time = known.find(waiting.front().value);
      const bool is_known = time != known.end();
      const auto is_alike = [&](const Traced& each) {
        return is_known ? each.value == time->first
                        : each.value <= ended_[stream] && !known.contains(each.value);
      };
      const std::int64_t count = std::ranges::find_if_not(waiting, is_alike) - waiting.begin();
      const SpanOfTime span = is_known ? SpanOfTime{detail::TimePoint(time->second.begin),
                                                    detail::TimePoint(time->second.end)}
                                       : SpanOfTime{traced_until_[stream], now()};
      share_out(stream, count, span, is_known, trace);
    }
  }
}

void InFlight::keep_times(Backend& backend) {
  if (!keeps_times_) {
    backend.keep_batch_times(true);
    keeps_times_ = true;
  }
}

// The first `count` events that wait, one behind the other.
void InFlight::share_out(
    std::size_t stream, std::int64_t count, SpanOfTime span, bool is_known, detail::Trace& trace) {
  std::deque<Traced>& waiting = traced_[stream];
  const bool is_shared_out = count > 1;
  detail::TimePoint from = span.begin;
  for (std::int64_t left = count; left > 0; --left) {
    detail::TraceEvent& event = waiting.front().event;
    event.begin = is_known ? from : std::max(event.begin, from);
    event.end = event.begin + (span.end - event.begin) / left;
    event.is_shared_out = is_shared_out;
    event.has_device_time = is_known;
    from = event.end;
    trace.add(event);
    waiting.pop_front();
  }
  traced_until_[stream] = from;
}

void InFlight::await(const LastUse& uses) {
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    if (uses.values[stream] > ended_[stream]) {
      awaited_[stream].push_back(uses.values[stream]);
    }
  }
}

bool InFlight::have_ended(const LastUse& uses) const noexcept {
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    if (uses.values[stream] > ended_[stream]) {
      return false;
    }
  }
  return true;
}

std::uint64_t InFlight::progress_to(const LastUse& uses) const noexcept {
  std::uint64_t progress = 0;
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    progress += uses.values[stream] > ended_[stream] ? ended_[stream] : 0;
  }
  return progress;
}

LastUse InFlight::issued() const noexcept {
  LastUse all;
  std::ranges::copy(issued_, all.values.begin());
  return all;
}

LastUse InFlight::room() const noexcept {
  LastUse some;
  some.add(kOpStream, issued_[kOpStream] - (has_most_ops() ? kMostOps / 2 : 0));
  return some;
}

// Copies first: what a copy waited for has ended before it, so that the values of ops, read later,
// cover all that these copies depend on.
bool InFlight::look(Backend& backend) {
  bool has_moved = false;
  for (const std::uint8_t stream : {kDownloadStream, kUploadStream, kOpStream}) {
    const std::uint64_t value = std::min(backend.completed(stream), issued_[stream]);
    has_moved = has_moved || value > ended_[stream];
    ended_[stream] = std::max(ended_[stream], value);
    std::erase_if(awaited_[stream],
                  [&](std::uint64_t awaited) { return awaited <= ended_[stream]; });
  }
  cells.note_ended(ended_[kOpStream]);
  const std::size_t before = ops_.size();
  while (!ops_.empty() && ops_.front().value <= ended_[kOpStream]) {
    ops_.pop_front();
  }
  if (ops_.size() != before && !ops_.empty()) {
    oldest_since_ = now();
  }
  return has_moved;
}

std::optional<WorkEnd> InFlight::take_ended() {
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    std::deque<Entry>& entries = ends_[stream];
    if (!entries.empty() && entries.front().value <= ended_[stream]) {
      WorkEnd end = std::move(entries.front().end);
      entries.pop_front();
      return end;
    }
  }
  return std::nullopt;
}

std::vector<WorkEnd> InFlight::take_all() {
  std::vector<WorkEnd> all;
  for (std::deque<Entry>& entries : ends_) {
    for (Entry& entry : entries) {
      all.push_back(std::move(entry.end));
    }
    entries.clear();
  }
  ended_ = issued_;
  for (std::vector<std::uint64_t>& awaited : awaited_) {
    awaited.clear();
  }
  ops_.clear();
  for (std::deque<Traced>& waiting : traced_) {
    waiting.clear();
  }
  return all;
}

std::vector<TimelinePoint> InFlight::next_points() const {
  std::vector<TimelinePoint> points;
  for (std::uint8_t stream = 0; stream < kStreams; ++stream) {
    if (issued_[stream] == ended_[stream]) {
      continue;
    }
    std::uint64_t value = ends_[stream].empty() ? issued_[stream] : ends_[stream].front().value;
    for (const std::uint64_t awaited : awaited_[stream]) {
      value = std::min(value, awaited);
    }
    points.push_back({value, stream});
  }
  return points;
}

void InFlight::restart() noexcept {
  HEARTH_ASSERT(is_empty(), "a lost generation leaves nothing in flight");
  issued_ = {};
  ended_ = {};
  cells.begin_anew();
  keeps_times_ = false;
}

std::optional<InFlight::Oldest> InFlight::oldest(std::uint64_t ended) const {
  const auto op = std::ranges::upper_bound(ops_, ended, {}, &Op::value);
  if (op == ops_.end()) {
    return std::nullopt;
  }
  return Oldest{op->origin.record,
                op->origin.lane,
                op == ops_.begin() ? std::optional(oldest_since_) : std::nullopt};
}

}  // namespace hearth
