// The ends of tensors that other lanes may still use, and adoptions, which wait for the same uses.
// Private to runtime. Owned by the device actor, touched by the token holder only. Invariant: a
// slot is not free before every use is done that its drop names: until then the drop waits with the
// lane that consumed it, or here if it came as a message.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dispatch.hpp"
#include "lane_queues.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/last_uses.hpp"

namespace hearth {

class Drops final {
 public:
  Drops(DeviceEndpoint& endpoint,
        HandleTable& handles,
        Dispatch& dispatch,
        LaneQueues& queues) noexcept
      : endpoint_(endpoint), handles_(handles), dispatch_(dispatch), queues_(queues) {}

  /// Releases the slot now, or once all its uses are done.
  void drop(LaneState& lane, const OpView& op) {
    if (op.record().blob_size_bytes == 0 && dispatch_.guests.empty()) {
      dispatch_.release_slot(op.input(0).slot);
    } else {
      drop_used(lane, op);
    }
  }
  /// A drop that came as a message: no lane orders it.
  void drop_from_outside(SlotId slot, const LastUsesBlob& uses);
  /// Those that the dispatch leaves behind, of tensors with guests.
  void take_late_drops();
  /// Releases the slots of drops that waited with the lane, where all uses are done now.
  void settle(LaneState& lane) { settle(lane.deferred, lane.id); }
  /// The same for those that came as messages.
  void settle_outside() { settle(outside_, LaneId{}); }

  /// Makes the lane the tensor's home, once the other lanes are done with it.
  [[nodiscard]] Step adopt(LaneState& lane, const OpView& op);

 private:
  /// What waits for a use: memory alone, whose shortage ends windows, or a lane.
  enum class Waits : std::uint8_t { memory, lane };

  void drop_used(LaneState& lane, const OpView& op);
  /// Releases the slot if all its uses are done, of which `watcher` is told otherwise.
  [[nodiscard]] bool release_when_done(DeferredDrop& drop, LaneId watcher);
  /// Releases the slot now, or puts it with `waiting` until all its uses are done, of which
  /// `watcher` is told.
  void drop_when_done(DeferredDrop&& entry, LaneId watcher, std::vector<DeferredDrop>& waiting);
  void settle(std::vector<DeferredDrop>& drops, LaneId watcher);
  [[nodiscard]] std::vector<DeferredDrop::Use> uses_of_drop(const LastUsesBlob& blob) const;
  /// Whether these uses are done. If not, `watcher` is registered with the first lane that must
  /// still move on.
  [[nodiscard]] bool are_done(std::span<const DeferredDrop::Use> uses, LaneId watcher, Waits waits);
  /// Has the lane's window end when the record has joined it.
  void ask_for(LaneState& user, std::uint64_t sequence);
  [[nodiscard]] bool has_done(LaneId id, std::uint64_t sequence) const;

  DeviceEndpoint& endpoint_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
  std::vector<DeferredDrop> outside_;
};

}  // namespace hearth
