// Drops: the ends of tensors that other lanes may still use, and adoptions, which wait for the same
// uses. Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariant: a slot is not freed before every use that its drop names is done. Until then the drop
// waits with the lane that consumed it, or here if it came as a message.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/last_uses.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/lanes/lane_queues.hpp"

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
  /// Handles a drop that came as a message: no lane orders it.
  void drop_from_outside(SlotId slot, const LastUsesBlob& uses);
  /// Takes the drops of tensors with guests from the dispatch.
  void take_late_drops();
  /// Releases the slots of the lane's waiting drops whose uses are all done.
  void settle(LaneState& lane) { settle(lane.deferred, lane.id); }
  /// Releases the slots of waiting drops that came as messages, like settle().
  void settle_outside() { settle(outside_, LaneId{}); }

  /// Makes the lane the tensor's home, once the other lanes are done with it.
  [[nodiscard]] Step adopt(LaneState& lane, const OpView& op);

 private:
  /// The waiting side: memory alone (a shortage ends windows anyway), or a lane.
  enum class Waits : std::uint8_t { memory, lane };

  void drop_used(LaneState& lane, const OpView& op);
  /// Releases the slot if all its uses are done; else registers `watcher` with a lane that is
  /// behind.
  [[nodiscard]] bool release_when_done(DeferredDrop& drop, LaneId watcher);
  /// Releases the slot now, or adds it to `waiting` and registers `watcher` with a lane that is
  /// behind.
  void drop_when_done(DeferredDrop&& entry, LaneId watcher, std::vector<DeferredDrop>& waiting);
  void settle(std::vector<DeferredDrop>& drops, LaneId watcher);
  [[nodiscard]] std::vector<DeferredDrop::Use> uses_of_drop(const LastUsesBlob& blob) const;
  /// Whether these uses are done. If not, registers `watcher` with the first lane that is behind.
  [[nodiscard]] bool are_done(std::span<const DeferredDrop::Use> uses, LaneId watcher, Waits waits);
  /// Ends the lane's window as soon as it holds the record.
  void ask_for(LaneState& user, std::uint64_t sequence);
  [[nodiscard]] bool has_done(LaneId id, std::uint64_t sequence) const;

  DeviceEndpoint& endpoint_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
  std::vector<DeferredDrop> outside_;
};

}  // namespace hearth
