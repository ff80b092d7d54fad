#include <hearth/memory/release_queue.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>

namespace hearth::detail {
namespace {

// Makes the standard heap functions keep the earliest value in front.
struct IsLater {
  bool operator()(const ReleaseQueue::Entry& a, const ReleaseQueue::Entry& b) const noexcept {
    return a.value > b.value;
  }
};

}  // namespace

void ReleaseQueue::keep(std::size_t stream, Entry entry) {
  entry.value = entry.last_use.values[stream];
  waiting_[stream].push_back(entry);
  std::push_heap(waiting_[stream].begin(), waiting_[stream].end(), IsLater{});
}

void ReleaseQueue::set_completed(std::size_t stream, std::uint64_t value) noexcept {
  HEARTH_ASSERT(stream < kMaxPhysicalStreams && value >= completed_[stream],
                "timeline values of a stream never fall");
  completed_[stream] = value;
}

bool ReleaseQueue::take_done(std::size_t stream, Entry& out) noexcept {
  std::vector<Entry>& queue = waiting_[stream];
  if (queue.empty() || queue.front().value > completed_[stream]) {
    return false;
  }
  std::pop_heap(queue.begin(), queue.end(), IsLater{});
  out = queue.back();
  queue.pop_back();
  return true;
}

}  // namespace hearth::detail
