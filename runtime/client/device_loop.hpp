// DeviceLoop: the device's loop as clients see it. A thread that has claimed the token of a device
// that runs work inline may run the loop for a while. A seam that hides the actor from clients.
// Private to runtime.
#pragma once

#include <hearth/runtime/base/deadline.hpp>

namespace hearth {

class DeviceLoop {
 public:
  /// Returns whether the borrower's wait is over.
  using UntilFn = bool (*)(const void* context) noexcept;

  DeviceLoop(const DeviceLoop&) = delete;
  DeviceLoop& operator=(const DeviceLoop&) = delete;

  /// Runs until `until` returns true, the deadline passes or nothing is runnable; then releases the
  /// token.
  /// Threads: the thread that has claimed the token.
  virtual void run_borrowed(UntilFn until, const void* context, Deadline deadline) noexcept = 0;

 protected:
  DeviceLoop() = default;
  ~DeviceLoop() = default;
};

}  // namespace hearth
