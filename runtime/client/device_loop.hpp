// The loop of a device as far as its clients reach it: who has claimed the token of a device whose
// work runs inline may run the loop for a while. A seam, so that clients do not see the actor
// behind it. Private to runtime.
#pragma once

#include <hearth/runtime/base/deadline.hpp>

namespace hearth {

class DeviceLoop {
 public:
  /// Whether the borrower has what it waits for.
  using UntilFn = bool (*)(const void* context) noexcept;

  DeviceLoop(const DeviceLoop&) = delete;
  DeviceLoop& operator=(const DeviceLoop&) = delete;

  /// Runs until `until` returns true, the deadline passes or nothing is runnable; then gives the
  /// token back. Threads: the one that has claimed the token.
  virtual void run_borrowed(UntilFn until, const void* context, Deadline deadline) noexcept = 0;

 protected:
  DeviceLoop() = default;
  ~DeviceLoop() = default;
};

}  // namespace hearth
