// What the kernels of a device keep of its frozen tensors (backends/constant.hpp). Private to
// runtime. Owned by the handle table, touched by the token holder only. Invariants: (1) what is
// kept of bytes goes before anybody writes into them; (2) it is never more than a quarter of the
// device's budget; (3) it goes as soon as an op finds no memory, and then nothing is kept any more.
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
  /// Lifetime: the strategy outlives it, or restart() names another.
  explicit DeviceConstants(MemoryStrategy& memory) noexcept : memory_(&memory) {}
  DeviceConstants(const DeviceConstants&) = delete;
  DeviceConstants& operator=(const DeviceConstants&) = delete;
  ~DeviceConstants();

  /// One more, of which nothing is kept yet. This outlives it.
  [[nodiscard]] std::unique_ptr<Constant> make();
  /// Memory is short. Whether that gave any back.
  [[nodiscard]] bool give_up() noexcept;
  /// The blocks went with the old memory.
  void restart(MemoryStrategy& memory) noexcept;
  [[nodiscard]] std::int64_t kept_bytes() const noexcept { return kept_bytes_; }

 private:
  class Kept;
  [[nodiscard]] bool acquire(std::int64_t size_bytes, Block& block);
  void release(const Block& block) noexcept;

  MemoryStrategy* memory_;
  std::vector<Kept*> all_;
  std::int64_t kept_bytes_ = 0;
  std::optional<std::int64_t> most_bytes_;  ///< Asked for once: a report is made anew each time.
  bool is_given_up_ = false;
};

}  // namespace hearth
