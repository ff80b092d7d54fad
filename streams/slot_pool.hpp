// Slot numbers on the client's side: a lane numbers its new tensors without a round trip to the
// actor. A SlotPool belongs to one lane at a time; a lane that ends passes its pool on to the next
// one. Its slots come from blocks leased from the device's SlotDirectory. The actor returns a slot
// through an intrusive stack when the tensor's uses and drop are done.
// Invariants: (1) a slot is reused only after the actor returned it; (2) each time with a higher
// generation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/sync.hpp>

namespace hearth {

inline constexpr std::uint32_t kSlotsPerBlock = 256;
inline constexpr std::uint32_t kMaxSlotBlocks = 1U << 16;  ///< 16.7 million live tensors per device

class SlotPool;

/// One block: the generations (client's side) and the links of the return stack (written by the
/// actor).
struct SlotBlock {
  SlotPool* owner = nullptr;
  std::array<std::uint32_t, kSlotsPerBlock> generation{};
  std::array<std::uint32_t, kSlotsPerBlock> next{};  ///< slot number + 1; 0 ends the list
};

/// All blocks of one device. Threads: any.
class SlotDirectory {
 public:
  SlotDirectory();
  SlotDirectory(const SlotDirectory&) = delete;
  SlotDirectory& operator=(const SlotDirectory&) = delete;
  ~SlotDirectory();

  /// Returns the block of a slot.
  [[nodiscard]] SlotBlock& block_of(SlotId slot) const noexcept {
    return *(*blocks_)[slot.value / kSlotsPerBlock].load(
        std::memory_order_acquire);  // partner: lease
  }
  /// Returns a pool for a new lane: one from an ended lane, else a fresh one.
  [[nodiscard]] SlotPool* take_pool();
  /// Takes over an ended lane's pool; slots may still return to it.
  void leave_pool(SlotPool* pool);
  /// Returns a slot to the pool that leased it. Threads: token holder only.
  void release(SlotId slot) noexcept;
  [[nodiscard]] std::uint32_t block_count() const noexcept {
    return block_count_.load(std::memory_order_acquire);
  }

 private:
  friend class SlotPool;
  /// Errors: DeviceError out_of_memory beyond kMaxSlotBlocks.
  std::uint32_t lease(SlotPool& pool);

  using BlockTable = std::array<std::atomic<SlotBlock*>, kMaxSlotBlocks>;
  struct Free {
    void operator()(BlockTable* table) const noexcept;
  };
  std::unique_ptr<BlockTable, Free> blocks_;
  std::atomic<std::uint32_t> block_count_{0};
  detail::Mutex mutex_;
  std::vector<std::unique_ptr<SlotPool>> pools_ HEARTH_GUARDED_BY(mutex_);
  std::vector<SlotPool*> spare_ HEARTH_GUARDED_BY(mutex_);
};

class SlotPool {
 public:
  struct Name {
    SlotId slot;
    std::uint32_t generation;
  };
  explicit SlotPool(SlotDirectory& directory) noexcept : directory_(directory) {}

  /// Takes a free slot. Threads: the producer of the pool's lane only.
  [[nodiscard]] Name take() {
    if (free_ == 0) {
      refill();
    }
    const std::uint32_t number = free_ - 1;
    SlotBlock& block = directory_.block_of(SlotId{number});
    const std::uint32_t index = number % kSlotsPerBlock;
    free_ = block.next[index];
    return Name{SlotId{number}, ++block.generation[index]};
  }
  /// Returns a slot from take() that no record named. Threads: the producer only.
  void put_back(SlotId slot) noexcept;

 private:
  friend class SlotDirectory;
  void refill();

  SlotDirectory& directory_;
  std::uint32_t free_ = 0;  ///< slot number + 1, client's side
  std::atomic<std::uint32_t> returned_{
      0};  ///< slot number + 1, pushed by the actor, taken whole by the client
};

}  // namespace hearth
