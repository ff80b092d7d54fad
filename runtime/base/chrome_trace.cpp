#include <hearth/runtime/base/chrome_trace.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {
namespace {

struct KeptSpan {
  std::string name;
  std::string device;
  std::uint64_t thread;
  detail::TimePoint begin;
  detail::TimePoint end;
};

double microseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

struct ChromeTrace::Spans {
  explicit Spans(std::size_t most) : max_count(most) {}

  void add(const TraceSpan& span) {
    KeptSpan kept{.name = std::string(span.name),
                  .device = std::string(span.device),
                  .thread = current_context().id().value,
                  .begin = span.begin,
                  .end = span.end};
    const MutexLock lock(mutex);
    if (list.size() < max_count) {
      list.push_back(std::move(kept));
    } else {
      ++dropped_count;
    }
  }
  std::vector<KeptSpan> copy() {
    const MutexLock lock(mutex);
    return list;
  }

  const std::size_t max_count;
  Mutex mutex;
  std::vector<KeptSpan> list HEARTH_GUARDED_BY(mutex);
  std::size_t dropped_count HEARTH_GUARDED_BY(mutex) = 0;
};

ChromeTrace::ChromeTrace(Trace& trace, std::size_t max_spans)
    : trace_(trace),
      spans_(std::make_shared<Spans>(max_spans)),
      hook_(trace.add_hook([spans = spans_](const TraceSpan& span) { spans->add(span); })) {}

ChromeTrace::~ChromeTrace() {
  trace_.remove_hook(hook_);
}

std::size_t ChromeTrace::span_count() const {
  const MutexLock lock(spans_->mutex);
  return spans_->list.size();
}

std::size_t ChromeTrace::dropped_span_count() const {
  const MutexLock lock(spans_->mutex);
  return spans_->dropped_count;
}

std::string ChromeTrace::to_json() const {
  const std::vector<KeptSpan> spans = spans_->copy();
  detail::TimePoint first = detail::TimePoint::max();
  std::map<std::string, int> devices;  // sorted, so that the numbers do not depend on timing
  for (const KeptSpan& span : spans) {
    first = std::min(first, span.begin);
    devices.emplace(span.device, 0);
  }
  nlohmann::json events = nlohmann::json::array();
  int next = 1;
  for (auto& [device, number] : devices) {
    number = next++;
    events.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", number},
                      {"args", {{"name", device.empty() ? "host" : device}}}});
  }
  for (const KeptSpan& span : spans) {
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"pid", devices[span.device]},
                      {"tid", span.thread},
                      {"ts", microseconds(span.begin - first)},
                      {"dur", microseconds(span.end - span.begin)}});
  }
  const nlohmann::json trace = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  // Names may be anything; bytes that are no UTF-8 become a replacement character.
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Status ChromeTrace::write(const std::filesystem::path& path) const {
  const std::string json = to_json();
  return write_file_atomically(path, std::as_bytes(std::span(json)));
}

}  // namespace hearth
