// Where a kernel gets memory that it needs only while it runs: packed operands, partial sums. It is
// the device's own memory, so that it counts in the device's budget, statistics and trim().
// Threads: owner only.
// Invariant: one piece is out at a time, and none between two ops.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hearth/runtime/base/result.hpp>

namespace hearth {

class ScratchMemory {
 public:
  ScratchMemory() = default;
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  virtual ~ScratchMemory() = default;

  /// More than 0 bytes, not cleared, on a multiple of 64; they stay until give_back().
  /// Errors: out_of_memory; what a program's memory strategy throws.
  [[nodiscard]] virtual Result<std::byte*> take(std::int64_t size_bytes) = 0;
  virtual void give_back() noexcept = 0;
  /// The same for a kernel that runs later: the bytes are in use up to this value of the ops'
  /// stream.
  virtual void give_back_after(std::uint64_t op_value) noexcept {
    static_cast<void>(op_value);
    give_back();
  }
};

}  // namespace hearth
