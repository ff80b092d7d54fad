// TensorImpl: a tensor's state on the client's side: its name on the device (slot, generation), its
// metadata, and its last uses by lane. Private to runtime.
// Threads: the count and the last uses are atomic. Everything else is fixed at creation, except
// `home`, which adopt() changes while it is the only holder.
// Invariants: (1) each last-use entry is written by its own lane's thread only; (2) the thread that
// drops the last reference sees all entries, because the count is decremented with acq_rel.
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

/// Marks a layer's weight that no model has named and no WeightWatch has seen.
inline constexpr std::uint64_t kUnseenWeight = 1;

struct TensorImpl {
  std::atomic<std::uint32_t> references{1};
  std::uint32_t generation = 0;
  SlotId slot;
  ShapeId shape_id;
  LaneId home;
  std::atomic<PathId> path{
      /// written again while others read it: threads that share a model write the same value
      PathId{}};
  DType dtype = DType::f32;
  std::atomic<bool> is_foreign{
      false};  ///< used by a lane other than its home since it was made or adopted
  std::atomic<bool> has_many_users{false};  ///< used by more foreign lanes than there are entries
  const detail::Layout* layout = nullptr;   ///< the interned contiguous layout of its shape
  std::atomic<std::uint64_t> home_sequence{0};  ///< last record of the home lane that uses it
  std::array<LaneUse, kInlineLastUses> foreign_uses{};
  /// 0 = no weight, or named by a model; kUnseenWeight; or the WeightWatch that first saw it.
  std::atomic<std::uint64_t> unnamed_weight{0};
  TensorImpl* next_drop = nullptr;  ///< links queued drops while the lane is full
  IntrusivePtr<DeviceEndpoint> endpoint;

  /// Notes that record `sequence` of `lane` uses the tensor. Threads: the lane's.
  void record_use(LaneId lane, std::uint64_t sequence) noexcept;
  /// Marks the tensor as used by many lanes. No later use is noted, and its memory is never reused
  /// in place. Threads: one, before others use it.
  void freeze() noexcept;
  /// The uses that must be consumed before the slot is free, except those of `lane`, which orders
  /// its own.
  [[nodiscard]] LastUsesBlob last_uses(LaneId lane) const noexcept;
  [[nodiscard]] Operand operand(Use use) const noexcept {
    return Operand{
        .slot = slot, .generation = generation, .shape = shape_id, .dtype = dtype, .use = use};
  }
};

/// The tensor's name on its device, as one number.
[[nodiscard]] inline std::uint64_t name_of(const TensorImpl& tensor) noexcept {
  return (std::uint64_t{tensor.slot.value} << 32U) | tensor.generation;
}

}  // namespace hearth
