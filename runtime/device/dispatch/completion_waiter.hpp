// The thread that waits for an asynchronous device, so that its actor need not. The actor names
// points before it sleeps, and receives a message when one of them has ended.
// Each asynchronous device has its own waiter: a device that hangs delays no other. Private to
// runtime. Threads: as each function states.
// Invariants: (1) every wait in a backend is short, so that the thread ends soon and learns of
// newer points even if the device hangs; (2) the waiter holds the memory, and with it the backend,
// in which it waits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/mailbox.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/memory/device_memory.hpp"

namespace hearth {

class CompletionWaiter final {
 public:
  CompletionWaiter() = default;
  CompletionWaiter(const CompletionWaiter&) = delete;
  CompletionWaiter& operator=(const CompletionWaiter&) = delete;
  ~CompletionWaiter() = default;

  /// Replaces the points to wait for; they belong to the backend of `memory`. Threads: token
  /// holder.
  void expect(std::shared_ptr<DeviceMemory> memory,
              std::uint64_t generation,
              std::vector<TimelinePoint> points);
  /// Stops waiting and releases the memory. Threads: token holder.
  void forget() { expect(nullptr, 0, {}); }
  /// Ends the thread. Threads: any.
  void stop() noexcept { requests_.close(); }
  /// Posts WorkEnded to the endpoint for each expect() whose wait ended. Threads: the waiter's own.
  void thread_main(DeviceEndpoint& endpoint);

 private:
  struct Request {
    std::shared_ptr<DeviceMemory> memory;
    std::uint64_t generation = 0;
    std::vector<TimelinePoint> points;
    std::chrono::nanoseconds next_wait = {};
  };
  /// Takes the newest request; blocks until one comes if `current` is empty. Returns false if the
  /// thread must end.
  [[nodiscard]] bool take_newest(std::optional<Request>& current);

  detail::Mailbox<Request> requests_;
};

}  // namespace hearth
