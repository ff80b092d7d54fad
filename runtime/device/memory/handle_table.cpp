#include "handle_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <hearth/runtime/base/assert.hpp>

namespace hearth {

// Slots lie in chunks, so that they never move. Lanes park on slots and resolved ops refer to them,
// while other threads' tensors get new ones.
void HandleTable::make_chunk(std::size_t chunk) {
  if (chunk >= chunks_.size()) {
    chunks_.resize(chunk + 1);
  }
  chunks_[chunk] = std::make_unique<Chunk>();
}

Storage* HandleTable::allocate(std::int64_t size_bytes,
                               PoolKind kind,
                               Acquire& outcome,
                               const BlockOrigin& origin) {
  Block block;
  outcome = memory_->acquire(size_bytes, kind, block);
  if (outcome != Acquire::ok) {
    return nullptr;
  }
  if (block.data == nullptr) {
    throw std::logic_error("it answered ok and gave no bytes");
  }
  // Storage objects are reused and not freed before a restart: a warm device allocates none.
  if (free_storage_ == nullptr) {
    storages_.push_back(std::make_unique<Storage>());
    free_storage_ = storages_.back().get();
  }
  Storage* storage = std::exchange(free_storage_, free_storage_->next_free);
  // Counted even without a journal: a journal that starts later names the existing blocks. Filled
  // field by field: constructing a Storage and moving it here costs small ops 20 instructions.
  storage->block = block;
  storage->uses = 1;
  storage->kind = kind;
  storage->origin = origin;
  storage->number = ++last_number_;
  storage->last_use = {};
  storage->written = {};
  if (journal_) {
    note(MemoryEvent::What::made, *storage);
  }
  return storage;
}

void HandleTable::replace(Storage& storage, const BlockOrigin& origin, std::int64_t size_bytes) {
  share(storage);
  storage.constant.reset();
  memory_->count_in_place(size_bytes);
  storage.origin = origin;
  if (journal_) {
    note(MemoryEvent::What::replaced, storage);
  }
}

void HandleTable::freeze(Slot& slot) {
  if (slot.storage != nullptr && !slot.storage->constant) {
    slot.storage->constant = constants_.make();
  }
}

bool HandleTable::evict_constants() noexcept {
  const bool gave_any = constants_.evict();
  release_count_ += gave_any ? 1U : 0U;
  return gave_any;
}

// Inline devices name no use: their work is done when submit() returns.
void HandleTable::unuse(Storage* storage) noexcept {
  if (storage == nullptr || --storage->uses > 0) {
    return;
  }
  if (journal_) {
    note(MemoryEvent::What::freed, *storage);
  }
  storage->constant.reset();
  memory_->release(storage->block, storage->last_use);
  ++release_count_;
  storage->next_free = std::exchange(free_storage_, storage);
}

void HandleTable::make_live(Slot& slot,
                            const Operand& operand,
                            LaneId home,
                            Storage* storage,
                            std::byte* data,
                            const detail::Layout* interned) {
  HEARTH_ASSERT(slot.state == SlotState::empty || slot.state == SlotState::pending,
                "a slot was filled twice");
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
                            detail::Layout layout) {
  std::unique_ptr<detail::Layout> own = std::make_unique<detail::Layout>(layout);
  make_live(slot, operand, home, storage, data, nullptr);
  slot.view_layout = std::move(own);
  slot.layout = slot.view_layout.get();
}

// Counts as live: its drop comes like that of any other tensor.
void HandleTable::make_poisoned(Slot& slot, const Operand& operand, LaneId home, ErrorRef error) {
  make_live(slot, operand, home, nullptr, nullptr, nullptr);
  slot.state = SlotState::poisoned;
  slot.error = std::move(error);
}

// The first cause stays. The bytes also stay until the tensor ends: a view of them may be valid.
void HandleTable::poison(Slot& slot, ErrorRef error) {
  if (slot.state == SlotState::live) {
    slot.state = SlotState::poisoned;
    slot.error = std::move(error);
  }
}

void HandleTable::settle(Slot& slot) {
  if (ErrorRef error = first_error(slot.late)) {
    slot.late.reset();
    poison(slot, std::move(error));
  } else if (are_known(slot.late)) {
    slot.late.reset();
  }
}

// Slots keep generation and home, because many threads hold handles to them. Their bytes belong to
// the old backend and go with it.
void HandleTable::restart(MemoryStrategy& memory, const ErrorRef& error) {
  for (const std::unique_ptr<Chunk>& chunk : chunks_) {
    for (std::size_t i = 0; chunk && i < chunk->size(); ++i) {
      Slot& slot = (*chunk)[i];
      poison(slot, error);
      slot.storage = nullptr;
      slot.data = nullptr;
      slot.layout = nullptr;
      slot.view_layout.reset();
      slot.late.reset();
    }
  }
  constants_.restart(memory);
  storages_.clear();
  free_storage_ = nullptr;
  memory_ = &memory;
  is_checked_ = memory.is_checked();
  journal_.reset();
}

// ---- holders of memory ----

namespace {

MemoryJournal::Entry entry_of(MemoryEvent::What what, const Storage& storage) {
  return {.what = what,
          .is_exclusive = storage.kind == PoolKind::exclusive,
          .block = storage.number,
          .size_bytes = storage.block.size_bytes,
          .origin = storage.origin,
          .time = {}};
}

}  // namespace

void HandleTable::note(MemoryEvent::What what, const Storage& storage) {
  journal_->note(entry_of(what, storage));
}

void HandleTable::start_trace() {
  journal_ = std::make_unique<MemoryJournal>();
  std::vector<const Storage*> live;
  for (const std::unique_ptr<Storage>& storage : storages_) {
    if (storage->uses > 0) {
      live.push_back(storage.get());
    }
  }
  // in order of creation, because Storage objects are reused
  std::ranges::sort(live, {}, &Storage::number);
  for (const Storage* storage : live) {
    journal_->record_present(entry_of(MemoryEvent::What::made, *storage));
  }
}

MemoryTrace HandleTable::take_trace(const RuntimeTables& tables) {
  const std::unique_ptr<MemoryJournal> journal = std::move(journal_);
  return journal ? journal->read(tables) : MemoryTrace();
}

void HandleTable::name_blocks(const std::function<PathId(SlotId, std::uint32_t)>& name) {
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    for (std::size_t i = 0; chunks_[chunk] && i < kSlotsPerBlock; ++i) {
      const Slot& slot = (*chunks_[chunk])[i];
      if (slot.state != SlotState::live || slot.storage == nullptr) {
        continue;
      }
      const auto number = static_cast<std::uint32_t>(chunk * kSlotsPerBlock + i);
      const PathId path = name(SlotId{number}, slot.generation);
      if (path.value == 0) {
        continue;
      }
      slot.storage->origin.path = path;
      if (journal_) {
        journal_->name(slot.storage->number, path);
      }
    }
  }
}

// Counts blocks, not tensors: views of one block would count its bytes several times.
std::vector<LiveTensor> HandleTable::largest_tensors(int count, const RuntimeTables& tables) const {
  std::vector<const Storage*> live;
  for (const std::unique_ptr<Storage>& storage : storages_) {
    if (storage->uses > 0) {
      live.push_back(storage.get());
    }
  }
  const auto named = std::min(live.size(), static_cast<std::size_t>(std::max(count, 0)));
  std::ranges::partial_sort(live,
                            live.begin() + static_cast<std::ptrdiff_t>(named),
                            [](const Storage* a, const Storage* b) {
                              return a->block.size_bytes != b->block.size_bytes
                                         ? a->block.size_bytes > b->block.size_bytes
                                         : a->number < b->number;
                            });
  live.resize(named);
  std::vector<LiveTensor> tensors;
  for (const Storage* storage : live) {
    tensors.push_back({.size_bytes = storage->block.size_bytes,
                       .is_exclusive = storage->kind == PoolKind::exclusive,
                       .origin = describe(storage->origin, tables)});
  }
  return tensors;
}

// ---- tensors ----

// The generation stays, so that a later access finds the tensor ended and not unborn.
void HandleTable::clear(Slot& slot) noexcept {
  HEARTH_ASSERT(slot.state == SlotState::live || slot.state == SlotState::poisoned,
                "a tensor goes before it is made");
  if (slot.state == SlotState::empty) {
    return;
  }
  unuse(std::exchange(slot.storage, nullptr));
  slot.state = SlotState::empty;
  slot.data = nullptr;
  slot.layout = nullptr;
  slot.view_layout.reset();
  slot.error.reset();
  slot.late.reset();
  --live_count_;
}

}  // namespace hearth
