// The thread that waits for an asynchronous device, so that its actor need not: the actor names
// points before it goes to sleep, and gets a message when one of them has ended. One for each such
// device: a device that hangs delays no other. Private to runtime. Threads: as each function says.
// Invariants: (1) every wait in a backend is short, so that the thread ends soon, and learns of
// newer points, also when the device hangs; (2) it keeps the memory, and with it the backend, in
// which it waits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/mailbox.hpp>

#include "device_memory.hpp"
#include "runtime/client/device_endpoint.hpp"

namespace hearth {

class CompletionWaiter final {
 public:
  CompletionWaiter() = default;
  CompletionWaiter(const CompletionWaiter&) = delete;
  CompletionWaiter& operator=(const CompletionWaiter&) = delete;
  ~CompletionWaiter() = default;

  /// From now on it waits for one of these, of this memory's backend, and no longer for those of
  /// before. Threads: token holder.
  void expect(std::shared_ptr<DeviceMemory> memory,
              std::uint64_t generation,
              std::vector<TimelinePoint> points);
  /// It waits for nothing any more, and lets go of the memory. Threads: token holder.
  void forget() { expect(nullptr, 0, {}); }
  /// The thread ends. Threads: any.
  void stop() noexcept { requests_.close(); }
  /// Posts WorkEnded to the endpoint for each expect() whose wait ended. Threads: its own.
  void thread_main(DeviceEndpoint& endpoint);

 private:
  struct Request {
    std::shared_ptr<DeviceMemory> memory;
    std::uint64_t generation = 0;
    std::vector<TimelinePoint> points;
    std::chrono::nanoseconds next_wait = {};
  };
  /// The newest request; waits for one where `current` is none. False: the thread is to end.
  [[nodiscard]] bool take_newest(std::optional<Request>& current);

  detail::Mailbox<Request> requests_;
};

}  // namespace hearth
