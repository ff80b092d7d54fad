// The handle table: what each slot of a device holds now: bytes, layout, or the error that took
// their place. Private to runtime. Owned by the device actor, touched by the token holder only: no
// locks. Invariants: (1) a Storage lives while any slot (tensor or view) uses it; (2) a poisoned
// slot keeps the first cause; (3) a slot's generation is that of the tensor that lives or last
// lived in it.
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

/// A block of device memory and how many slots use it.
struct Storage {
  Block block;
  std::uint32_t uses = 0;
  PoolKind kind = PoolKind::temporary;
  BlockOrigin origin;
  std::uint64_t number = 0;    ///< of its block in the journal
  LastUse last_use = {};       ///< by work of an asynchronous device
  TimelinePoint written = {};  ///< by the last work that wrote into it
  /// The last update group with a record that reads it while a later use is still to come.
  std::uint64_t reading_group = 0;
  std::unique_ptr<Constant> constant = {};  ///< Of a frozen tensor.
  Storage* next_free = nullptr;
};

/// `pending`: an op in the window of its home will make its tensor; its generation is still that of
/// the tensor before, so that other lanes find it unborn.
enum class SlotState : std::uint8_t { empty, pending, live, poisoned };

/// What a group that is being gathered knows of a tensor (GroupGather); of an older one when the
/// number differs.
struct GatherMark {
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::uint64_t gathering = 0;
  std::uint64_t first_outside = kNever;  ///< The first use by a record that is left alone.
  std::int16_t made = -1;                ///< Its place among those that the group makes,
  std::int16_t input = -1;               ///< reads
  std::int16_t end = -1;                 ///< and ends.
  bool is_before = false;                ///< The group before makes it.
};

/// The number of a tensor among those of records that are compared (GroupRecall).
struct RecallMark {
  std::uint64_t look = 0;
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
  /// set when the layout is not the interned contiguous one
  std::unique_ptr<detail::Layout> view_layout;
  ErrorRef error;
  LateFailures late;                ///< kernels that may spoil it yet
  std::vector<LaneState*> waiting;  ///< lanes parked until this slot's next tensor is made
  GatherMark mark;
  RecallMark recall;
};

/// Whether the operand's tensor is still to be made in its slot. Generations wrap.
[[nodiscard]] inline bool is_unborn(const Slot& slot, const Operand& operand) noexcept {
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
  /// Bytes for a new tensor; nullptr with `outcome` saying why when there are none.
  [[nodiscard]] Storage* allocate(std::int64_t size_bytes,
                                  PoolKind kind,
                                  Acquire& outcome,
                                  const BlockOrigin& origin = {});
  /// One more slot uses it, an op's result that takes the bytes over in place.
  void replace(Storage& storage, const BlockOrigin& origin, std::int64_t size_bytes);
  /// The tensor's bytes do not change from now on, until replace() or the last unuse().
  void freeze(Slot& slot);
  /// Takes back what kernels keep, for good, and says whether that was anything.
  [[nodiscard]] bool give_up_constants() noexcept;
  /// One more slot uses it.
  static void share(Storage& storage) noexcept { ++storage.uses; }
  /// One slot less; the last one gives the block back.
  void unuse(Storage* storage) noexcept;

  /// Fills an empty slot. Takes over one use of `storage`.
  void make_live(Slot& slot,
                 const Operand& operand,
                 LaneId home,
                 Storage* storage,
                 std::byte* data,
                 const detail::Layout* interned);
  /// The same with a layout of its own (a view).
  void make_view(Slot& slot,
                 const Operand& operand,
                 LaneId home,
                 Storage* storage,
                 std::byte* data,
                 detail::Layout layout);
  void make_poisoned(Slot& slot, const Operand& operand, LaneId home, ErrorRef error);
  /// A pending slot's tensor never reaches memory: it comes and goes at once.
  static void pass_over(Slot& slot, const Operand& operand) noexcept {
    slot.state = SlotState::empty;
    slot.generation = operand.generation;
  }
  /// Spoils a live slot; the first cause stays.
  void poison(Slot& slot, ErrorRef error);
  /// Poisons the slot if a kernel that it depends on is known to have failed; forgets those that
  /// are known to have run.
  void settle(Slot& slot);
  /// A new generation: all tensors there are carry `error` from now on, their bytes go with the old
  /// memory, and new ones lie in `memory`.
  void restart(MemoryStrategy& memory, const ErrorRef& error);
  /// Empties a slot: its tensor is gone.
  void clear(Slot& slot) noexcept;
  [[nodiscard]] bool is_live(SlotId id, std::uint32_t generation) {
    const Slot& known = slot(id);
    return known.generation == generation && known.state == SlotState::live;
  }
  [[nodiscard]] std::int64_t live_count() const noexcept { return live_count_; }
  [[nodiscard]] MemoryStrategy& memory() const noexcept { return *memory_; }
  /// Whether nobody wrote outside of the storage's bytes; asks a checking strategy, costs nothing
  /// with others.
  [[nodiscard]] Status check(const Storage& storage) const {
    return is_checked_ ? memory_->check(storage.block) : Status();
  }
  [[nodiscard]] bool is_checked() const noexcept { return is_checked_; }
  /// How many blocks were given back so far: whether a shortage may be over.
  [[nodiscard]] std::uint64_t release_count() const noexcept { return release_count_; }
  /// The device has ended work, so that memory may be there which was not.
  void note_retired(std::size_t stream, std::uint64_t value) {
    memory_->retire(stream, value);
    ++release_count_;
  }
  /// The releases since then gave back only what the same attempt had taken.
  void forget_releases(std::uint64_t count_before) noexcept { release_count_ = count_before; }
  /// The largest first.
  [[nodiscard]] std::vector<LiveTensor> largest_tensors(int count,
                                                        const RuntimeTables& tables) const;
  /// From now on every change is written down, up to take_trace(); what is there already comes
  /// first.
  void start_trace();
  [[nodiscard]] MemoryTrace take_trace(const RuntimeTables& tables);
  /// Of a trace that is on: changes that it had no room for.
  [[nodiscard]] std::uint64_t dropped_changes() const noexcept {
    return journal_ ? journal_->dropped_count() : 0;
  }
  /// Bytes are called what the program calls a tensor in them: `name(slot, generation)` says it, or
  /// 0.
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
