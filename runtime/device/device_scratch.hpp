// The scratch memory of a device's kernels: blocks of its own strategy, out while a kernel runs, so
// that they count in budget and statistics and are free bytes for everybody else between two
// kernels. Private to runtime. Owned with the device's memory, touched by the token holder only.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <hearth/backends/scratch_memory.hpp>
#include <hearth/memory/memory_strategy.hpp>

namespace hearth {

class DeviceScratch final : public ScratchMemory {
 public:
  /// What a kernel asked for and did not get.
  struct Shortage {
    std::int64_t size_bytes = 0;
    Acquire outcome = Acquire::ok;
  };

  /// Lifetime: the strategy outlives it.
  explicit DeviceScratch(MemoryStrategy& memory) noexcept : memory_(memory) {}
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  ~DeviceScratch() override = default;

  [[nodiscard]] Result<std::byte*> take(std::int64_t size_bytes) override;
  void give_back() noexcept override { give_back_after(0); }
  void give_back_after(std::uint64_t op_value) noexcept override;

  /// While one lives, kernels that need no more than these bytes, which were got before, have them.
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
  /// Why the last kernel had none, once.
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
