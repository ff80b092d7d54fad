// What the lanes of a device wait for, in words: for the watchdog's report, and for the failures of
// those who waited in vain. Private to runtime. Owned by the device actor, touched by the token
// holder only; changes nothing.
#pragma once

#include <string>

#include <hearth/runtime/base/error.hpp>

#include "dispatch.hpp"
#include "in_flight.hpp"
#include "lane_queues.hpp"

namespace hearth {

class WaitReport final {
 public:
  /// Lifetime: all of these outlive it.
  WaitReport(DeviceEndpoint& endpoint,
             const LaneQueues& queues,
             const Dispatch& dispatch,
             const InFlight& in_flight) noexcept
      : endpoint_(endpoint), queues_(queues), dispatch_(dispatch), in_flight_(in_flight) {}

  /// The device in a line, and one for each lane that has something to do.
  [[nodiscard]] std::string describe() const;
  /// Of a deadline that passed here: all that is waited for, and describe().
  [[nodiscard]] detail::Report report() const;
  /// The failure of an op that waited in vain, with a report.
  [[nodiscard]] ErrorRef late(const OpView& op, const LaneState& lane, std::string text) const;
  /// The same where the device did not end its work: names the op that it is at.
  [[nodiscard]] ErrorRef hung(const OpView& op, const LaneState& lane) const;
  /// The op that an asynchronous device is at, and for how long; empty where it has none.
  [[nodiscard]] std::string describe_oldest() const;

 private:
  [[nodiscard]] std::string describe(const LaneState& lane) const;

  DeviceEndpoint& endpoint_;
  const LaneQueues& queues_;
  const Dispatch& dispatch_;
  const InFlight& in_flight_;
};

}  // namespace hearth
