// A sink takes op records: the seam between tensors and what happens to their ops.
// The device's lane is a sink; record, check and router are decorators that hand on to another one.
// Threads: a sink belongs to one stream and is used by one thread at a time.
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

  /// Takes one record and its blob (extra operands, then attributes); copies both before it
  /// returns. Never holds a record back. Fills record.sequence. Waits only under back-pressure
  /// (lane full). Errors: throws DeviceError when the device is closed, DeadlineExceeded when it
  /// stays full.
  virtual void submit(OpRecord& record, std::span<const std::byte> blob) = 0;
};

}  // namespace hearth
