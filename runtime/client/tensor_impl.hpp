// What a Tensor refers to on the client's side: its name on the device (slot, generation), its
// facts, and who used it where. Private to runtime. Threads: the count and the last uses are
// atomic; everything else is fixed at birth, except `home`, which adopt() changes while it is the
// only holder. Invariants: (1) each last-use entry is written by its own lane's thread only; (2)
// the thread that drops the last reference sees all entries, because the count is decremented with
// acq_rel.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/op_record.hpp>

#include "device_endpoint.hpp"
#include "last_uses.hpp"

namespace hearth {

/// The last record of one foreign lane that uses a tensor.
struct LaneUse {
  std::atomic<std::uint64_t> lane{0};
  std::atomic<std::uint64_t> sequence{0};
};

/// A layer's weight that no model has named and no WeightWatch has seen.
inline constexpr std::uint64_t kUnseenWeight = 1;

struct TensorImpl {
  std::atomic<std::uint32_t> references{1};
  std::uint32_t generation = 0;
  SlotId slot;
  ShapeId shape_id;
  LaneId home;
  std::atomic<PathId> path{
      PathId{}};  ///< set again while others read it: by those who share a model, to the same value
  DType dtype = DType::f32;
  std::atomic<bool> is_foreign{
      false};  ///< used by a lane that is not its home since it was made or adopted
  std::atomic<bool> has_many_users{false};      ///< more foreign lanes than entries
  const detail::Layout* layout = nullptr;       ///< the interned contiguous layout of its shape
  std::atomic<std::uint64_t> home_sequence{0};  ///< last record of the home lane that names it
  std::array<LaneUse, kInlineLastUses> foreign_uses{};
  /// 0: no weight, or a model has named it; kUnseenWeight; or the WeightWatch that saw it first.
  std::atomic<std::uint64_t> unnamed_weight{0};
  TensorImpl* next_drop = nullptr;  ///< link while its drop waits for room in the lane
  IntrusivePtr<DeviceEndpoint> endpoint;

  /// Notes that record `sequence` of `lane` names it. Threads: the lane's.
  void note_use(LaneId lane, std::uint64_t sequence) noexcept;
  /// Counts as used by many lanes from now on: no use is noted any more, and its memory is never
  /// reused in place. Threads: one, before others use it.
  void freeze() noexcept;
  /// What must be consumed before its slot is free, seen from `lane`, which needs no waiting for
  /// itself.
  [[nodiscard]] LastUsesBlob last_uses(LaneId lane) const noexcept;
  [[nodiscard]] Operand operand(Use use) const noexcept {
    return Operand{
        .slot = slot, .generation = generation, .shape = shape_id, .dtype = dtype, .use = use};
  }
};

/// A tensor's name on its device, as one number.
[[nodiscard]] inline std::uint64_t name_of(const TensorImpl& tensor) noexcept {
  return (std::uint64_t{tensor.slot.value} << 32U) | tensor.generation;
}

}  // namespace hearth
