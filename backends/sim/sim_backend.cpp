#include <hearth/backends/sim/sim_backend.hpp>

#include "planned_faults.hpp"
#include "sim_pages.hpp"
#include "stored_call.hpp"

#include <hearth/backends/issue_inline.hpp>
#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth::sim {

using std::chrono::nanoseconds;

SimBackend::SimBackend(SimOptions options)
    : options_(std::move(options)),
      info_{.name = options_.name,
            .description = options_.computes ? "simulated: the oracle's results in virtual time"
                                             : "simulated: virtual time, no results",
            .computes = options_.computes},
      facts_(reference::kernel_facts()),
      faults_(std::make_unique<PlannedFaults>(options_.faults, options_.name)) {
  PageWatch watch;
  if (options_.has_shadow) {
    const auto has_ended = [](std::uint64_t) { return true; };
    watch = {.added = [this](ByteRange page) { shadow_.add_page(page); },
             .resized =
                 [this, has_ended](ByteRange before, std::int64_t size_bytes) {
                   note(shadow_.resize_page(before, size_bytes, has_ended));
                 },
             .removed =
                 [this, has_ended](ByteRange page) { note(shadow_.remove_page(page, has_ended)); }};
  }
  pages_ = std::make_unique<SimPages>(options_.budget_bytes, options_.faults, std::move(watch));
}

SimBackend::~SimBackend() = default;

PageProvider& SimBackend::pages() noexcept {
  return *pages_;
}

Support SimBackend::supports(const KernelCall& call) const {
  return reference::supports(call);
}

Status SimBackend::prepare(const KernelCall& call) {
  return faults_->compile(call);
}

// ---- ops ----

Issue SimBackend::submit(std::span<const Launch> batch, std::span<const TimelinePoint> /*after*/) {
  has_begun_ = false;
  Issue issue = issue_inline(batch, [this](const KernelCall& call) { return run(call); });
  issue.may_have_begun = has_begun_;
  return issue;
}

Status SimBackend::run(const KernelCall& call) {
  // Phases: number of the submit, cost, bytes, effect.
  if (is_lost_) {
    return lost();
  }
  if (faults_->next_submit() == options_.faults.lost_at_submit) {
    lose(fmt::format("at submit {}", faults_->next_submit()));
    return lost();
  }
  HEARTH_TRY_STATUS(faults_->compile(call));
  const std::uint64_t number = faults_->count_submit();
  is_hung_ = is_hung_ || number == options_.faults.hanging_submit;
  if (!is_hung_) {
    if (options_.cost || now_ >= options_.faults.lost_at) {
      advance(options_.cost ? options_.cost(call) : nanoseconds(0));
    }
    if (is_lost_) {
      return lost();
    }
    ended_ops_ = number;
  }
  if (options_.has_shadow || is_hung_) {
    const Access access = access_of(call);
    HEARTH_TRY_STATUS(check(access.reads, access.writes));
    if (is_hung_) {
      return hang(call, access);
    }
  }
  if (faults_->fails(number) || faults_->fails_late(number)) {
    return faults_->submit_failure(call, number);
  }
  if (!options_.computes) {
    return {};
  }
  Status status = run_with_oracle(call, info_.name);
  has_begun_ = !status.has_value();
  return status;
}

// An inline device has no thread that waits, so the hanging op and every later op are refused at
// once. The op has begun: the bytes that it overwrites count as lost.
Error SimBackend::hang(const KernelCall& call, const Access& access) {
  stuck_reads_.insert(stuck_reads_.end(), access.reads.begin(), access.reads.end());
  stuck_writes_.insert(stuck_writes_.end(), access.writes.begin(), access.writes.end());
  has_begun_ = true;
  Error error = stuck();
  error.op = std::string(name(call.op.kind()));
  return error;
}

Status SimBackend::check(std::span<const ByteRange> reads, std::span<const ByteRange> writes) {
  if (!options_.has_shadow) {
    return {};
  }
  const auto has_ended = [](std::uint64_t) { return true; };
  std::optional<ShadowReport> fault = shadow_.access(ShadowMemory::kHost, reads, writes, has_ended);
  if (!fault) {
    return {};
  }
  Error error = to_error(*fault, info_.name);
  note(std::move(fault));
  return error;
}

void SimBackend::note(std::optional<ShadowReport> fault) {
  if (fault) {
    shadow_reports_.push_back(std::move(*fault));
  }
}

// ---- copies ----

Result<CopyPart> SimBackend::upload(std::byte* to,
                                    std::span<const std::byte> from,
                                    std::span<const TimelinePoint> /*after*/) {
  if (is_lost_) {
    return lost();
  }
  const ByteRange bytes{to, static_cast<std::int64_t>(from.size())};
  if (is_stuck(bytes, true)) {
    return stuck();
  }
  HEARTH_TRY_STATUS(check({}, {&bytes, 1}));
  std::ranges::copy(from, to);
  return CopyPart{.size_bytes = from.size()};
}

Result<CopyPart> SimBackend::download(std::span<std::byte> to,
                                      const std::byte* from,
                                      std::span<const TimelinePoint> /*after*/) {
  if (is_lost_) {
    return lost();
  }
  const ByteRange bytes{from, static_cast<std::int64_t>(to.size())};
  const bool is_corrupt = faults_->corrupts_next_download();
  if (is_stuck(bytes, false)) {
    return stuck();
  }
  HEARTH_TRY_STATUS(check({&bytes, 1}, {}));
  std::copy_n(from, to.size(), to.data());
  if (is_corrupt) {
    corrupt(to);
  }
  return CopyPart{.size_bytes = to.size()};
}

// ---- time and faults ----

Status SimBackend::wait(std::span<const TimelinePoint> /*any_of*/, Deadline /*deadline*/) {
  if (is_lost_) {
    return lost();
  }
  return is_hung_ ? Status(stuck()) : Status();
}

void SimBackend::advance(nanoseconds duration) {
  if (is_lost_) {
    return;
  }
  now_ += duration;
  if (now_ >= options_.faults.lost_at) {
    now_ = options_.faults.lost_at;
    lose(faults_->time_of_loss());
  }
}

std::uint64_t SimBackend::submitted() const noexcept {
  return faults_->submitted();
}

bool SimBackend::is_stuck(const ByteRange& bytes, bool writes) const {
  const auto overlaps = [&](const ByteRange& used) { return used.overlaps(bytes); };
  return std::ranges::any_of(stuck_writes_, overlaps) ||
         (writes && std::ranges::any_of(stuck_reads_, overlaps));
}

Error SimBackend::stuck() const {
  return {.code = ErrorCode::deadline_exceeded,
          .text = fmt::format(
              "{}: submit {} hangs by the fault plan", info_.name, options_.faults.hanging_submit),
          .device = info_.name};
}

void SimBackend::lose(std::string when) {
  is_lost_ = true;
  when_lost_ = std::move(when);
}

Error SimBackend::lost() const {
  return faults_->loss(when_lost_);
}

}  // namespace hearth::sim
