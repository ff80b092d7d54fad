#include <hearth/backends/sim/async_sim.hpp>

#include "planned_faults.hpp"
#include "sim_pages.hpp"
#include "stored_call.hpp"
#include "work_streams.hpp"

#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth::sim {
namespace {

using std::chrono::nanoseconds;

constexpr std::byte kNotYet{0xdb};  ///< Fills the host bytes of a download until its point.

}  // namespace

/// A launch that owns what the original borrows.
struct AsyncSim::StoredLaunch {
  StoredLaunch(const Launch& launch, std::uint64_t submit, bool is_to_fail)
      : call(launch.call),
        cell(launch.cell),
        guards(launch.guards.begin(), launch.guards.end()),
        keeps(launch.keeps.begin(), launch.keeps.end()),
        number(submit),
        fails(is_to_fail),
        timed_as(launch.timed_as) {}

  /// Copies the elements of input keeps[i] to output i.
  void keep_inputs() const {
    std::vector<std::vector<std::byte>> kept;  // read completely before the first write
    for (const std::int8_t input : keeps) {
      kept.push_back(elements_of(call.call().inputs[static_cast<std::size_t>(input)]));
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      std::ranges::copy(kept[i], call.call().outputs[i].data);
    }
  }

  StoredCall call;
  ErrorCell cell;
  std::vector<ErrorCell> guards;
  std::vector<std::int8_t> keeps;
  std::uint64_t number;  // of the submit
  bool fails;            // by plan
  std::uint32_t timed_as;
  nanoseconds cost{0};
};

AsyncSim::AsyncSim(AsyncSimOptions options)
    : options_(std::move(options)),
      info_{.name = options_.name,
            .description = options_.computes
                               ? "simulated, asynchronous: the oracle's results in virtual time"
                               : "simulated, asynchronous: virtual time, no results",
            .runs_inline = false,
            .computes = options_.computes},
      faults_(std::make_unique<PlannedFaults>(options_.faults, options_.name)),
      work_(std::make_unique<WorkStreams>(options_.schedule.queues,
                                          options_.schedule.reorder_seed,
                                          options_.schedule.checks_memory)),
      random_(options_.schedule.cost_seed) {
  PageWatch watch;
  if (options_.schedule.checks_memory) {
    watch.added = [this](ByteRange page) {
      const detail::MutexLock lock(mutex_);
      work_->add_page(page);
    };
    watch.resized = [this](ByteRange before, std::int64_t size_bytes) {
      const detail::MutexLock lock(mutex_);
      report_stray(work_->resize_page(before, size_bytes));
    };
    watch.removed = [this](ByteRange page) {
      const detail::MutexLock lock(mutex_);
      report_stray(work_->remove_page(page));
    };
  }
  pages_ = std::make_unique<SimPages>(options_.budget_bytes, options_.faults, std::move(watch));
}

AsyncSim::~AsyncSim() = default;

PageProvider& AsyncSim::pages() noexcept {
  return *pages_;
}

Support AsyncSim::supports(const KernelCall& call) const {
  return call.prologue != nullptr
             ? Support{.yes = false, .reason = "work that ends later reads its inputs from memory"}
             : reference::supports(call);
}

Status AsyncSim::prepare(const KernelCall& call) {
  const detail::MutexLock lock(mutex_);
  return faults_->compile(call);
}

// ---- ops ----

Issue AsyncSim::submit(std::span<const Launch> batch, std::span<const TimelinePoint> after) {
  Issue issue;
  {
    const detail::MutexLock lock(mutex_);
    issue = submit_locked(batch, after);
  }
  if (!issue.status.has_value()) {
    wake_waiters_of_lost();
  }
  return issue;
}

Issue AsyncSim::submit_locked(std::span<const Launch> batch, std::span<const TimelinePoint> after) {
  Issue issue;
  if (!is_lost_) {
    if (std::optional<Error> failure = take_stray_failure()) {
      issue.status = std::move(*failure);
      issue.may_have_begun = false;
      return issue;
    }
  }
  for (const Launch& launch : batch) {
    issue.status = accept(launch, faults_->next_submit());
    issue.may_have_begun = issue.status.has_value();  // queued work runs, even with a shadow fault
    if (issue.status.has_value()) {
      issue.status = enqueue(launch, faults_->submitted(), after, issue.point);
    }
    if (!issue.status.has_value()) {
      break;
    }
    ++issue.issued;
  }
  return issue;
}

Status AsyncSim::accept(const Launch& launch, std::uint64_t number) {
  if (is_lost_) {
    return lost();
  }
  if (number == faults_->plan().lost_at_submit) {
    lose(fmt::format("at submit {}", number));
    return lost();
  }
  HEARTH_TRY_STATUS(faults_->compile(launch.call));
  faults_->count_submit();
  launches_with_cell_ += launch.cell != 0 ? 1 : 0;
  if (faults_->fails(number) || (fails_late(launch) && launch.cell == 0)) {
    return faults_->submit_failure(launch.call, number);
  }
  const auto names_input = [&](std::int8_t input) {
    return input >= 0 && static_cast<std::size_t>(input) < launch.call.inputs.size();
  };
  if (!launch.guards.empty() && (launch.keeps.size() != launch.call.outputs.size() ||
                                 !std::ranges::all_of(launch.keeps, names_input))) {
    return Error{.code = ErrorCode::internal,
                 .text = fmt::format("{}: submit {} has guards, but no input to keep for each "
                                     "output",
                                     info_.name,
                                     number),
                 .op = std::string(name(launch.call.op.kind())),
                 .device = info_.name};
  }
  return {};
}

bool AsyncSim::fails_late(const Launch& launch) const {
  if (!options_.late_failures_name_cells) {
    return faults_->fails_late(faults_->submitted());
  }
  return launch.cell != 0 && faults_->fails_late(launches_with_cell_);
}

Status AsyncSim::enqueue(const Launch& launch,
                         std::uint64_t number,
                         std::span<const TimelinePoint> after,
                         TimelinePoint& point) {
  const std::span<const TimelinePoint> none;
  Work work{.access = access_of(launch.call),
            .guards = {launch.guards.begin(), launch.guards.end()},
            .cell = launch.cell,
            .cost = cost_of(options_.cost ? options_.cost(launch.call) : nanoseconds(0)),
            .hangs = number == faults_->plan().hanging_submit,
            .effect = {}};
  auto stored = std::make_unique<StoredLaunch>(launch, number, fails_late(launch));
  stored->cost = work.cost;
  if (launch.timed_as != 0 && timed_in_flight_++ == 0) {
    host_lead_ = std::max(
        host_lead_, detail::current_context().clock().now().time_since_epoch() - work_->now());
  }
  work.effect = [this, stored = std::move(stored)]() HEARTH_REQUIRES(mutex_) { run(*stored); };
  auto [end, fault] =
      work_->add(kOpStream, std::move(work), faults_->forgets_order(number) ? none : after);
  point = end;
  return report(std::move(fault));
}

void AsyncSim::run(const StoredLaunch& launch) {
  if (launch.timed_as != 0) {
    --timed_in_flight_;
    const nanoseconds end = work_->now() + host_lead_;
    launch_times_.push_back({.number = launch.timed_as, .begin = end - launch.cost, .end = end});
  }
  cells_.erase(launch.cell);
  if (std::ranges::any_of(launch.guards, [this](ErrorCell guard) HEARTH_REQUIRES(mutex_) {
        return cells_.contains(guard);
      })) {
    launch.keep_inputs();
    return;
  }
  const KernelCall call = launch.call.call();
  const Status status = launch.fails        ? Status(faults_->submit_failure(call, launch.number))
                        : options_.computes ? run_with_oracle(call, info_.name)
                                            : Status();
  if (status.has_value()) {
    return;
  }
  if (launch.cell != 0) {
    cells_.emplace(launch.cell, status.error());
    return;
  }
  stray_failures_.push_back({.code = ErrorCode::internal,
                             .text = fmt::format("{}: submit {} had no error cell, but failed: {}",
                                                 info_.name,
                                                 launch.number,
                                                 status.error().text),
                             .op = std::string(name(call.op.kind())),
                             .device = info_.name,
                             .cause = std::make_shared<const Error>(status.error())});
}

std::vector<LaunchTime> AsyncSim::take_launch_times() {
  const detail::MutexLock lock(mutex_);
  return std::exchange(launch_times_, {});
}

Status AsyncSim::cell_status(ErrorCell cell) {
  const detail::MutexLock lock(mutex_);
  if (is_lost_) {
    return lost();
  }
  if (work_->is_pending(cell)) {
    return Error{
        .code = ErrorCode::internal,
        .text = fmt::format("{}: error cell {} was read before its kernel's end", info_.name, cell),
        .device = info_.name};
  }
  const auto found = cells_.find(cell);
  return found == cells_.end() ? Status() : Status(found->second);
}

nanoseconds AsyncSim::cost_of(nanoseconds cost) {
  if (options_.schedule.cost_seed == 0) {
    return cost;
  }
  constexpr std::uint64_t kSteps = 256;
  random_ = random_ * 6364136223846793005U + 1442695040888963407U;
  return cost * static_cast<std::int64_t>((random_ >> 33U) % (2 * kSteps)) / kSteps;
}

int AsyncSim::pick_overrun() {
  constexpr std::int64_t kMost = 4;
  return options_.schedule.cost_seed == 0
             ? 0
             : static_cast<int>(cost_of(nanoseconds(kMost)).count() % kMost);
}

nanoseconds AsyncSim::copy_cost(std::size_t size_bytes) {
  return cost_of(nanoseconds(static_cast<std::int64_t>(static_cast<double>(size_bytes) * 1e9 /
                                                       options_.copy_bytes_per_second)));
}

// ---- copies ----

Result<CopyPart> AsyncSim::upload(std::byte* to,
                                  std::span<const std::byte> from,
                                  std::span<const TimelinePoint> after) {
  const detail::MutexLock lock(mutex_);
  if (is_lost_) {
    return lost();
  }
  Work work{.access = {.writes = {{to, static_cast<std::int64_t>(from.size())}}},
            .cost = copy_cost(from.size()),
            .effect = {}};
  work.effect = [this, to, from, before = std::vector<std::byte>(from.begin(), from.end())]()
                    HEARTH_REQUIRES(mutex_) {
                      if (!std::ranges::equal(from, before)) {
                        report_stray(ShadowReport{
                            .fault = ShadowFault::host_bytes_changed,
                            .command = 0,
                            .earlier = 0,
                            .text = fmt::format("an upload's {} host bytes changed before its end",
                                                from.size())});
                      }
                      std::ranges::copy(from, to);
                    };
  auto [point, fault] = work_->add(kUploadStream, std::move(work), after);
  HEARTH_TRY_STATUS(report(std::move(fault)));
  return CopyPart{.point = point, .size_bytes = from.size()};
}

Result<CopyPart> AsyncSim::download(std::span<std::byte> to,
                                    const std::byte* from,
                                    std::span<const TimelinePoint> after) {
  const detail::MutexLock lock(mutex_);
  if (is_lost_) {
    return lost();
  }
  std::ranges::fill(to, kNotYet);
  Work work{.access = {.reads = {{from, static_cast<std::int64_t>(to.size())}}},
            .cost = copy_cost(to.size()),
            .effect = {}};
  work.effect =
      [this, to, from, is_corrupt = faults_->corrupts_next_download()]() HEARTH_REQUIRES(mutex_) {
        if (!std::ranges::all_of(to, [](std::byte byte) { return byte == kNotYet; })) {
          report_stray(ShadowReport{
              .fault = ShadowFault::host_bytes_changed,
              .command = 0,
              .earlier = 0,
              .text = fmt::format("a download's {} host bytes changed before its end", to.size())});
        }
        std::copy_n(from, to.size(), to.data());
        if (is_corrupt) {
          corrupt(to);
        }
      };
  auto [point, fault] = work_->add(kDownloadStream, std::move(work), after);
  HEARTH_TRY_STATUS(report(std::move(fault)));
  return CopyPart{.point = point, .size_bytes = to.size()};
}

// ---- time ----

std::uint64_t AsyncSim::completed(std::uint8_t stream) noexcept {
  const detail::MutexLock lock(mutex_);
  const std::uint64_t value = work_->ended(stream);
  work_->record_known({.value = value, .stream = stream});
  return value;
}

Status AsyncSim::wait(std::span<const TimelinePoint> any_of, Deadline deadline) {
  detail::WaitNode node;
  for (detail::Wake wake = detail::Wake::unparked;;) {
    if (std::optional<Status> status = progress(any_of)) {
      wake_waiters_of_lost();
      return std::move(*status);
    }
    {
      // No work can end any more: only a loss or the deadline ends the wait.
      const detail::MutexLock lock(mutex_);
      if (!is_lost_ && wake == detail::Wake::unparked) {
        waiters_.add(node);
      } else {
        waiters_.remove(node);
      }
      if (is_lost_) {
        continue;
      }
    }
    if (wake == detail::Wake::deadline) {
      break;
    }
    wake = detail::current_context().parker().park(deadline);
  }
  return Error{
      .code = ErrorCode::deadline_exceeded,
      .text = fmt::format("{}: the deadline passed while waiting for work that hangs", info_.name),
      .device = info_.name};
}

std::optional<Status> AsyncSim::progress(std::span<const TimelinePoint> any_of) {
  int overrun = -1;  // pieces of work that still end before the waiting thread notices
  for (;;) {
    // Locked again for each piece, so that the owner can submit.
    const detail::MutexLock lock(mutex_);
    bool has_ended = any_of.empty();
    for (const TimelinePoint& point : any_of) {
      if (!work_->is_issued(point)) {
        return Error{.code = ErrorCode::internal,
                     .text = fmt::format("{}: point {} of stream {} was never submitted",
                                         info_.name,
                                         point.value,
                                         point.stream),
                     .device = info_.name};
      }
      if (work_->has_ended(point)) {
        work_->record_known(point);
        has_ended = true;
      }
    }
    if (std::optional<Error> failure = take_stray_failure()) {
      return Status(std::move(*failure));
    }
    if (has_ended) {
      overrun = overrun < 0 ? pick_overrun() : overrun - 1;
      if (is_lost_ || overrun <= 0 || !work_->run_next(faults_->plan().lost_at - nanoseconds(1))) {
        return Status();
      }
      continue;
    }
    if (is_lost_) {
      return Status(lost());
    }
    const nanoseconds lost_at = faults_->plan().lost_at;
    const bool is_losing = lost_at != nanoseconds::max();
    if (!work_->run_next(is_losing ? lost_at - nanoseconds(1) : nanoseconds::max())) {
      if (!is_losing) {
        return std::nullopt;
      }
      lose(faults_->time_of_loss());
    }
  }
}

void AsyncSim::advance(nanoseconds duration) {
  {
    const detail::MutexLock lock(mutex_);
    if (is_lost_) {
      return;
    }
    const nanoseconds left = faults_->plan().lost_at - work_->now();
    work_->advance(std::min(duration, left - nanoseconds(1)));
    if (left <= duration) {
      lose(faults_->time_of_loss());
    }
  }
  wake_waiters_of_lost();
}

nanoseconds AsyncSim::now() const {
  const detail::MutexLock lock(mutex_);
  return work_->now();
}

// ---- failures ----

std::optional<Error> AsyncSim::take_stray_failure() {
  if (stray_failures_.empty()) {
    return std::nullopt;
  }
  Error first = std::move(stray_failures_.front());
  stray_failures_.pop_front();
  return first;
}

Status AsyncSim::report(std::optional<ShadowReport> fault) {
  if (!fault) {
    return {};
  }
  Error error = to_error(*fault, info_.name);
  shadow_reports_.push_back(std::move(*fault));
  return error;
}

void AsyncSim::report_stray(std::optional<ShadowReport> fault) {
  if (is_lost_) {
    return;  // a lost device runs nothing
  }
  if (Status status = report(std::move(fault)); !status.has_value()) {
    stray_failures_.push_back(status.error());
  }
}

void AsyncSim::lose(std::string when) {
  is_lost_ = true;
  when_lost_ = std::move(when);
}

Error AsyncSim::lost() const {
  return faults_->loss(when_lost_);
}

void AsyncSim::wake_waiters_of_lost() {
  std::vector<IntrusivePtr<detail::Parker>> parkers;
  {
    const detail::MutexLock lock(mutex_);
    while (is_lost_ && !waiters_.empty()) {
      parkers.push_back(waiters_.take_first());
    }
  }
  for (const IntrusivePtr<detail::Parker>& parker : parkers) {
    parker->unpark();
  }
}

Status AsyncSim::check_host_access(ByteRange range, bool writes) {
  const detail::MutexLock lock(mutex_);
  return options_.schedule.checks_memory ? report(work_->record_host_access(range, writes))
                                         : Status();
}

bool AsyncSim::is_lost() const {
  const detail::MutexLock lock(mutex_);
  return is_lost_;
}

std::uint64_t AsyncSim::submitted() const {
  const detail::MutexLock lock(mutex_);
  return faults_->submitted();
}

std::size_t AsyncSim::remembered() const {
  const detail::MutexLock lock(mutex_);
  return work_->size();
}

std::vector<ShadowReport> AsyncSim::shadow_reports() const {
  const detail::MutexLock lock(mutex_);
  return shadow_reports_;
}

}  // namespace hearth::sim
