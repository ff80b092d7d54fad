// Device messages: what a device is sent beside records. They go through its inbox, not through a
// lane. Values, made by clients and received by the device's actor, so that no client needs to see
// the actor, and a device on another host can be sent the same. Two carry more than plain data:
// RunOnLoan has work of the borrower's own, which needs the device's memory in this process, and a
// question has the promise of its answer. Private to runtime. Threads: made by any; received by the
// token holder. Each is received once, or dropped when the device has stopped; then its promise
// gives `cancelled`.
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

/// A drop that no lane orders, so it waits for all the uses that it names.
struct DropOutside {
  SlotId slot;
  LastUsesBlob uses;
};

/// Bytes from another device are there, or why not.
struct TransferArrived {
  std::shared_ptr<Transfer> transfer;
  std::vector<std::byte> bytes;
  ErrorRef error;
};

/// The borrower gives a loan's bytes back; `status` poisons the lent tensor.
struct EndLoan {
  LaneId lane;
  std::uint64_t loan = 0;
  Status status;
};

/// The borrower keeps the bytes too long: the loan ends as at its deadline.
struct RecallLoan {
  LaneId lane;
  std::uint64_t loan = 0;
  ErrorRef error;
};

/// Work on lent bytes, on the device's own cores. What it throws poisons the lent tensor.
struct RunOnLoan {
  LaneId lane;
  std::uint64_t loan = 0;
  UniqueFunction<void()> work;
};

/// The lane's turns come with this priority from now on.
struct SetPriority {
  LaneId lane;
  Priority priority = Priority::normal;
};

/// The lane's records up to number `through` are given up where they have not begun, and all that
/// its stop says. What it waits for is looked at again.
struct GiveUp {
  LaneId lane;
  std::uint64_t through = 0;
};

/// The lane's update group may have been decided.
struct SettleUpdate {
  LaneId lane;
};

/// Begins the shutdown: all that is queued is run, up to the limit; then the loop ends.
struct StopDevice {
  Deadline limit = Deadline::never();
};

/// Work that the device was given has ended, or it is lost; of the memory's generation.
struct WorkEnded {
  std::uint64_t generation = 0;
  Status status;
};

/// What its lanes wait for, a line each; answered at once, however busy the device is.
struct DescribeWaits {
  Promise<std::string> answer;
};

// ---- questions: answered when all that was queued before has been consumed, or after some turns
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
/// Only whether the device has come this far.
struct AwaitIdle {
  Promise<void> answer;
};
/// A new generation on a fresh backend. The old one is lost, with `given_up`, as soon as this is
/// received.
struct RestartDevice {
  static constexpr const char* kSubject = "a restart";
  ErrorRef given_up;
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
                                    AwaitIdle,
                                    RestartDevice>;

using DeviceMessage = std::variant<DropOutside,
                                   TransferArrived,
                                   EndLoan,
                                   RecallLoan,
                                   RunOnLoan,
                                   SetPriority,
                                   GiveUp,
                                   SettleUpdate,
                                   StopDevice,
                                   WorkEnded,
                                   DescribeWaits,
                                   DeviceQuestion>;

}  // namespace hearth
