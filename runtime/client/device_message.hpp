// Device messages: values that clients send to a device's actor through its inbox, beside the
// records in lanes. Clients need not see the actor, and a device on another host could receive the
// same values. Two messages carry more than plain data. RunOnLoan holds the borrower's function,
// which needs the device's memory in this process. A question holds the promise of its answer.
// Private to runtime.
// Threads: made by any; received by the token holder. Each message is received once, or dropped
// when the device has stopped; its promise then reports `cancelled`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <hearth/memory/memory_report.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/unique_function.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/explanation.hpp>
#include <hearth/runtime/priority.hpp>

#include "last_uses.hpp"

namespace hearth {

struct Transfer;
struct TunedEntries;  // of runtime/device/tuning, like WantedCalls
struct WantedCalls;

/// A drop that no lane orders; it waits for all uses listed in `uses`.
struct DropOutside {
  SlotId slot;
  LastUsesBlob uses;
};

/// Delivers the bytes from another device, or the error that prevented the copy.
struct TransferArrived {
  std::shared_ptr<Transfer> transfer;
  std::vector<std::byte> bytes;
  ErrorRef error;
};

/// Ends a loan: the borrower returns the bytes. An error in `status` poisons the lent tensor.
struct EndLoan {
  LaneId lane;
  std::uint64_t loan = 0;
  Status status;
};

/// Ends a loan that the borrower kept too long, as its deadline does.
struct RecallLoan {
  LaneId lane;
  std::uint64_t loan = 0;
  ErrorRef error;
};

/// Runs a function on lent bytes, on the device's own cores. An exception from it poisons the lent
/// tensor.
struct RunOnLoan {
  LaneId lane;
  std::uint64_t loan = 0;
  UniqueFunction<void()> work;
};

/// Sets the priority of the lane's later turns.
struct SetPriority {
  LaneId lane;
  Priority priority = Priority::normal;
};

/// Cancels the lane's records up to number `through` that have not begun, and those that its stop
/// covers. The actor then rechecks what the lane waits for.
struct CancelRecords {
  LaneId lane;
  std::uint64_t through = 0;
};

/// Notifies the actor that the lane's update group may have been decided.
struct SettleUpdate {
  LaneId lane;
};

/// Begins the shutdown: the actor runs all queued work, up to the limit; then the loop ends.
struct StopDevice {
  Deadline limit = Deadline::never();
};

/// Reports that submitted work of this memory generation has completed, or that the device is lost.
struct WorkEnded {
  std::uint64_t generation = 0;
  Status status;
};

/// Describes what the device's lanes wait for, one line each. Answered at once, however busy the
/// device is.
struct DescribeWaits {
  Promise<std::string> answer;
};
/// Adds results of trials to the device's picks.
struct UseEntries {
  std::shared_ptr<const TunedEntries> tuned;
};

// ---- Questions: answered after all previously queued work has been consumed, or after some turns
// on a device that is never idle ----

struct AskMemory {
  Promise<MemoryStatistics> answer;
};
struct AskMemoryReport {
  Promise<MemoryReport> answer;
};
struct AskStatistics {
  Promise<DeviceStatistics> answer;
};
struct AskLargestTensors {
  int count = 0;
  Promise<std::vector<LiveTensor>> answer;
};
struct ResetPeakMemory {
  Promise<void> answer;
};
struct TrimMemory {
  Promise<std::int64_t> answer;
};
struct StartMemoryTrace {
  Promise<void> answer;
};
struct TakeMemoryTrace {
  Promise<MemoryTrace> answer;
};
struct StartExplanation {
  Promise<void> answer;
};
struct TakeExplanation {
  Promise<Explanation> answer;
};
/// Returns the calls that have candidates and no settled entry.
struct AskWantedCalls {
  Promise<std::shared_ptr<const WantedCalls>> answer;
};
/// Answered when the device has reached this point.
struct AwaitIdle {
  Promise<void> answer;
};
/// Starts a new generation on a fresh backend. On receipt the old generation is lost, with the
/// error `restart_error`.
struct RestartDevice {
  static constexpr const char* kSubject = "a restart";
  ErrorRef restart_error;
  Promise<void> answer;
};

using DeviceQuestion = std::variant<AskMemory,
                                    AskMemoryReport,
                                    AskStatistics,
                                    AskLargestTensors,
                                    ResetPeakMemory,
                                    TrimMemory,
                                    StartMemoryTrace,
                                    TakeMemoryTrace,
                                    StartExplanation,
                                    TakeExplanation,
                                    AskWantedCalls,
                                    AwaitIdle,
                                    RestartDevice>;

using DeviceMessage = std::variant<DropOutside,
                                   TransferArrived,
                                   EndLoan,
                                   RecallLoan,
                                   RunOnLoan,
                                   SetPriority,
                                   CancelRecords,
                                   SettleUpdate,
                                   StopDevice,
                                   WorkEnded,
                                   DescribeWaits,
                                   UseEntries,
                                   DeviceQuestion>;

}  // namespace hearth
