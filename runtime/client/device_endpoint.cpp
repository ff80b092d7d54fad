#include "device_endpoint.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

#include "tensor_impl.hpp"
#include "tickets.hpp"

namespace hearth {
namespace {

constexpr std::size_t kMostAwaited = 32;

// Estimates of the additions that take as long as a byte which is written and read back, used
// before a measurement. They match two cores of an Emerald Rapids and an H200.
constexpr float kHostAdditions = 2.5F;
constexpr float kDeviceAdditions = 12.5F;

}  // namespace

DeviceEndpoint::DeviceEndpoint(std::string name,
                               std::string description,
                               std::shared_ptr<RuntimeTables> tables,
                               std::uint64_t key,
                               bool runs_inline,
                               std::vector<int> cores)
    : name_(std::move(name)),
      description_(std::move(description)),
      tables_(std::move(tables)),
      traced_name_(tables_->trace().keep(name_)),
      key_(key),
      runs_inline_(runs_inline),
      cores_(std::move(cores)),
      additions_per_byte_(runs_inline ? kHostAdditions : kDeviceAdditions) {}

DeviceEndpoint::~DeviceEndpoint() = default;

void DeviceEndpoint::set_peaks(const DevicePeaks& peaks) {
  const detail::MutexLock lock(peaks_mutex_);
  peaks_ = peaks;
  additions_per_byte_.store(static_cast<float>(peaks.additions_per_byte()),
                            std::memory_order_relaxed);
}

std::optional<DevicePeaks> DeviceEndpoint::peaks() const {
  const detail::MutexLock lock(peaks_mutex_);
  return peaks_;
}

Error DeviceEndpoint::closed_error(SourceLoc loc) const {
  return Error{
      .code = ErrorCode::device_closed,
      .text = fmt::format(
          "device {} is closed: its Runtime has ended, and must outlive what uses it", name_),
      .device = name_,
      .location = loc};
}

DeviceEndpoint::LastSeen DeviceEndpoint::last_seen() noexcept {
  const std::uint64_t record =
      progress_.record.load(std::memory_order_acquire);  // partner: publish_progress
  const std::uint64_t lane = progress_.lane.load(std::memory_order_acquire);
  // Two streams may run ops of one kind and number.
  const std::uint64_t progress = record ^ (lane * 0x9e3779b97f4a7c15U);
  const detail::TimePoint now = detail::current_context().clock().now();
  const detail::MutexLock lock(last_seen_mutex_);
  if (last_seen_.progress != progress || progress == 0) {
    last_seen_ = {progress, now};
  }
  return last_seen_;
}

std::uint64_t DeviceEndpoint::record_progress() noexcept {
  const detail::TimePoint begin =
      progress_.compilation_begin.load(std::memory_order_acquire);  // partner: CompileScope
  std::uint64_t time = 0;
  if (begin != detail::TimePoint()) {
    const detail::TimePoint seen =
        std::min(detail::current_context().clock().now(), begin + kLongestCompilation);
    time = static_cast<std::uint64_t>(seen.time_since_epoch().count());
  }
  return last_seen().progress + time +
         progress_.work_ended.load(std::memory_order_acquire);  // partner: record_work_ended
}

// Each device counts once, whatever number of lanes waits for it. The list lies on the stack
// because this must not fail. No host has a chain of more than kMostAwaited devices.
std::uint64_t DeviceEndpoint::progress() noexcept {
  std::array<IntrusivePtr<DeviceEndpoint>, kMostAwaited> reached;
  reached[0] = IntrusivePtr<DeviceEndpoint>(this);
  std::size_t count = 1;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += reached[i]->record_progress();
    const detail::MutexLock lock(reached[i]->awaited_mutex_);
    for (const auto& next : reached[i]->awaited_) {
      const auto known = std::span(reached).first(count);
      if (count < reached.size() && std::ranges::find(known, next) == known.end()) {
        reached[count++] = next;
      }
    }
  }
  return sum;
}

void DeviceEndpoint::record_awaited(DeviceEndpoint& device) {
  const detail::MutexLock lock(awaited_mutex_);
  awaited_.emplace_back(&device);
}

void DeviceEndpoint::forget_awaited(const DeviceEndpoint& device) noexcept {
  IntrusivePtr<DeviceEndpoint> last;  // destroyed after the lock is released
  const detail::MutexLock lock(awaited_mutex_);
  const auto entry =
      std::ranges::find_if(awaited_, [&](const auto& each) { return each.get() == &device; });
  if (entry != awaited_.end()) {
    std::swap(last, *entry);
    awaited_.erase(entry);
  }
}

std::string DeviceEndpoint::describe_holder() noexcept {
  if (doorbell.is_free()) {
    return "no thread works for it";
  }
  const std::uint64_t record =
      progress_.record.load(std::memory_order_acquire);  // partner: publish_progress
  const SourceLoc call = tables_->sources.location(
      SourceId{progress_.source.load(std::memory_order_acquire)});  // partner: publish_progress
  const std::chrono::duration<double> time =
      detail::current_context().clock().now() - last_seen().since;
  return fmt::format(
      "thread number {} works for it and has been at op number {} of stream {}, {}{}, for {:.3f} s "
      "or longer",
      progress_.holder.load(std::memory_order_acquire),
      record & ((std::uint64_t{1} << kSequenceBits) - 1),
      progress_.lane.load(std::memory_order_acquire),
      op_info(static_cast<OpKind>(record >> kSequenceBits)).name,
      call.line == 0 ? "" : fmt::format(", called at {}:{}", call.file, call.line),
      time.count());
}

void DeviceEndpoint::attach_loop(DeviceLoop& loop, IntrusivePtr<detail::Parker> parker) noexcept {
  loop_ = &loop;
  loop_parker_ = std::move(parker);
}

void DeviceEndpoint::ring(Lane& lane) noexcept {
  switch (doorbell.ring(lane)) {
    case Doorbell::Ring::quiet:
      return;
    case Doorbell::Ring::wake:
      loop_parker_->unpark();
      return;
    case Doorbell::Ring::stopped:
      reject_lane(*this, lane, std::make_shared<const Error>(closed_error()));
      return;
  }
}

void DeviceEndpoint::wake_if_free() noexcept {
  if (doorbell.is_free()) {
    loop_parker_->unpark();
  }
}

void DeviceEndpoint::post(DeviceMessage message) {
  {
    const detail::MutexLock lock(inbox_mutex_);
    if (stopped_) {
      return;
    }
    inbox_.push_back(std::move(message));
  }
  if (doorbell.ring_inbox()) {
    loop_parker_->unpark();
  }
}

void DeviceEndpoint::post_drop(const TensorImpl& impl) noexcept {
  if (is_closed()) {
    return;
  }
  if (tables_->recorder.is_on()) {
    tables_->recorder.record_drop(*this, LaneId{}, impl.operand(Use::read_last));
  }
  post(DropOutside{.slot = impl.slot, .uses = impl.last_uses(LaneId{})});
}

void DeviceEndpoint::record_path(const TensorImpl& impl, PathId path) {
  const detail::MutexLock lock(paths_mutex_);
  paths_.insert_or_assign(impl.slot.value, RecordedPath{impl.generation, path});
}

PathId DeviceEndpoint::recorded_path(SlotId slot, std::uint32_t generation) {
  const detail::MutexLock lock(paths_mutex_);
  const auto known = paths_.find(slot.value);
  return known != paths_.end() && known->second.generation == generation ? known->second.path
                                                                         : PathId{};
}

std::vector<DeviceMessage> DeviceEndpoint::take_inbox() {
  const detail::MutexLock lock(inbox_mutex_);
  return std::exchange(inbox_, {});
}

std::vector<DeviceMessage> DeviceEndpoint::stop_inbox() {
  {
    const detail::MutexLock lock(awaited_mutex_);
    awaited_.clear();  // two devices that await each other would keep each other alive
  }
  const detail::MutexLock lock(inbox_mutex_);
  stopped_ = true;
  return std::exchange(inbox_, {});
}

void DeviceEndpoint::require_no_holder(std::string_view awaited) const {
  if (is_holder()) {
    throw_error(Error{.code = ErrorCode::stream_misuse,
                      .text = fmt::format(
                          "{} is waited for inside the loop of device {}, which would have to run "
                          "for it; hand the result on, or use then()",
                          awaited,
                          name_),
                      .device = name_});
  }
}

// A thread that runs a kernel cannot leave it, so a short wait is exact only if the actor's own
// thread does the work. A wait without its own deadline is not short: it ends with its work and is
// bounded by the runtime's limit.
void DeviceEndpoint::help(detail::PendingStateBase& waiter, Deadline deadline) {
  if (is_holder()) [[unlikely]] {
    require_no_holder(waiter.subject());  // builds the text only for the error
  }
  if (!runs_inline_) {
    look_at(waiter, deadline);
    return;
  }
  constexpr std::chrono::nanoseconds kHelpsFrom = std::chrono::seconds(10);
  const bool is_default = deadline == waiter.work_ends();
  const bool is_short = is_default ? deadline.is_never() && tables_->wait_limit < kHelpsFrom
                                   : deadline < Deadline::in(kHelpsFrom);
  if (is_short) {
    wake_if_free();
    return;
  }
  if (doorbell.try_claim()) {
    loop_->run_borrowed(
        [](const void* awaited) noexcept {
          return static_cast<const detail::PendingStateBase*>(awaited)->is_ready();
        },
        &waiter,
        deadline);
  }
}

// One thread for each device: further ones would only take cores from the program.
void DeviceEndpoint::look_at(const detail::PendingStateBase& waiter, Deadline deadline) {
  if (tables_->busy_wait == std::chrono::nanoseconds::zero() ||
      has_looker_.exchange(true, std::memory_order_acquire)) {  // partner: the store below
    return;
  }
  const Deadline end = std::min(deadline, Deadline::in(tables_->busy_wait));
  while (!waiter.is_ready() && !end.has_passed()) {
  }
  has_looker_.store(false, std::memory_order_release);  // partner: the exchange above
}

void DeviceEndpoint::help_drain(Lane& lane, Deadline deadline) {
  require_no_holder("room in a stream");
  if (runs_inline_ && doorbell.try_claim()) {
    loop_->run_borrowed(
        [](const void* full) noexcept { return static_cast<const Lane*>(full)->has_room(); },
        &lane,
        deadline);
  } else {
    wake_if_free();
  }
}

}  // namespace hearth
