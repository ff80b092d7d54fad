// The client's side of a stream: its lane, its slot numbers, its drops that wait for room, and the sink its records go to.
// Private to runtime.
// Threads: one at a time; `user` says which. Invariants: (1) drops keep their place in the program's order: a drop that found the lane
// full goes out before the next push; (2) tensors' bookkeeping objects are reused, so a warm stream makes tensors without malloc.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <hearth/runtime/base/source_table.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/sink.hpp>

#include "device_endpoint.hpp"
#include "tensor_impl.hpp"

namespace hearth {

class StreamState final : public Sink {
 public:
  explicit StreamState(IntrusivePtr<DeviceEndpoint> endpoint);
  ~StreamState() override;

  [[nodiscard]] DeviceEndpoint& endpoint() const noexcept { return *endpoint_; }
  [[nodiscard]] LaneId id() const noexcept { return lane_id_; }

  /// A new tensor's bookkeeping, with a slot of its own and one reference.
  [[nodiscard]] TensorImpl* make_tensor(DType dtype, ShapeId shape);
  /// Takes back a tensor whose record never went out.
  void unmake_tensor(TensorImpl* impl) noexcept;
  /// Keeps the bookkeeping object of a tensor whose slot was given away or dropped.
  void recycle(TensorImpl* impl) noexcept;
  /// The last reference is gone: sends the drop, or keeps it until there is room. Never blocks, never throws.
  void drop(TensorImpl* impl) noexcept;

  /// To the lane, after the drops that wait; waits when the lane is full.
  void submit(OpRecord& record, std::span<const std::byte> blob) override;
  /// The number of a source location.
  [[nodiscard]] SourceId source(SourceLoc location) {
    return sources_.intern(endpoint_->tables().sources, location);
  }

  /// RecordFlag bits that every record which makes tensors gets: a WeightScope is open.
  [[nodiscard]] std::uint16_t record_flags() const noexcept { return record_flags_; }
  void set_record_flags(std::uint16_t flags) noexcept { record_flags_ = flags; }

  /// Binds the stream to the calling thread. Errors: ArgumentError stream_misuse when another thread uses it.
  void enter(SourceLoc loc);
  void leave() noexcept;

 private:
  friend class StreamScope;
  static constexpr std::size_t kKeptObjects = 512;

  [[nodiscard]] bool push(OpRecord& record, std::span<const std::byte> blob);
  void push_waiting(OpRecord& record, std::span<const std::byte> blob);
  void submit_recorded(OpRecord& record, std::span<const std::byte> blob);
  [[nodiscard]] bool push_drop(TensorImpl& impl);
  [[nodiscard]] bool flush_drops();
  void wait_for_room();

  const IntrusivePtr<DeviceEndpoint> endpoint_;
  Lane& lane_;
  const LaneId lane_id_;
  SlotPool* const slots_;
  SourceCache sources_;
  std::vector<TensorImpl*> kept_;
  TensorImpl* first_drop_ = nullptr;
  TensorImpl* last_drop_ = nullptr;
  std::atomic<std::uint64_t> user_{0};
  std::uint32_t depth_ = 0;
  std::uint16_t record_flags_ = 0;
};

/// A thread's streams on one device: its default one, and the one a StreamScope made current.
class DeviceClient final : public ContextAttachment {
 public:
  explicit DeviceClient(IntrusivePtr<DeviceEndpoint> endpoint)
      : default_stream_(std::move(endpoint)), current(&default_stream_) {}

  /// The device is closed and no scope is open on it, neither a StreamScope nor a WeightScope.
  [[nodiscard]] bool is_obsolete() const noexcept override {
    return current == &default_stream_ && default_stream_.record_flags() == 0 &&
           default_stream_.endpoint().is_closed();
  }

 private:
  StreamState default_stream_;

 public:
  StreamState* current;
};

/// The calling thread's client of a device; made on first use. Errors: DeviceError device_closed.
[[nodiscard]] DeviceClient& make_client(DeviceEndpoint& endpoint);
[[nodiscard]] inline DeviceClient& current_client(DeviceEndpoint& endpoint) {
  auto* client = current_context().find<DeviceClient>(endpoint.key());
  return client != nullptr ? *client : make_client(endpoint);
}
/// The calling thread's current stream on a device.
[[nodiscard]] inline StreamState& current_stream(DeviceEndpoint& endpoint) {
  return *current_client(endpoint).current;
}

}  // namespace hearth
