#include "bench_device.hpp"

#include <hearth/backends/builtin/builtin.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/cores.hpp>

#include "stopwatch.hpp"

namespace hearth::bench {
namespace {

using detail::Sample;
using detail::SampleSource;

/// Launches in flight on a device: a driver keeps the commands of each.
constexpr std::int32_t kMostLaunches = 2048;

}  // namespace

Result<std::unique_ptr<BenchDevice>> BenchDevice::open(const std::string& name, int cores) {
  std::vector<int> available = available_cores();
  if (cores < 1 || static_cast<std::size_t>(cores) > available.size()) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("--cores {}: this process may use 1 to {}", cores, available.size())};
  }
  const bool is_cpu = name.starts_with("cpu:");
  available.resize(static_cast<std::size_t>(cores));
  HEARTH_TRY(std::unique_ptr<Backend> backend,
             make_backend({.name = name,
                           .cores = is_cpu ? available : std::vector<int>(),
                           .is_serial = cores == 1,
                           .compiles_beside = false}));
  const SampleSource source = !backend->info().runs_inline ? SampleSource::device
                              : cores == 1                 ? SampleSource::host_thread
                                                           : SampleSource::host_crew;
  return std::make_unique<BenchDevice>(std::move(backend), source);
}

BenchDevice::BenchDevice(std::unique_ptr<Backend> backend, SampleSource source)
    : backend_(std::move(backend)), source_(source) {}

BenchDevice::~BenchDevice() {
  backend_->drain();
}

Status BenchDevice::wait(TimelinePoint point) {
  return point.is_done() ? Status() : backend_->wait({&point, 1}, Deadline::in(kDefaultWait));
}

Status BenchDevice::run(const KernelCall& call, detail::CandidateId pick) {
  constexpr ErrorCell kCell = 1;
  const Launch launch{.call = call, .cell = kCell, .pick = pick};
  const Issue issue = backend_->submit({&launch, 1}, {});
  HEARTH_TRY_STATUS(issue.status);
  if (issue.point.is_done()) {
    return {};
  }
  HEARTH_TRY_STATUS(backend_->flush());
  HEARTH_TRY_STATUS(wait(issue.point));
  return backend_->cell_status(kCell);
}

Result<Sample> BenchDevice::sample(const std::function<KernelCall(std::size_t)>& call_of,
                                   detail::CandidateId pick,
                                   std::int32_t run_count,
                                   std::int64_t rotated_bytes) {
  BatchTimes* const times = source_ == SampleSource::device ? backend_->times() : nullptr;
  const std::int32_t count =
      source_ == SampleSource::device ? std::min(run_count, kMostLaunches) : run_count;
  if (times != nullptr) {
    static_cast<void>(times->take_launch_times());  // of earlier runs
  }
  Stopwatch watch(source_);
  TimelinePoint last;
  for (std::int32_t i = 0; i < count; ++i) {
    const Launch launch{.call = call_of(static_cast<std::size_t>(i)),
                        .timed_as = times != nullptr ? static_cast<std::uint32_t>(i + 1) : 0,
                        .pick = pick};
    const Issue issue = backend_->submit({&launch, 1}, {});
    HEARTH_TRY_STATUS(issue.status);
    last = issue.point;
  }
  if (!last.is_done()) {
    HEARTH_TRY_STATUS(backend_->flush());
    HEARTH_TRY_STATUS(wait(last));
  }
  Sample sample = watch.stop(count, rotated_bytes);
  if (times != nullptr) {
    std::chrono::nanoseconds ticks{};
    for (const LaunchTime& each : times->take_launch_times()) {
      ticks += each.end - each.begin;
    }
    sample.wall = ticks.count() > 0 ? ticks : sample.wall;
  }
  return sample;
}

Status BenchDevice::upload(std::byte* to, std::span<const std::byte> from) {
  while (!from.empty()) {
    HEARTH_TRY(const CopyPart part, backend_->copies().upload(to, from, {}));
    HEARTH_TRY_STATUS(wait(part.point));
    to += part.size_bytes;
    from = from.subspan(part.size_bytes);
  }
  return {};
}

Status BenchDevice::download(std::span<std::byte> to, const std::byte* from) {
  while (!to.empty()) {
    HEARTH_TRY(const CopyPart part, backend_->copies().download(to, from, {}));
    HEARTH_TRY_STATUS(wait(part.point));
    from += part.size_bytes;
    to = to.subspan(part.size_bytes);
  }
  return {};
}

}  // namespace hearth::bench
