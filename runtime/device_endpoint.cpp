#include "device_endpoint.hpp"

#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

#include "device_actor.hpp"
#include "tensor_impl.hpp"

namespace hearth {

Lane& LaneDirectory::open() {
  const LaneId id{last_id_.fetch_add(1, std::memory_order_acq_rel) + 1};
  auto lane = std::make_unique<Lane>(id);
  const MutexLock lock(mutex_);
  return *open_.emplace(id, std::move(lane)).first->second;
}

Lane* LaneDirectory::find(LaneId id) const noexcept {
  const MutexLock lock(mutex_);
  const auto found = open_.find(id);
  return found == open_.end() ? nullptr : found->second.get();
}

void LaneDirectory::close(LaneId id) noexcept {
  Lanes::node_type ended;
  const MutexLock lock(mutex_);
  ended = open_.extract(id);
}

std::vector<Lane*> LaneDirectory::open_lanes() const {
  const MutexLock lock(mutex_);
  std::vector<Lane*> lanes;
  for (const auto& [id, lane] : open_) {
    lanes.push_back(lane.get());
  }
  return lanes;
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
      record & ((std::uint64_t{1} << kSequenceBits) - 1),
      progress_.lane.load(std::memory_order_acquire),
      op_info(static_cast<OpKind>(record >> kSequenceBits)).name);
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
