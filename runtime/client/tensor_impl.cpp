#include "tensor_impl.hpp"

namespace hearth {

void TensorImpl::freeze() noexcept {
  is_foreign.store(true, std::memory_order_release);
  has_many_users.store(true, std::memory_order_release);
}

void TensorImpl::record_use(LaneId lane, std::uint64_t sequence) noexcept {
  if (has_many_users.load(std::memory_order_acquire)) {
    return;  // its drop waits for all lanes, so threads that share it write nothing
  }
  if (lane == home) {
    home_sequence.store(sequence,
                        std::memory_order_release);  // partner: the dropping thread's load
    return;
  }
  is_foreign.store(true, std::memory_order_release);
  for (LaneUse& use : foreign_uses) {
    std::uint64_t owner = use.lane.load(std::memory_order_acquire);
    if (owner == 0 &&
        use.lane.compare_exchange_strong(
            owner, lane.value, std::memory_order_acq_rel, std::memory_order_acquire)) {
      owner = lane.value;
    }
    if (owner == lane.value) {
      use.sequence.store(sequence, std::memory_order_release);
      return;
    }
  }
  has_many_users.store(true, std::memory_order_release);
}

LastUsesBlob TensorImpl::last_uses(LaneId lane) const noexcept {
  LastUsesBlob blob;
  const auto add = [&](std::uint64_t id, std::uint64_t sequence) {
    if (id != 0 && id != lane.value && sequence != 0) {
      blob.lane[blob.count] = id;
      blob.sequence[blob.count] = sequence;
      ++blob.count;
    }
  };
  add(home.value, home_sequence.load(std::memory_order_acquire));
  for (const LaneUse& use : foreign_uses) {
    add(use.lane.load(std::memory_order_acquire), use.sequence.load(std::memory_order_acquire));
  }
  blob.all_lanes = has_many_users.load(std::memory_order_acquire) ? 1 : 0;
  return blob;
}

}  // namespace hearth
