// DeviceEndpoint: what a device's clients and its actor share: the doorbell, the lanes, the slot numbers, the inbox, the tables.
// Counted; it stays while any tensor, device handle or pending refers to it, also after the Runtime is gone. Then it is closed: drops
// do nothing and everything else reports device_closed.
// Private to runtime. Threads: any, where nothing else is said.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/parker.hpp>
#include <hearth/runtime/base/path_table.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/shape_table.hpp>
#include <hearth/runtime/base/source_table.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/base/trace.hpp>
#include <hearth/runtime/base/unique_function.hpp>
#include <hearth/runtime/base/watchdog.hpp>
#include <hearth/streams/doorbell.hpp>
#include <hearth/streams/lane.hpp>
#include <hearth/streams/slot_pool.hpp>

#include "recorder.hpp"

namespace hearth {

class DeviceActor;
struct TensorImpl;

/// What all devices of one Runtime share: intern tables, trace and log. Every endpoint keeps them alive.
struct RuntimeTables {
  explicit RuntimeTables(RuntimeId runtime,
                         LogOptions log_options = {},
                         Duration limit = kDefaultWait)
      : sources(runtime), log(std::move(log_options)), wait_limit(limit) {}

  ShapeTable shapes;
  SourceTable sources;
  PathTable paths;
  Trace trace;
  Log log;
  const IntrusivePtr<Watchdog> watchdog = make_intrusive<Watchdog>();
  Recorder recorder{shapes, sources, paths};
  const Duration wait_limit;  ///< Of a wait that names none.
};

/// The lanes of one device that have not ended, by their ids, which count up and are never reused. Of ended lanes it keeps nothing.
class LaneDirectory {
 public:
  LaneDirectory() = default;
  LaneDirectory(const LaneDirectory&) = delete;
  LaneDirectory& operator=(const LaneDirectory&) = delete;
  ~LaneDirectory() = default;

  /// A new lane.
  [[nodiscard]] Lane& open();
  /// The lane, or nullptr when it has ended (then all its records count as consumed). Threads: token holder only.
  [[nodiscard]] Lane* find(LaneId id) const noexcept;
  /// Ends a drained lane. Threads: token holder only.
  void close(LaneId id) noexcept;
  /// Those opened and not closed now, by id. Threads: token holder only, so that they stay.
  [[nodiscard]] std::vector<Lane*> open_lanes() const;

 private:
  using Lanes = std::map<LaneId, std::unique_ptr<Lane>>;

  std::atomic<std::uint64_t> last_id_{0};
  mutable Mutex mutex_;
  Lanes open_ HEARTH_GUARDED_BY(mutex_);
};

class DeviceEndpoint final : public RefCounted<DeviceEndpoint> {
 public:
  using ControlFn = UniqueFunction<void(DeviceActor&)>;
  /// Opens the device's backend once more.
  using ReopenFn = std::function<Result<std::unique_ptr<Backend>>()>;

  DeviceEndpoint(std::string name,
                 std::string description,
                 std::shared_ptr<RuntimeTables> tables,
                 std::uint64_t key,
                 bool is_host,
                 std::vector<int> cores,
                 ReopenFn reopen = {});
  ~DeviceEndpoint();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  /// The logical CPUs of the device's threads; empty = anywhere.
  [[nodiscard]] const std::vector<int>& cores() const noexcept { return cores_; }
  [[nodiscard]] RuntimeTables& tables() noexcept { return *tables_; }
  /// Unique in the process: finds a thread's client of this device.
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  [[nodiscard]] bool is_host() const noexcept { return is_host_; }
  [[nodiscard]] bool is_closed() const noexcept {
    return closed_.load(std::memory_order_acquire);
  }  // partner: close
  /// No new work from here on.
  void close() noexcept { closed_.store(true, std::memory_order_release); }
  /// The error that a closed device answers with.
  [[nodiscard]] Error closed_error() const;

  /// The device stopped working; sticky until a new generation begins.
  [[nodiscard]] bool is_lost() const noexcept {
    return lost_.load(std::memory_order_acquire);  // partners: mark_lost, mark_restarted
  }
  /// How many generations came before this one.
  [[nodiscard]] std::uint64_t generation() const noexcept {
    return generation_.load(std::memory_order_acquire);  // partner: mark_restarted
  }
  /// Threads: token holder only.
  void mark_lost() noexcept { lost_.store(true, std::memory_order_release); }
  void mark_restarted() noexcept {
    generation_.fetch_add(1, std::memory_order_acq_rel);
    lost_.store(false, std::memory_order_release);
  }
  /// What the token holder is at, for a watchdog. Threads: token holder only. Cost: two stores.
  void note_record(LaneId lane, OpKind kind, std::uint64_t sequence) noexcept {
    progress_.record.store((static_cast<std::uint64_t>(kind) << kSequenceBits) | sequence,
                           std::memory_order_release);            // partner: what_holder_does
    progress_.lane.store(lane.value, std::memory_order_release);  // partner: what_holder_does
  }
  void note_holder() noexcept {
    progress_.holder.store(current_context().id().value, std::memory_order_release);
  }
  /// Who holds the token and with which record, as seen from outside.
  [[nodiscard]] std::string what_holder_does() const;
  /// A fresh backend for the next generation. Errors: those of opening the device.
  [[nodiscard]] Result<std::unique_ptr<Backend>> reopen() const { return reopen_(); }

  /// After a push that must ring: links the lane, wakes the actor where that is needed.
  void ring(Lane& lane) noexcept;
  /// Wakes the actor if nobody runs it although there may be work.
  void wake_if_free() noexcept;
  /// Sends a control message. Dropped without effect when the actor has stopped: the caller asks is_closed() first where it matters.
  void post(ControlFn message);
  /// The drop of a tensor by a thread that has no lane here, or that ends with a full one.
  void post_drop(const TensorImpl& impl) noexcept;
  /// Everything posted so far. Threads: token holder only.
  [[nodiscard]] std::vector<ControlFn> take_inbox();
  /// On a host device: runs the device's loop on this thread while the token is free, until `waiter` is ready, the deadline passes
  /// or nothing is runnable. With a deadline that is near, the actor's thread does it.
  void help(PendingStateBase& waiter, Deadline deadline) noexcept;
  /// The same until `lane` has room.
  void help_drain(Lane& lane, Deadline deadline) noexcept;

  void attach_actor(DeviceActor* actor, IntrusivePtr<Parker> parker) noexcept;

  Doorbell doorbell;
  LaneDirectory lanes;
  SlotDirectory slots;

 private:
  const std::string name_;
  const std::string description_;
  const std::shared_ptr<RuntimeTables> tables_;
  const std::uint64_t key_;
  const bool is_host_;
  const std::vector<int> cores_;
  const ReopenFn reopen_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> lost_{false};
  std::atomic<std::uint64_t> generation_{0};
  DeviceActor* actor_ = nullptr;  ///< set before the first client; used by the token holder only
  IntrusivePtr<Parker> actor_parker_;
  Mutex inbox_mutex_;
  std::vector<ControlFn> inbox_ HEARTH_GUARDED_BY(inbox_mutex_);
  bool stopped_ HEARTH_GUARDED_BY(inbox_mutex_) = false;
  // Written with each record, so on a cache line that no submitting thread reads (BM_Submit_Threads/threads:4: 1.3 times the time).
  static constexpr unsigned kSequenceBits = 56;
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> record{0};  ///< kind and sequence; 0 = none yet
    std::atomic<std::uint64_t> lane{0};
    std::atomic<std::uint64_t> holder{0};  ///< the thread that took the token last
  };
  Progress progress_;

 public:
  /// The actor has stopped: later messages are dropped. Returns what was still in the inbox. Threads: token holder only.
  [[nodiscard]] std::vector<ControlFn> stop_inbox();
};

}  // namespace hearth
