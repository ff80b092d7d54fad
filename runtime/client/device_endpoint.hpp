// DeviceEndpoint: what a device's clients and its actor share: the doorbell, the lanes, the slot
// numbers, the inbox, the tables. Counted; it stays while any tensor, device handle or pending
// refers to it, also after the Runtime is gone. Then it is closed: drops do nothing and everything
// else reports device_closed. Private to runtime. Threads: any, where nothing else is said.
#pragma once

#include <atomic>
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
  DeviceEndpoint(std::string name,
                 std::string description,
                 std::shared_ptr<RuntimeTables> tables,
                 std::uint64_t key,
                 bool runs_inline,
                 std::vector<int> cores);
  ~DeviceEndpoint();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  /// Its name for events of a trace, which may outlive it.
  [[nodiscard]] std::string_view traced_name() const noexcept { return traced_name_; }
  /// The logical CPUs of the device's threads; empty = anywhere.
  [[nodiscard]] const std::vector<int>& cores() const noexcept { return cores_; }
  [[nodiscard]] RuntimeTables& tables() noexcept { return *tables_; }
  /// Unique in the process: finds a thread's client of this device.
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  [[nodiscard]] bool runs_inline() const noexcept { return runs_inline_; }
  /// Ops here become an expression, and nothing is computed (runtime/ops/capture).
  [[nodiscard]] bool is_capture() const noexcept { return !captured_.empty(); }
  /// The name of the expression; empty where this is no capture.
  [[nodiscard]] const std::string& captured() const noexcept { return captured_; }
  /// Before the first client.
  void make_capture(std::string name) noexcept { captured_ = std::move(name); }
  /// What was measured of the device; it may be measured anew.
  void set_peaks(const DevicePeaks& peaks) HEARTH_EXCLUDES(peaks_mutex_);
  [[nodiscard]] std::optional<DevicePeaks> peaks() const HEARTH_EXCLUDES(peaks_mutex_);
  /// DevicePeaks::additions_per_byte(); an estimate where nothing was measured.
  [[nodiscard]] float additions_per_byte() const noexcept {
    return additions_per_byte_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_closed() const noexcept {
    return closed_.load(std::memory_order_acquire);
  }  // partner: close
  /// No new work from here on.
  void close() noexcept { closed_.store(true, std::memory_order_release); }
  /// The error that a closed device answers with.
  [[nodiscard]] Error closed_error(SourceLoc loc = {}) const;

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
  /// What the token holder is at, for a watchdog. Threads: token holder only. Cost: three stores.
  void note_record(LaneId lane, const OpRecord& record) noexcept {
    progress_.source.store(record.source.value, std::memory_order_release);  // partner: sight
    progress_.record.store(
        (static_cast<std::uint64_t>(record.kind) << kSequenceBits) | record.sequence,
        std::memory_order_release);                               // partner: sight
    progress_.lane.store(lane.value, std::memory_order_release);  // partner: sight
  }
  void note_holder() noexcept {
    progress_.holder.store(detail::current_context().id().value, std::memory_order_release);
  }
  /// Before the token is given back.
  void forget_holder() noexcept { progress_.holder.store(0, std::memory_order_release); }
  /// Whether the calling thread runs the device's loop at this moment.
  [[nodiscard]] bool is_holder() const noexcept {
    return progress_.holder.load(std::memory_order_acquire) == detail::current_context().id().value;
  }
  /// An asynchronous device has got on. Threads: token holder only.
  void note_work_ended() noexcept {
    progress_.work_ended.fetch_add(1, std::memory_order_acq_rel);  // partner: record_progress
  }
  /// The token holder waits for a kernel that is compiled: time passes without a record, and counts
  /// as progress. Threads: token holder only.
  class CompileScope final {
   public:
    explicit CompileScope(DeviceEndpoint& endpoint) noexcept : endpoint_(endpoint) { set(true); }
    CompileScope(const CompileScope&) = delete;
    CompileScope& operator=(const CompileScope&) = delete;
    ~CompileScope() { set(false); }

   private:
    void set(bool compiles) noexcept {
      endpoint_.progress_.compiles.store(compiles, std::memory_order_release);  // partner: sight
    }
    DeviceEndpoint& endpoint_;
  };
  /// A number that changes with each record that the token holder begins, and when work of an
  /// asynchronous device is found to have ended. Who calls this now and
  /// then also lets what_holder_does() know for how long it has been at the same one.
  [[nodiscard]] std::uint64_t record_progress() noexcept HEARTH_EXCLUDES(sight_mutex_);
  /// The same, which also changes when a device gets on whose bytes a lane here waits for, or one
  /// whose bytes that device waits for, and so on. Devices that wait for one another in a ring have
  /// no progress but their records.
  [[nodiscard]] std::uint64_t progress() noexcept HEARTH_EXCLUDES(sight_mutex_, awaited_mutex_);
  /// A lane here begins to wait for bytes of `device`, and does so no longer. Threads: token holder
  /// only.
  void note_awaited(DeviceEndpoint& device) HEARTH_EXCLUDES(awaited_mutex_);
  void forget_awaited(const DeviceEndpoint& device) noexcept HEARTH_EXCLUDES(awaited_mutex_);
  /// Who holds the token and with which record for how long, as seen from outside.
  [[nodiscard]] std::string what_holder_does() noexcept HEARTH_EXCLUDES(sight_mutex_);

  /// After a push that must ring: links the lane, wakes the actor where that is needed.
  void ring(Lane& lane) noexcept;
  /// Wakes the actor if nobody runs it although there may be work.
  void wake_if_free() noexcept;
  /// Sends a message. Dropped without effect when the actor has stopped: the caller asks
  /// is_closed() first where it matters.
  void post(DeviceMessage message);
  /// The drop of a tensor by a thread that has no lane here, or that ends with a full one.
  void post_drop(const TensorImpl& impl) noexcept;
  /// A tensor here was given a path by name, which pictures of the memory show.
  void note_path(const TensorImpl& impl, PathId path) HEARTH_EXCLUDES(paths_mutex_);
  /// The path that was noted last of a tensor; 0: none.
  [[nodiscard]] PathId noted_path(SlotId slot, std::uint32_t generation)
      HEARTH_EXCLUDES(paths_mutex_);
  /// Everything posted so far. Threads: token holder only.
  [[nodiscard]] std::vector<DeviceMessage> take_inbox();
  /// Where work runs inline: runs the device's loop on this thread while the token is free, until
  /// `waiter` is ready, the deadline passes or nothing is runnable. With a deadline that is near,
  /// the actor's thread does it. Errors: ArgumentError stream_misuse for a thread that runs the
  /// loop already: it would wait for itself.
  void help(detail::PendingStateBase& waiter, Deadline deadline);
  /// The same until `lane` has room.
  void help_drain(Lane& lane, Deadline deadline);

  /// Before the first client: who runs the loop, and how its own thread is woken.
  void attach_loop(DeviceLoop& loop, IntrusivePtr<detail::Parker> parker) noexcept;

  Doorbell doorbell;
  LaneDirectory lanes;
  SlotDirectory slots;

 private:
  void require_no_holder(std::string_view awaited) const;

  const std::string name_;
  const std::string description_;
  const std::shared_ptr<RuntimeTables> tables_;
  const std::string_view traced_name_;
  const std::uint64_t key_;
  const bool runs_inline_;
  const std::vector<int> cores_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> lost_{false};
  std::atomic<std::uint64_t> generation_{0};
  DeviceLoop* loop_ = nullptr;  ///< set before the first client; used by the token holder only
  IntrusivePtr<detail::Parker> loop_parker_;
  detail::Mutex inbox_mutex_;
  std::vector<DeviceMessage> inbox_ HEARTH_GUARDED_BY(inbox_mutex_);
  bool stopped_ HEARTH_GUARDED_BY(inbox_mutex_) = false;
  // Written with each record, so on a cache line that no submitting thread reads
  // (BM_Submit_Threads/threads:4: 1.3 times the time).
  static constexpr unsigned kSequenceBits = 56;
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> record{0};  ///< kind and sequence; 0 = none yet
    std::atomic<std::uint64_t> lane{0};
    std::atomic<std::uint32_t> source{0};  ///< of the call that asked for the record
    std::atomic<std::uint64_t> work_ended{0};
    std::atomic<std::uint64_t> holder{0};  ///< the thread that has the token; 0 = none
    std::atomic<bool> compiles{false};     ///< it waits for a kernel
  };
  Progress progress_;
  /// A record at which somebody saw the token holder, and since when. The holder itself writes no
  /// time: a look at the clock costs a fifth of a small op.
  struct Sight {
    std::uint64_t progress = 0;  ///< 0: not yet.
    detail::TimePoint since = {};
  };
  [[nodiscard]] Sight sight() noexcept HEARTH_EXCLUDES(sight_mutex_);
  detail::Mutex sight_mutex_;
  Sight sight_ HEARTH_GUARDED_BY(sight_mutex_);
  using Endpoints = std::vector<IntrusivePtr<DeviceEndpoint>>;
  detail::Mutex awaited_mutex_;
  Endpoints awaited_ HEARTH_GUARDED_BY(awaited_mutex_);  ///< One entry a lane that waits.
  struct NotedPath {
    std::uint32_t generation = 0;
    PathId path;
  };
  detail::Mutex paths_mutex_;
  /// By slot, so that there are no more than tensors with a path at a time.
  std::unordered_map<std::uint32_t, NotedPath> paths_ HEARTH_GUARDED_BY(paths_mutex_);
  mutable detail::Mutex peaks_mutex_;
  std::optional<DevicePeaks> peaks_ HEARTH_GUARDED_BY(peaks_mutex_);
  std::atomic<float> additions_per_byte_;
  std::string captured_;  // last: what every op looks at shares its cache lines

 public:
  /// The actor has stopped: later messages are dropped. Returns what was still in the inbox.
  /// Threads: token holder only.
  [[nodiscard]] std::vector<DeviceMessage> stop_inbox() HEARTH_EXCLUDES(awaited_mutex_);
};

}  // namespace hearth
