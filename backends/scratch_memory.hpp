// Source of memory that a kernel needs only while it runs: packed operands, partial sums. It is the
// device's own memory, so it counts in the device's budget, statistics and trim().
// Threads: owner only.
// Invariant: at most one piece is taken at a time, and none between two ops.
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

  /// Takes `size_bytes` > 0 bytes, uninitialised and aligned to 64, until release().
  /// Errors: out_of_memory; what a program's memory strategy throws.
  [[nodiscard]] virtual Result<std::byte*> take(std::int64_t size_bytes) = 0;
  virtual void release() noexcept = 0;
  /// Releases the piece of a kernel that runs later: its bytes stay in use until this value of the
  /// op stream.
  virtual void release_after(std::uint64_t op_value) noexcept {
    static_cast<void>(op_value);
    release();
  }
};

}  // namespace hearth
