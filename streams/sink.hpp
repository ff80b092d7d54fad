// A sink accepts op records: the seam between tensors and the execution of their ops. The device's
// lane is a sink; record, check and router are decorators that forward to another one. Threads: a
// sink belongs to one stream and is used by one thread at a time.
#pragma once

#include <cstddef>
#include <span>

#include <hearth/streams/op_record.hpp>

namespace hearth {

class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  /// Submits one record with its blob (extra operands, then attributes); copies both before it
  /// returns. Never delays a record. Fills record.sequence. Waits only under back-pressure (lane
  /// full).
  ///
  /// Errors: throws DeviceError if the device is closed, DeadlineExceeded if the lane stays full.
  virtual void submit(OpRecord& record, std::span<const std::byte> blob) = 0;
};

}  // namespace hearth
