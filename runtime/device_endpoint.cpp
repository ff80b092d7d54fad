#include "device_endpoint.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

#include "device_actor.hpp"
#include "tensor_impl.hpp"

namespace hearth {

LaneDirectory::LaneDirectory()
    : chunks_(std::make_unique<std::array<std::atomic<Chunk*>, kMaxChunks>>()) {}

LaneDirectory::~LaneDirectory() {
  for (const Lane* lane : open_lanes()) {
    close(lane->id());
  }
  for (std::atomic<Chunk*>& chunk : *chunks_) {
    const std::unique_ptr<Chunk> owner(chunk.load(std::memory_order_acquire));
  }
}

Lane& LaneDirectory::open() {
  const MutexLock lock(mutex_);
  const std::uint32_t id = last_id_.load(std::memory_order_acquire) + 1;
  if (id / kChunk >= kMaxChunks) {
    throw DeviceError(Error{.code = ErrorCode::out_of_memory,
                            .text = "a device has had more than 16 million streams"});
  }
  std::atomic<Chunk*>& place = (*chunks_)[id / kChunk];
  if (place.load(std::memory_order_acquire) == nullptr) {
    auto chunk = std::make_unique<Chunk>();
    chunk->left = id == 1 ? kChunk - 1 : kChunk;              // there is no id 0
    place.store(chunk.release(), std::memory_order_release);  // partner: find
  }
  auto lane = std::make_unique<Lane>(LaneId{id});
  Lane& opened = *lane;
  open_.push_back(&opened);
  place.load(std::memory_order_acquire)
      ->lanes[id % kChunk]
      .store(lane.release(), std::memory_order_release);  // partner: find
  last_id_.store(id, std::memory_order_release);
  return opened;
}

Lane* LaneDirectory::find(LaneId id) const noexcept {
  if (id.value == 0 || id.value > last_id()) {
    return nullptr;
  }
  const Chunk* chunk =
      (*chunks_)[id.value / kChunk].load(std::memory_order_acquire);  // partner: open
  return chunk == nullptr ? nullptr
                          : chunk->lanes[id.value % kChunk].load(std::memory_order_acquire);
}

void LaneDirectory::close(LaneId id) noexcept {
  std::unique_ptr<Lane> ended;
  std::unique_ptr<Chunk> spent;
  const MutexLock lock(mutex_);
  std::atomic<Chunk*>& place = (*chunks_)[id.value / kChunk];
  Chunk* chunk = place.load(std::memory_order_acquire);
  ended.reset(chunk->lanes[id.value % kChunk].exchange(nullptr, std::memory_order_acq_rel));
  open_.erase(std::ranges::lower_bound(
      open_, id.value, {}, [](const Lane* lane) { return lane->id().value; }));
  if (--chunk->left == 0) {
    spent.reset(place.exchange(nullptr, std::memory_order_acq_rel));  // partner: find
  }
}

std::vector<Lane*> LaneDirectory::open_lanes() const {
  const MutexLock lock(mutex_);
  return open_;
}

DeviceEndpoint::DeviceEndpoint(std::string name,
                               std::string description,
                               std::shared_ptr<RuntimeTables> tables,
                               std::uint64_t key,
                               bool is_host,
                               std::vector<int> cores,
                               ReopenFn reopen)
    : name_(std::move(name)),
      description_(std::move(description)),
      tables_(std::move(tables)),
      key_(key),
      is_host_(is_host),
      cores_(std::move(cores)),
      reopen_(std::move(reopen)) {}

DeviceEndpoint::~DeviceEndpoint() = default;

Error DeviceEndpoint::closed_error() const {
  return Error{.code = ErrorCode::device_closed,
               .text = fmt::format("device {} is closed: its runtime was shut down", name_),
               .device = name_};
}

std::string DeviceEndpoint::what_holder_does() const {
  if (doorbell.is_free()) {
    return "nobody holds its token";
  }
  const std::uint64_t record =
      progress_.record.load(std::memory_order_acquire);  // partner: note_record
  return fmt::format(
      "thread number {} holds its token and was last seen with op number {} of stream {}, {}",
      progress_.holder.load(std::memory_order_acquire),
      record & 0xffffffffU,
      record >> 40U,
      op_info(static_cast<OpKind>((record >> 32U) & 0xffU)).name);
}

void DeviceEndpoint::attach_actor(DeviceActor* actor, IntrusivePtr<Parker> parker) noexcept {
  actor_ = actor;
  actor_parker_ = std::move(parker);
}

void DeviceEndpoint::ring(Lane& lane) noexcept {
  switch (doorbell.ring(lane)) {
    case Doorbell::Ring::quiet:
      return;
    case Doorbell::Ring::wake:
      actor_parker_->unpark();
      return;
    case Doorbell::Ring::stopped:
      DeviceActor::reject_all(*this, lane, std::make_shared<const Error>(closed_error()));
      return;
  }
}

void DeviceEndpoint::wake_if_free() noexcept {
  if (doorbell.is_free()) {
    actor_parker_->unpark();
  }
}

void DeviceEndpoint::post(ControlFn message) {
  {
    const MutexLock lock(inbox_mutex_);
    if (stopped_) {
      return;
    }
    inbox_.push_back(std::move(message));
  }
  if (doorbell.ring_inbox()) {
    actor_parker_->unpark();
  }
}

void DeviceEndpoint::post_drop(const TensorImpl& impl) noexcept {
  if (is_closed()) {
    return;
  }
  if (tables_->recorder.is_on()) {
    tables_->recorder.note_drop(*this, LaneId{}, impl.operand(Use::read_last));
  }
  post([slot = impl.slot, uses = impl.last_uses(LaneId{})](DeviceActor& actor) {
    actor.drop_from_outside(slot, uses);
  });
}

std::vector<DeviceEndpoint::ControlFn> DeviceEndpoint::take_inbox() {
  const MutexLock lock(inbox_mutex_);
  return std::exchange(inbox_, {});
}

std::vector<DeviceEndpoint::ControlFn> DeviceEndpoint::stop_inbox() {
  const MutexLock lock(inbox_mutex_);
  stopped_ = true;
  return std::exchange(inbox_, {});
}

void DeviceEndpoint::help(PendingStateBase& waiter, Deadline deadline) noexcept {
  if (!is_host_) {
    return;
  }
  // Who runs a kernel cannot leave it: a wait that is to be short is exact only when the actor's own thread does the work.
  constexpr Duration kHelpsFrom = std::chrono::seconds(10);
  if (deadline < Deadline::in(kHelpsFrom)) {
    wake_if_free();
    return;
  }
  if (doorbell.try_claim()) {
    actor_->run_borrowed([&waiter] { return waiter.is_ready(); }, deadline);
  }
}

void DeviceEndpoint::help_drain(Lane& lane, Deadline deadline) noexcept {
  if (is_host_ && doorbell.try_claim()) {
    actor_->run_borrowed([&lane] { return lane.has_room(); }, deadline);
  } else {
    wake_if_free();
  }
}

}  // namespace hearth
