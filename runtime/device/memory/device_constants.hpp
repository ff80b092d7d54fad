// Data that a device's kernels keep of its frozen tensors (backends/constant.hpp). Private to
// runtime. Owned by the handle table, touched by the token holder only.
// Invariants: (1) kept data is released before its tensor's bytes are overwritten; (2) it takes at
// most a quarter of the device's budget; (3) it is released as soon as an op finds no memory, and
// from then on nothing is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <hearth/backends/constant.hpp>
#include <hearth/memory/memory_strategy.hpp>

namespace hearth {

class DeviceConstants final {
 public:
  /// Lifetime: the strategy outlives this object, or restart() replaces it.
  explicit DeviceConstants(MemoryStrategy& memory) noexcept : memory_(&memory) {}
  DeviceConstants(const DeviceConstants&) = delete;
  DeviceConstants& operator=(const DeviceConstants&) = delete;
  ~DeviceConstants();

  /// Creates a constant without kept data. Lifetime: this object outlives it.
  [[nodiscard]] std::unique_ptr<Constant> make();
  /// Releases all kept data because memory is short. Returns whether that freed any.
  [[nodiscard]] bool evict() noexcept;
  /// Forgets all kept data: its blocks belonged to the old memory.
  void restart(MemoryStrategy& memory) noexcept;
  [[nodiscard]] std::int64_t kept_bytes() const noexcept { return kept_bytes_; }

 private:
  class Kept;
  [[nodiscard]] bool acquire(std::int64_t size_bytes, Block& block);
  void release(const Block& block) noexcept;

  MemoryStrategy* memory_;
  std::vector<Kept*> all_;
  std::int64_t kept_bytes_ = 0;
  std::optional<std::int64_t> most_bytes_;  ///< Read once: the strategy computes each report anew.
  bool has_evicted_ = false;
};

}  // namespace hearth
