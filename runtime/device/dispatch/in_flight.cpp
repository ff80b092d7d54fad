#include "in_flight.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {
namespace {

detail::TimePoint now() {
  return detail::current_context().clock().now();
}

}  // namespace

void InFlight::record_issued(TimelinePoint point) {
  HEARTH_ASSERT(point.stream < kStreams && point.value >= issued_[point.stream],
                "points of a stream rise");
  issued_[point.stream] = point.value;
}

void InFlight::add_op(TimelinePoint point, const OpRecord& record, LaneId lane) {
  if (ops_.empty()) {
    oldest_since_ = now();
  }
  record_issued(point);
  ops_.push_back({point.value, {record, lane}});
}

WorkEnd& InFlight::add(TimelinePoint point, WorkEnd end) {
  record_issued({std::max(point.value, issued_[point.stream]), point.stream});
  ends_[point.stream].push_back({point.value, std::move(end)});
  return ends_[point.stream].back().end;
}

void InFlight::trace(TimelinePoint point, const detail::TraceEvent& event, std::uint32_t number) {
  traced_[point.stream].push_back({point.value, event, number});
}

// The time of a launch that ran in parts spans all of them.
void InFlight::take_times(BatchTimes* of) {
  if (of == nullptr) {
    return;
  }
  for (const LaunchTime& time : of->take_launch_times()) {
    const auto [known, is_first] = times_.try_emplace(time.number, time);
    if (!is_first) {
      LaunchTime& all = known->second;
      all.end += time.end - time.begin;
      all.is_side_by_side = all.is_side_by_side || time.is_side_by_side;
      all.is_shared_out = all.is_shared_out || time.is_shared_out;
    }
  }
}

void InFlight::finish_traced(detail::Trace& trace, Backend& backend) {
  if (!traced_[kOpStream].empty()) [[unlikely]] {
    take_times(backend.times());
  }
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    std::deque<Traced>& waiting = traced_[stream];
    while (!waiting.empty() && waiting.front().value <= ended_[stream]) {
      const auto time = times_.find(waiting.front().number);
      if (time == times_.end()) {
        const auto is_alike = [&](const Traced& each) {
          return each.value <= ended_[stream] && !times_.contains(each.number);
        };
        const auto end = std::ranges::find_if_not(waiting, is_alike);
        share_out(stream, static_cast<std::size_t>(end - waiting.begin()), trace);
        continue;
      }
      detail::TraceEvent& event = waiting.front().event;
      event.begin = detail::TimePoint(time->second.begin);
      event.end = detail::TimePoint(time->second.end);
      event.has_device_time = true;
      event.is_side_by_side = time->second.is_side_by_side;
      event.is_shared_out = time->second.is_shared_out;
      traced_until_[stream] = event.end;
      trace.add(event);
      times_.erase(time);
      waiting.pop_front();
    }
  }
  if (traced_[kOpStream].empty()) {
    times_.clear();  // times of failed launches
  }
}

// Divides the time up to now among the first `count` waiting events, one after the other.
void InFlight::share_out(std::size_t stream, std::size_t count, detail::Trace& trace) {
  std::deque<Traced>& waiting = traced_[stream];
  const auto weight = [](const Traced& each) {
    return each.event.value > 0 ? static_cast<double>(each.event.value) : 1.0;
  };
  double left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    left += weight(waiting[i]);
  }
  const detail::TimePoint end = now();
  detail::TimePoint from = traced_until_[stream];
  for (std::size_t i = 0; i < count; ++i) {
    detail::TraceEvent& event = waiting.front().event;
    const double part = i + 1 == count ? 1.0 : weight(waiting.front()) / left;
    left -= weight(waiting.front());
    event.begin = std::max(event.begin, from);
    event.end = event.begin +
                std::chrono::duration_cast<detail::TimePoint::duration>((end - event.begin) * part);
    event.is_shared_out = count > 1;
    event.is_as_seen = true;
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

// Copies first: the work that a copy waited for ended before it. So the op values, read later,
// cover every op on which these copies depend.
bool InFlight::is_awaited() const noexcept {
  const auto has_caller = [](const Entry& entry) {
    return std::holds_alternative<ReadEnd>(entry.end) ||
           std::holds_alternative<GroupEnd>(entry.end);
  };
  return std::ranges::any_of(awaited_, [](const auto& points) { return !points.empty(); }) ||
         std::ranges::any_of(
             ends_, [&](const auto& entries) { return std::ranges::any_of(entries, has_caller); });
}

bool InFlight::poll(Backend& backend) {
  bool has_moved = false;
  for (const std::uint8_t stream : {kDownloadStream, kUploadStream, kOpStream}) {
    const std::uint64_t value = std::min(backend.completed(stream), issued_[stream]);
    has_moved = has_moved || value > ended_[stream];
    ended_[stream] = std::max(ended_[stream], value);
    std::erase_if(awaited_[stream],
                  [&](std::uint64_t awaited) { return awaited <= ended_[stream]; });
  }
  cells.reclaim_ended(ended_[kOpStream]);
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
  times_.clear();
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
