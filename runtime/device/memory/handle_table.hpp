// HandleTable: the contents of each slot of a device: bytes and layout, or an error. Private to
// runtime. Owned by the device actor, touched by the token holder only: no locks.
// Invariants: (1) a Storage lives while any slot (tensor or view) uses it; (2) a poisoned slot
// keeps the first cause; (3) a slot's generation is that of its current or last tensor.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <hearth/memory/memory_strategy.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/op_record.hpp>
#include <hearth/streams/slot_pool.hpp>

#include "device_constants.hpp"
#include "late_failure.hpp"
#include "memory_journal.hpp"

namespace hearth {

struct LaneState;

/// A block of device memory and the number of slots that use it.
struct Storage {
  Block block;
  std::uint32_t uses = 0;
  PoolKind kind = PoolKind::temporary;
  BlockOrigin origin;
  std::uint64_t number = 0;    ///< number of its block in the journal
  LastUse last_use = {};       ///< by work of an asynchronous device
  TimelinePoint written = {};  ///< by the last work that wrote to it
  /// Last update group with a record that reads it before its last use.
  std::uint64_t reading_group = 0;
  std::unique_ptr<Constant> constant = {};  ///< Kernel data of a frozen tensor.
  Storage* next_free = nullptr;
};

/// State of a slot. `pending`: an op in the window of its home will create its tensor. The
/// generation is still that of the tensor before, so that other lanes see the new one as not yet
/// created.
enum class SlotState : std::uint8_t { empty, pending, live, poisoned };

/// Data of the current gathering on a tensor (GroupGather). Stale if the number differs.
struct GatherMark {
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::uint64_t gathering = 0;
  std::uint64_t first_outside = kNever;  ///< First use by a bypassed record.
  std::int16_t member = -1;              ///< Index among the values that the group makes,
  std::int16_t input = -1;               ///< the inputs that it reads,
  std::int16_t end = -1;                 ///< and the tensors that it ends.
  bool is_before = false;                ///< The group before makes it.
};

/// Number of a tensor among those of compared records (GroupRecall).
struct RecallMark {
  std::uint64_t pass = 0;
  std::uint32_t tensor = 0;
};

struct Slot {
  SlotState state = SlotState::empty;
  DType dtype = DType::f32;
  bool is_published = false;  ///< other lanes may use it without counting as a foreign use
  std::uint32_t generation = 0;
  LaneId home;
  Storage* storage = nullptr;
  std::byte* data = nullptr;
  const detail::Layout* layout = nullptr;
  /// set unless the layout is the interned contiguous one
  std::unique_ptr<detail::Layout> view_layout;
  ErrorRef error;
  LateFailures late;                ///< kernels that may still spoil it
  std::vector<LaneState*> waiting;  ///< lanes parked until this slot's next tensor is created
  GatherMark mark;
  RecallMark recall;
};

/// Whether the operand's tensor is still to be created in its slot. Generations wrap.
[[nodiscard]] inline bool is_uncreated(const Slot& slot, const Operand& operand) noexcept {
  return static_cast<std::int32_t>(operand.generation - slot.generation) > 0;
}

class HandleTable {
 public:
  explicit HandleTable(MemoryStrategy& memory) noexcept
      : memory_(&memory), constants_(memory), is_checked_(memory.is_checked()) {}
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable() = default;

  [[nodiscard, gnu::always_inline]] Slot& slot(SlotId id) {
    const std::size_t chunk = id.value / kSlotsPerBlock;
    if (chunk >= chunks_.size() || !chunks_[chunk]) {
      make_chunk(chunk);
    }
    return (*chunks_[chunk])[id.value % kSlotsPerBlock];
  }
  /// Allocates bytes for a new tensor. Returns nullptr, with the reason in `outcome`, if there are
  /// none.
  [[nodiscard]] Storage* allocate(std::int64_t size_bytes,
                                  PoolKind kind,
                                  Acquire& outcome,
                                  const BlockOrigin& origin = {});
  /// Adds a use for an op's result that takes over the bytes in place.
  void replace(Storage& storage, const BlockOrigin& origin, std::int64_t size_bytes);
  /// Declares that the tensor's bytes do not change until replace() or the last unuse().
  void freeze(Slot& slot);
  /// Permanently releases the data that kernels keep. Returns whether there was any.
  [[nodiscard]] bool evict_constants() noexcept;
  /// Adds a use.
  static void share(Storage& storage) noexcept { ++storage.uses; }
  /// Removes a use; the last one releases the block.
  void unuse(Storage* storage) noexcept;

  /// Fills an empty slot. Takes over one use of `storage`.
  void make_live(Slot& slot,
                 const Operand& operand,
                 LaneId home,
                 Storage* storage,
                 std::byte* data,
                 const detail::Layout* interned);
  /// Fills an empty slot with a view, which has a layout of its own.
  void make_view(Slot& slot,
                 const Operand& operand,
                 LaneId home,
                 Storage* storage,
                 std::byte* data,
                 detail::Layout layout);
  void make_poisoned(Slot& slot, const Operand& operand, LaneId home, ErrorRef error);
  /// Passes a pending slot whose tensor never reaches memory: it begins and ends at once.
  static void skip_unneeded(Slot& slot, const Operand& operand) noexcept {
    slot.state = SlotState::empty;
    slot.generation = operand.generation;
  }
  /// Poisons a live slot; the first cause is kept.
  void poison(Slot& slot, ErrorRef error);
  /// Poisons the slot if a kernel that it depends on has failed. Forgets kernels that are known to
  /// have succeeded.
  void settle(Slot& slot);
  /// Begins a new generation. All existing tensors carry `error`, and their bytes go with the old
  /// memory. New tensors lie in `memory`.
  void restart(MemoryStrategy& memory, const ErrorRef& error);
  /// Empties a slot: its tensor has ended.
  void clear(Slot& slot) noexcept;
  [[nodiscard]] bool is_live(SlotId id, std::uint32_t generation) {
    const Slot& known = slot(id);
    return known.generation == generation && known.state == SlotState::live;
  }
  [[nodiscard]] std::int64_t live_count() const noexcept { return live_count_; }
  [[nodiscard]] MemoryStrategy& memory() const noexcept { return *memory_; }
  /// Whether no write went out of the storage's bounds. Free unless the strategy checks.
  [[nodiscard]] Status check(const Storage& storage) const {
    return is_checked_ ? memory_->check(storage.block) : Status();
  }
  [[nodiscard]] bool is_checked() const noexcept { return is_checked_; }
  /// Number of released blocks, to detect that a shortage may be over.
  [[nodiscard]] std::uint64_t release_count() const noexcept { return release_count_; }
  /// Records that the device has ended work, so that memory may have become free.
  void record_retired(std::size_t stream, std::uint64_t value) {
    memory_->retire(stream, value);
    ++release_count_;
  }
  /// Resets the release count: later releases only returned what the same attempt had taken.
  void forget_releases(std::uint64_t count_before) noexcept { release_count_ = count_before; }
  /// The largest tensors, in descending order.
  [[nodiscard]] std::vector<LiveTensor> largest_tensors(int count,
                                                        const RuntimeTables& tables) const;
  /// Starts to record every change, up to take_trace(). Existing blocks come first.
  void start_trace();
  [[nodiscard]] MemoryTrace take_trace(const RuntimeTables& tables);
  /// Number of changes that the running trace had no room for.
  [[nodiscard]] std::uint64_t dropped_changes() const noexcept {
    return journal_ ? journal_->dropped_count() : 0;
  }
  /// Names blocks after the program's tensors in them. `name(slot, generation)` returns the path,
  /// or 0.
  void name_blocks(const std::function<PathId(SlotId, std::uint32_t)>& name);

 private:
  void make_chunk(std::size_t chunk);
  using Chunk = std::array<Slot, kSlotsPerBlock>;

  MemoryStrategy* memory_;
  DeviceConstants constants_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::unique_ptr<Storage>> storages_;
  Storage* free_storage_ = nullptr;
  std::int64_t live_count_ = 0;
  bool is_checked_ = false;
  std::uint64_t release_count_ = 0;
  std::uint64_t last_number_ = 0;
  std::unique_ptr<MemoryJournal> journal_;

  void note(MemoryEvent::What what, const Storage& storage);
};

}  // namespace hearth
