// Scratch memory of a device's kernels: blocks of the device's strategy, held only while a kernel
// runs. They count in budget and statistics, and other ops may use them between two kernels.
// Private to runtime. Owned with the device's memory, touched by the token holder only.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <hearth/backends/scratch_memory.hpp>
#include <hearth/memory/memory_strategy.hpp>

namespace hearth {

class DeviceScratch final : public ScratchMemory {
 public:
  /// A request of a kernel that failed.
  struct Shortage {
    std::int64_t size_bytes = 0;
    Acquire outcome = Acquire::ok;
  };

  /// Lifetime: the strategy outlives this object.
  explicit DeviceScratch(MemoryStrategy& memory) noexcept : memory_(memory) {}
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  ~DeviceScratch() override = default;

  [[nodiscard]] Result<std::byte*> take(std::int64_t size_bytes) override;
  void release() noexcept override { release_after(0); }
  void release_after(std::uint64_t op_value) noexcept override;

  /// While a Reservation lives, kernels that need at most its bytes get those. They were allocated
  /// before.
  class Reservation {
   public:
    Reservation(DeviceScratch& scratch, const Block& block) noexcept : scratch_(scratch) {
      scratch_.reserved_ = block;
    }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation() { scratch_.reserved_ = {}; }

   private:
    DeviceScratch& scratch_;
  };
  [[nodiscard]] bool is_short() const noexcept { return shortage_.has_value(); }
  /// Requires is_short().
  [[nodiscard]] Acquire shortage_outcome() const noexcept { return shortage_->outcome; }
  /// Returns why the last kernel got no scratch, and forgets it.
  [[nodiscard]] std::optional<Shortage> take_shortage() noexcept {
    return std::exchange(shortage_, std::nullopt);
  }

 private:
  MemoryStrategy& memory_;
  Block reserved_;
  Block taken_;
  std::optional<Shortage> shortage_;
};

}  // namespace hearth
