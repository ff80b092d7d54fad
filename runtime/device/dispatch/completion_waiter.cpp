#include "completion_waiter.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/device/memory/guarded.hpp"

namespace hearth {

namespace {

// A running wait does not notice points that were added after it began. Such points come while it
// waits for other streams, so the first waits are short. If the device hangs, longer waits suffice.
constexpr std::chrono::nanoseconds kFirstWait = std::chrono::milliseconds(1);
constexpr std::chrono::nanoseconds kLongestWait = std::chrono::milliseconds(50);

}  // namespace

void CompletionWaiter::expect(std::shared_ptr<DeviceMemory> memory,
                              std::uint64_t generation,
                              std::vector<TimelinePoint> points) {
  static_cast<void>(
      requests_.try_push({std::move(memory), generation, std::move(points), kFirstWait}));
}

bool CompletionWaiter::take_newest(std::optional<Request>& current) {
  if (!current) {
    current = requests_.pop(Deadline::never());
  }
  while (std::optional<Request> newer = requests_.try_pop()) {
    current = std::move(newer);
  }
  return current.has_value() && !requests_.is_closed();
}

void CompletionWaiter::thread_main(DeviceEndpoint& endpoint) {
  std::optional<Request> request;
  while (take_newest(request)) {
    detail::schedule_point();
    if (request->points.empty()) {
      request.reset();
      continue;
    }
    Status status = guarded("the wait for the device", [&] {
      return request->memory->backend->wait(request->points, Deadline::in(request->next_wait));
    });
    if (!status.has_value() && status.error().code == ErrorCode::deadline_exceeded) {
      request->next_wait = std::min(2 * request->next_wait, kLongestWait);
      continue;
    }
    const std::uint64_t generation = request->generation;
    request.reset();
    endpoint.post(WorkEnded{.generation = generation, .status = std::move(status)});
  }
}

}  // namespace hearth
