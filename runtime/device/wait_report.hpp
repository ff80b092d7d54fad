// What the lanes of a device wait for, in words: for the watchdog's report, and for the failures of
// those who waited in vain. Private to runtime. Owned by the device actor, touched by the token
// holder only; changes nothing.
#pragma once

#include <memory>
#include <string>

#include <hearth/runtime/base/error.hpp>

#include "device_memory.hpp"
#include "dispatch.hpp"
#include "lane_queues.hpp"

namespace hearth {

class WaitReport final {
 public:
  /// Lifetime: all of these outlive it; `memory` is the actor's, which a restart replaces.
  WaitReport(DeviceEndpoint& endpoint,
             const LaneQueues& queues,
             const Dispatch& dispatch,
             const std::shared_ptr<DeviceMemory>& memory) noexcept
      : endpoint_(endpoint), queues_(queues), dispatch_(dispatch), memory_(memory) {}

  /// The device in a line, and one for each lane that has something to do.
  [[nodiscard]] std::string describe() const;
  /// Of a deadline that passed here: all that is waited for, and describe().
  [[nodiscard]] Report report() const;
  /// The failure of an op that waited in vain, with a report.
  [[nodiscard]] ErrorRef late(const OpView& op, const LaneState& lane, const char* text) const;

 private:
  [[nodiscard]] std::string describe(const LaneState& lane) const;

  DeviceEndpoint& endpoint_;
  const LaneQueues& queues_;
  const Dispatch& dispatch_;
  const std::shared_ptr<DeviceMemory>& memory_;
};

}  // namespace hearth
