#include "handle_table.hpp"

#include <utility>

#include <hearth/runtime/base/assert.hpp>

namespace hearth {

Slot& HandleTable::slot(SlotId id) {
  const std::size_t chunk = id.value / kSlotsPerBlock;
  if (chunk >= chunks_.size()) {
    chunks_.resize(chunk + 1);
  }
  if (!chunks_[chunk]) {
    chunks_[chunk] = std::make_unique<Chunk>();
  }
  return (*chunks_[chunk])[id.value % kSlotsPerBlock];
}

Storage* HandleTable::allocate(std::int64_t size_bytes, PoolKind kind, Acquire& outcome) {
  Block block;
  outcome = memory_.acquire(size_bytes, kind, block);
  if (outcome != Acquire::ok) {
    return nullptr;
  }
  if (free_storage_ == nullptr) {
    storages_.push_back(std::make_unique<Storage>());
    free_storage_ = storages_.back().get();
  }
  Storage* storage = std::exchange(free_storage_, free_storage_->next_free);
  *storage = Storage{.block = block, .uses = 1, .kind = kind};
  return storage;
}

void HandleTable::unuse(Storage* storage) noexcept {
  if (storage == nullptr || --storage->uses > 0) {
    return;
  }
  memory_.release(storage->block, LastUse{});
  storage->next_free = std::exchange(free_storage_, storage);
}

void HandleTable::make_live(Slot& slot,
                            const Operand& operand,
                            LaneId home,
                            Storage* storage,
                            std::byte* data,
                            const Layout* interned) {
  HEARTH_ASSERT(slot.state == SlotState::empty, "a slot was filled twice");
  slot.state = SlotState::live;
  slot.dtype = operand.dtype;
  slot.generation = operand.generation;
  slot.home = home;
  slot.storage = storage;
  slot.data = data;
  slot.layout = interned;
  slot.is_published = false;
  ++live_count_;
}

void HandleTable::make_view(Slot& slot,
                            const Operand& operand,
                            LaneId home,
                            Storage* storage,
                            std::byte* data,
                            Layout layout) {
  make_live(slot, operand, home, storage, data, nullptr);
  slot.view_layout = std::make_unique<Layout>(layout);
  slot.layout = slot.view_layout.get();
}

void HandleTable::make_poisoned(Slot& slot, const Operand& operand, LaneId home, ErrorRef error) {
  make_live(slot, operand, home, nullptr, nullptr, nullptr);
  slot.state = SlotState::poisoned;
  slot.error = std::move(error);
}

void HandleTable::poison(Slot& slot, ErrorRef error) {
  if (slot.state == SlotState::live) {
    slot.state = SlotState::poisoned;
    slot.error = std::move(error);
  }
}

void HandleTable::clear(Slot& slot) noexcept {
  if (slot.state == SlotState::empty) {
    return;
  }
  unuse(std::exchange(slot.storage, nullptr));
  slot.state = SlotState::empty;
  slot.data = nullptr;
  slot.layout = nullptr;
  slot.view_layout.reset();
  slot.error.reset();
  --live_count_;
}

}  // namespace hearth
