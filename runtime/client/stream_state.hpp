// StreamState: the client's side of a stream: its lane, its slot numbers, its drops that wait for
// room, and the sink of its records. Private to runtime.
// Threads: one at a time; `user_` holds its id.
// Invariants: (1) drops keep their place in the program's order: a drop that found the lane full is
// pushed before the next record; (2) bookkeeping objects of tensors are reused, so a warm stream
// makes tensors without malloc.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <hearth/runtime/base/source_table.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/sink.hpp>

#include "device_endpoint.hpp"
#include "name_set.hpp"
#include "stop_watch.hpp"
#include "tensor_impl.hpp"

namespace hearth {

namespace detail {
class WeightWatch;
}

/// An update group that is open on a stream. Shared by the group and the stream, since either may
/// be destroyed first.
struct OpenGroup {
  SourceLoc opened;
  LaneId lane;
  NameSet made = {};  ///< its results; commit() computes them
  /// Options of its last Adam update, and the scalars derived from them.
  std::optional<AdamUpdate> adam_options = {};
  std::array<double, 8> adam_scalars = {};
  bool is_discarded = false;  ///< destroyed, but its stream has not sent the discard yet

  [[nodiscard]] bool makes(const TensorImpl& tensor) const noexcept {
    return made.has(name_of(tensor));
  }
};

class StreamState final : public Sink {
 public:
  /// Captured updates of Sgd and Adam, keyed by form and dtypes of parameter and gradient.
  using Updates = std::map<std::tuple<int, DType, DType>, ExpressionRef>;

  explicit StreamState(IntrusivePtr<DeviceEndpoint> endpoint);
  ~StreamState() override;

  [[nodiscard]] DeviceEndpoint& endpoint() const noexcept { return *endpoint_; }
  [[nodiscard]] LaneId id() const noexcept { return lane_id_; }

  /// Makes a tensor's bookkeeping object, with its own slot and one reference.
  [[nodiscard]] TensorImpl* make_tensor(DType dtype, ShapeId shape);
  /// Takes back a tensor whose record was never pushed.
  void unmake_tensor(TensorImpl* impl) noexcept;
  /// Keeps the bookkeeping object of a tensor whose slot was transferred or dropped, for reuse.
  void recycle(TensorImpl* impl) noexcept;
  /// Handles the release of the last reference: pushes the drop, or queues it until there is room.
  /// Never blocks, never throws.
  void drop(TensorImpl* impl) noexcept;

  /// Pushes to the lane, after the queued drops; waits if the lane is full.
  void submit(OpRecord& record, std::span<const std::byte> blob) override;
  /// The id of a source location.
  [[nodiscard]] SourceId source(SourceLoc location) {
    return sources_.intern(endpoint_->tables().sources, location);
  }

  /// Sets the limits of later records. The limit record is pushed with the next record.
  void set_limits(StreamLimits limits);
  [[nodiscard]] const StreamLimits& limits() const noexcept { return limits_; }
  /// Cancels submitted records that have not begun. Threads: any.
  void cancel() noexcept;

  /// RecordFlag bits of every record that makes tensors; set while a WeightScope is open.
  [[nodiscard]] std::uint16_t record_flags() const noexcept { return record_flags_; }
  void set_record_flags(std::uint16_t flags) noexcept { record_flags_ = flags; }
  /// The path of records whose inputs have none: the layer that is running.
  [[nodiscard]] PathId path() const noexcept { return path_; }
  /// Sets the path and returns the previous one.
  PathId exchange_path(PathId path) noexcept { return std::exchange(path_, path); }

  /// The observer of each op submitted here; null outside a value_and_grad.
  [[nodiscard]] const detail::WeightWatch* weight_watch() const noexcept { return weight_watch_; }
  const detail::WeightWatch* exchange_weight_watch(const detail::WeightWatch* watch) noexcept {
    return std::exchange(weight_watch_, watch);
  }

  [[nodiscard]] bool has_open_group() const noexcept { return open_group_ != nullptr; }
  /// The update group open here, or nullptr. Discards one that was destroyed.
  [[nodiscard]] const OpenGroup* open_group() {
    if (open_group_ != nullptr && open_group_->is_discarded) {
      discard_group();
    }
    return open_group_.get();
  }
  void set_open_group(std::shared_ptr<OpenGroup> group) noexcept { open_group_ = std::move(group); }
  /// Checks that `op` reads no result of the open update group: it would wait in vain, since the
  /// commit follows it.
  /// Errors: ArgumentError.
  /// Cost: one pointer test if no group is open.
  void require_made(const TensorImpl& tensor, std::string_view op, SourceLoc loc) {
    if (has_open_group()) [[unlikely]] {
      refuse_unmade(tensor, op, loc);
    }
  }

  /// Cached for the stream's update groups, which are many and short.
  [[nodiscard]] Updates& updates() noexcept { return updates_; }

  /// Binds the stream to the calling thread.
  /// Errors: ArgumentError stream_misuse if another thread uses it.
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
  [[nodiscard]] bool push_limits();
  /// Returns whether queued drops or new limits must be pushed before the next record.
  [[nodiscard]] bool must_flush() const noexcept {
    return first_drop_ != nullptr || has_new_limits_;
  }
  [[nodiscard]] bool flush() { return flush_drops() && (!has_new_limits_ || push_limits()); }
  /// Waits until `record` has room, or until its limits end the wait.
  void wait_for_room(const OpRecord& record);
  [[noreturn]] void throw_closed(const OpRecord& record) const;
  /// `error.text`: the reason why the wait ended, or empty.
  [[noreturn]] void throw_full(const OpRecord& record, Error error);
  void discard_group();
  void refuse_unmade(const TensorImpl& tensor, std::string_view op, SourceLoc loc);

  const IntrusivePtr<DeviceEndpoint> endpoint_;
  Lane& lane_;
  const LaneId lane_id_;
  SlotPool* const slots_;
  SourceCache sources_;
  std::vector<TensorImpl*> kept_;
  StreamLimits limits_;
  std::unique_ptr<StopWatch> new_stop_;
  bool has_new_limits_ = false;
  TensorImpl* first_drop_ = nullptr;
  TensorImpl* last_drop_ = nullptr;
  std::atomic<std::uint64_t> user_{0};
  std::uint32_t depth_ = 0;
  std::uint16_t record_flags_ = 0;
  PathId path_;
  const detail::WeightWatch* weight_watch_ = nullptr;
  std::shared_ptr<OpenGroup> open_group_;
  Updates updates_;
};

/// A thread's streams on one device: its default stream, and the current one, which a StreamScope
/// sets.
class DeviceClient final : public detail::ContextAttachment {
 public:
  explicit DeviceClient(IntrusivePtr<DeviceEndpoint> endpoint)
      : default_stream_(std::move(endpoint)), current(&default_stream_) {}

  /// True if the device is closed and no StreamScope, WeightScope or value_and_grad is open on it.
  [[nodiscard]] bool is_obsolete() const noexcept override {
    return current == &default_stream_ && default_stream_.record_flags() == 0 &&
           default_stream_.weight_watch() == nullptr && default_stream_.endpoint().is_closed();
  }

 private:
  StreamState default_stream_;

 public:
  StreamState* current;
};

/// The calling thread's client of a device, made on first use. Errors: DeviceError device_closed.
[[nodiscard]] DeviceClient& make_client(DeviceEndpoint& endpoint, SourceLoc loc = {});
[[nodiscard]] inline DeviceClient& current_client(DeviceEndpoint& endpoint, SourceLoc loc = {}) {
  auto* client = detail::current_context().find<DeviceClient>(endpoint.key());
  return client != nullptr ? *client : make_client(endpoint, loc);
}
/// The calling thread's current stream on a device.
[[nodiscard]] inline StreamState& current_stream(DeviceEndpoint& endpoint) {
  return *current_client(endpoint).current;
}
/// Checks that the device is open. Errors: DeviceError device_closed, at the call at `loc`.
inline void require_open(const DeviceEndpoint& endpoint, SourceLoc loc) {
  if (endpoint.is_closed()) [[unlikely]] {
    throw_error(endpoint.closed_error(loc));
  }
}
/// The calling thread's current stream on a device, for the call at `loc`.
/// Errors: DeviceError device_closed, at `loc`.
[[nodiscard]] inline StreamState& current_stream(DeviceEndpoint& endpoint, SourceLoc loc) {
  require_open(endpoint, loc);
  return *current_client(endpoint, loc).current;
}

}  // namespace hearth
