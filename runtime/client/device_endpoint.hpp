// DeviceEndpoint: the state that a device's clients and its actor share: doorbell, lanes, slot
// numbers, inbox, tables. Reference-counted: lives as long as a tensor, device handle or pending
// refers to it, also after the Runtime is gone. Then it is closed: drops have no effect and every
// other call reports device_closed. Private to runtime.
// Threads: any, unless stated otherwise.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/parker.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/streams/doorbell.hpp>
#include <hearth/streams/slot_pool.hpp>

#include "device_loop.hpp"
#include "device_message.hpp"
#include "lane_directory.hpp"
#include "runtime_tables.hpp"

namespace hearth {

struct TensorImpl;

class DeviceEndpoint final : public RefCounted<DeviceEndpoint> {
 public:
  /// Longest part of one CompileScope that counts as progress. A driver has 60 s for a pipeline,
  /// and a kernel may have several.
  static constexpr std::chrono::minutes kLongestCompilation{4};

  DeviceEndpoint(std::string name,
                 std::string description,
                 std::shared_ptr<RuntimeTables> tables,
                 std::uint64_t key,
                 bool runs_inline,
                 std::vector<int> cores);
  ~DeviceEndpoint();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  /// The device's name for trace events, which may outlive the endpoint.
  [[nodiscard]] std::string_view traced_name() const noexcept { return traced_name_; }
  /// The logical CPUs of the device's threads; empty = no affinity.
  [[nodiscard]] const std::vector<int>& cores() const noexcept { return cores_; }
  [[nodiscard]] RuntimeTables& tables() noexcept { return *tables_; }
  /// Unique in the process; the key of a thread's client for this device.
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  [[nodiscard]] bool runs_inline() const noexcept { return runs_inline_; }
  /// True if ops here become an expression and compute nothing (runtime/ops/capture).
  [[nodiscard]] bool is_capture() const noexcept { return !captured_.empty(); }
  /// The name of the expression; empty if this endpoint is no capture.
  [[nodiscard]] const std::string& captured() const noexcept { return captured_; }
  /// Turns the endpoint into a capture. Call before the first client exists.
  void make_capture(std::string name) noexcept { captured_ = std::move(name); }
  /// Stores the measured peaks of the device; a later measurement replaces them.
  void set_peaks(const DevicePeaks& peaks) HEARTH_EXCLUDES(peaks_mutex_);
  [[nodiscard]] std::optional<DevicePeaks> peaks() const HEARTH_EXCLUDES(peaks_mutex_);
  /// DevicePeaks::additions_per_byte(), or an estimate before a measurement.
  [[nodiscard]] float additions_per_byte() const noexcept {
    return additions_per_byte_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_closed() const noexcept {
    return closed_.load(std::memory_order_acquire);
  }  // partner: close
  /// Refuses new work from here on.
  void close() noexcept { closed_.store(true, std::memory_order_release); }
  /// The error that every call on a closed device reports.
  [[nodiscard]] Error closed_error(SourceLoc loc = {}) const;

  /// True if the device stopped working. Stays true until a new generation begins.
  [[nodiscard]] bool is_lost() const noexcept {
    return lost_.load(std::memory_order_acquire);  // partners: mark_lost, mark_restarted
  }
  /// The number of generations before this one.
  [[nodiscard]] std::uint64_t generation() const noexcept {
    return generation_.load(std::memory_order_acquire);  // partner: mark_restarted
  }
  /// Threads: token holder only.
  void mark_lost() noexcept { lost_.store(true, std::memory_order_release); }
  void mark_restarted() noexcept {
    generation_.fetch_add(1, std::memory_order_acq_rel);
    lost_.store(false, std::memory_order_release);
  }
  /// Publishes the record that the token holder runs, for the watchdog. Threads: token holder only.
  /// Cost: three stores.
  void publish_progress(LaneId lane, const OpRecord& record) noexcept {
    progress_.source.store(record.source.value,
                           std::memory_order_release);  // partner: describe_holder
    progress_.record.store(
        (static_cast<std::uint64_t>(record.kind) << kSequenceBits) | record.sequence,
        std::memory_order_release);                               // partner: last_seen
    progress_.lane.store(lane.value, std::memory_order_release);  // partner: last_seen
  }
  /// Returns a number that changes with the record that the device runs. A hint: it costs a load.
  [[nodiscard]] std::uint64_t newest_record() const noexcept {
    return progress_.record.load(std::memory_order_acquire);  // partner: publish_progress
  }
  void publish_holder() noexcept {
    progress_.holder.store(detail::current_context().id().value, std::memory_order_release);
  }
  /// Call before the token is released.
  void forget_holder() noexcept { progress_.holder.store(0, std::memory_order_release); }
  /// Returns whether the calling thread runs the device's loop at this moment.
  [[nodiscard]] bool is_holder() const noexcept {
    return progress_.holder.load(std::memory_order_acquire) == detail::current_context().id().value;
  }
  /// Counts completed work of an asynchronous device. Threads: token holder only.
  void record_work_ended() noexcept {
    progress_.work_ended.fetch_add(1, std::memory_order_acq_rel);  // partner: record_progress
  }
  /// Marks that the token holder waits for a kernel compilation. Time then passes without records
  /// and counts as progress, up to kLongestCompilation. Threads: token holder only.
  class CompileScope final {
   public:
    explicit CompileScope(DeviceEndpoint& endpoint) noexcept : endpoint_(endpoint) {
      // Not the epoch, which means that no compilation runs.
      set(std::max(detail::current_context().clock().now(),
                   detail::TimePoint(std::chrono::nanoseconds(1))));
    }
    CompileScope(const CompileScope&) = delete;
    CompileScope& operator=(const CompileScope&) = delete;
    ~CompileScope() { set({}); }

   private:
    void set(detail::TimePoint begin) noexcept {
      // partner: record_progress
      endpoint_.progress_.compilation_begin.store(begin, std::memory_order_release);
    }
    DeviceEndpoint& endpoint_;
  };
  /// Returns a number that changes when the token holder begins a record and when work of an
  /// asynchronous device completes. Periodic calls also let describe_holder() report how long the
  /// holder has been at the same record.
  [[nodiscard]] std::uint64_t record_progress() noexcept HEARTH_EXCLUDES(last_seen_mutex_);
  /// Like record_progress(), but also changes with the progress of devices whose bytes a lane here
  /// awaits, transitively. Devices that wait for one another in a cycle have no progress but their
  /// records.
  [[nodiscard]] std::uint64_t progress() noexcept HEARTH_EXCLUDES(last_seen_mutex_, awaited_mutex_);
  /// Notes that a lane here begins or ends its wait for bytes of `device`. Threads: token holder
  /// only.
  void record_awaited(DeviceEndpoint& device) HEARTH_EXCLUDES(awaited_mutex_);
  void forget_awaited(const DeviceEndpoint& device) noexcept HEARTH_EXCLUDES(awaited_mutex_);
  /// Describes, as seen from outside, which thread holds the token, at which record and for how
  /// long.
  [[nodiscard]] std::string describe_holder() noexcept HEARTH_EXCLUDES(last_seen_mutex_);

  /// Call after a push that must ring. Links the lane and wakes the actor if needed.
  void ring(Lane& lane) noexcept;
  /// Wakes the actor if no thread holds the token although work may be queued.
  void wake_if_free() noexcept;
  /// Sends a message to the actor. A stopped actor drops it without effect; callers to which that
  /// matters check is_closed() first.
  void post(DeviceMessage message);
  /// Sends a tensor's drop for a thread that has no lane here, or that ends while its lane is full.
  void post_drop(const TensorImpl& impl) noexcept;
  /// Notes a path that a program gave a tensor by name; memory snapshots show it.
  void record_path(const TensorImpl& impl, PathId path) HEARTH_EXCLUDES(paths_mutex_);
  /// The path last noted for a tensor; 0 = none.
  [[nodiscard]] PathId recorded_path(SlotId slot, std::uint32_t generation)
      HEARTH_EXCLUDES(paths_mutex_);
  /// Takes everything posted so far. Threads: token holder only.
  [[nodiscard]] std::vector<DeviceMessage> take_inbox();
  /// Runs the device's loop on this thread while the token is free, if the device runs work inline.
  /// Returns when `waiter` is ready, the deadline passes or nothing is runnable. If the deadline is
  /// near, wakes the actor's thread instead.
  /// Errors: ArgumentError stream_misuse for a thread that already runs the loop: it would wait for
  /// itself.
  void help(detail::PendingStateBase& waiter, Deadline deadline);
  /// Like help(), until `lane` has room.
  void help_drain(Lane& lane, Deadline deadline);

  /// Sets the loop that borrowers run and the parker of its own thread. Call before the first
  /// client exists.
  void attach_loop(DeviceLoop& loop, IntrusivePtr<detail::Parker> parker) noexcept;

  Doorbell doorbell;
  LaneDirectory lanes;
  SlotDirectory slots;

 private:
  void require_no_holder(std::string_view awaited) const;

  /// Looks at `waiter` for the runtime's busy_wait, unless another thread does so.
  void look_at(const detail::PendingStateBase& waiter, Deadline deadline);

  const std::string name_;
  const std::string description_;
  const std::shared_ptr<RuntimeTables> tables_;
  const std::string_view traced_name_;
  const std::uint64_t key_;
  const bool runs_inline_;
  const std::vector<int> cores_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> lost_{false};
  std::atomic<bool> has_looker_{false};
  std::atomic<std::uint64_t> generation_{0};
  DeviceLoop* loop_ = nullptr;  ///< set before the first client; used by the token holder only
  IntrusivePtr<detail::Parker> loop_parker_;
  detail::Mutex inbox_mutex_;
  std::vector<DeviceMessage> inbox_ HEARTH_GUARDED_BY(inbox_mutex_);
  bool stopped_ HEARTH_GUARDED_BY(inbox_mutex_) = false;
  // Written with each record, so it has a cache line that no submitting thread reads (sharing it
  // costs a factor of 1.3 in BM_Submit_Threads/threads:4).
  static constexpr unsigned kSequenceBits = 56;
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> record{0};  ///< kind and sequence; 0 = none yet
    std::atomic<std::uint64_t> lane{0};
    std::atomic<std::uint32_t> source{0};  ///< of the call that submitted the record
    std::atomic<std::uint64_t> work_ended{0};
    std::atomic<std::uint64_t> holder{0};  ///< the thread that has the token; 0 = none
    /// When the holder began to wait for a kernel compilation; the epoch = it waits for none.
    std::atomic<detail::TimePoint> compilation_begin{};
  };
  Progress progress_;
  /// The record at which an observer last saw the token holder, and since when. The holder itself
  /// writes no time: reading the clock costs a fifth of a small op.
  struct LastSeen {
    std::uint64_t progress = 0;  ///< 0 = not seen yet
    detail::TimePoint since = {};
  };
  [[nodiscard]] LastSeen last_seen() noexcept HEARTH_EXCLUDES(last_seen_mutex_);
  detail::Mutex last_seen_mutex_;
  LastSeen last_seen_ HEARTH_GUARDED_BY(last_seen_mutex_);
  using Endpoints = std::vector<IntrusivePtr<DeviceEndpoint>>;
  detail::Mutex awaited_mutex_;
  Endpoints awaited_ HEARTH_GUARDED_BY(awaited_mutex_);  ///< one entry for each waiting lane
  struct RecordedPath {
    std::uint32_t generation = 0;
    PathId path;
  };
  detail::Mutex paths_mutex_;
  /// Keyed by slot, so the map holds no more entries than tensors that had a path at one time.
  std::unordered_map<std::uint32_t, RecordedPath> paths_ HEARTH_GUARDED_BY(paths_mutex_);
  mutable detail::Mutex peaks_mutex_;
  std::optional<DevicePeaks> peaks_ HEARTH_GUARDED_BY(peaks_mutex_);
  std::atomic<float> additions_per_byte_;
  std::string captured_;  // last: members read by every op share its cache lines

 public:
  /// Closes the inbox of a stopped actor: later messages are dropped. Returns the messages still in
  /// it.
  /// Threads: token holder only.
  [[nodiscard]] std::vector<DeviceMessage> stop_inbox() HEARTH_EXCLUDES(awaited_mutex_);
};

}  // namespace hearth
