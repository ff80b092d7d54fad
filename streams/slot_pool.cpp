#include <hearth/streams/slot_pool.hpp>

#include <cstdlib>
#include <new>
#include <utility>

#include <hearth/runtime/base/error.hpp>

namespace hearth {

// Half a MiB, of which most devices use a few bytes: calloc gets zero pages, which the system maps
// when they are touched. Writing the zeros took longer than capturing an optimizer's update, which
// has a device of its own.
SlotDirectory::SlotDirectory()
    : blocks_(static_cast<BlockTable*>(std::calloc(1, sizeof(BlockTable)))) {
  static_assert(std::atomic<SlotBlock*>::is_always_lock_free &&
                sizeof(std::atomic<SlotBlock*>) == sizeof(SlotBlock*));  // zeros are null
  if (blocks_ == nullptr) {
    throw std::bad_alloc();
  }
}

void SlotDirectory::Free::operator()(BlockTable* table) const noexcept {
  std::free(table);
}

SlotDirectory::~SlotDirectory() {
  for (std::uint32_t i = 0; i < block_count(); ++i) {
    const std::unique_ptr<SlotBlock> block((*blocks_)[i].load(std::memory_order_acquire));
  }
}

SlotPool* SlotDirectory::take_pool() {
  const detail::MutexLock lock(mutex_);
  if (!spare_.empty()) {
    SlotPool* pool = spare_.back();
    spare_.pop_back();
    return pool;
  }
  pools_.push_back(std::make_unique<SlotPool>(*this));
  return pools_.back().get();
}

void SlotDirectory::leave_pool(SlotPool* pool) {
  const detail::MutexLock lock(mutex_);
  spare_.push_back(pool);
}

std::uint32_t SlotDirectory::lease(SlotPool& pool) {
  const detail::MutexLock lock(mutex_);
  const std::uint32_t number = block_count_.load(std::memory_order_acquire);
  if (number == kMaxSlotBlocks) {
    throw DeviceError(Error{.code = ErrorCode::out_of_memory,
                            .text = "more than 16.7 million tensors are alive on one device"});
  }
  auto block = std::make_unique<SlotBlock>();
  block->owner = &pool;
  const std::uint32_t first = number * kSlotsPerBlock;
  for (std::uint32_t i = 0; i + 1 < kSlotsPerBlock; ++i) {
    block->next[i] = first + i + 2;
  }
  (*blocks_)[number].store(block.release(), std::memory_order_release);  // partner: block_of
  block_count_.store(number + 1, std::memory_order_release);
  return first + 1;
}

void SlotDirectory::release(SlotId slot) noexcept {
  SlotBlock& block = block_of(slot);
  SlotPool& pool = *block.owner;
  std::uint32_t old = pool.returned_.load(std::memory_order_acquire);
  do {
    block.next[slot.value % kSlotsPerBlock] = old;
  } while (!pool.returned_.compare_exchange_weak(old,
                                                 slot.value + 1,
                                                 std::memory_order_acq_rel,
                                                 std::memory_order_acquire));  // partner: refill
}

void SlotPool::refill() {
  free_ = returned_.exchange(0, std::memory_order_acq_rel);  // partner: release
  if (free_ == 0) {
    free_ = directory_.lease(*this);
  }
}

void SlotPool::put_back(SlotId slot) noexcept {
  SlotBlock& block = directory_.block_of(slot);
  const std::uint32_t index = slot.value % kSlotsPerBlock;
  --block.generation[index];
  block.next[index] = std::exchange(free_, slot.value + 1);
}

}  // namespace hearth
