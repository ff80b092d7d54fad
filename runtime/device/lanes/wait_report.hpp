// WaitReport describes what the lanes of a device wait for: for the watchdog's report and for the
// failures of expired waits. Private to runtime. Owned by the device actor, touched by the token
// holder only; changes nothing.
#pragma once

#include <string>

#include <hearth/runtime/base/error.hpp>

#include "lane_queues.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/dispatch/in_flight.hpp"

namespace hearth {

class WaitReport final {
 public:
  /// Lifetime: all arguments outlive this object.
  WaitReport(DeviceEndpoint& endpoint,
             const LaneQueues& queues,
             const Dispatch& dispatch,
             const InFlight& in_flight) noexcept
      : endpoint_(endpoint), queues_(queues), dispatch_(dispatch), in_flight_(in_flight) {}

  /// Describes the device in one line, and each lane with work in another.
  [[nodiscard]] std::string describe() const;
  /// Report of a deadline that passed here: all awaited events, and describe().
  [[nodiscard]] detail::Report report() const;
  /// Failure of an op whose wait expired, with a report.
  [[nodiscard]] ErrorRef late(const OpView& op, const LaneState& lane, std::string text) const;
  /// Failure of an op whose device did not end its work in time; names the op that the device runs.
  [[nodiscard]] ErrorRef hung(const OpView& op, const LaneState& lane) const;
  /// The op that an asynchronous device runs, and since when; empty if there is none.
  [[nodiscard]] std::string describe_oldest() const;

 private:
  [[nodiscard]] std::string describe(const LaneState& lane) const;

  DeviceEndpoint& endpoint_;
  const LaneQueues& queues_;
  const Dispatch& dispatch_;
  const InFlight& in_flight_;
};

}  // namespace hearth
