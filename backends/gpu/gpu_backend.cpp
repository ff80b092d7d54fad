#include "gpu_backend.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

#include "backend_parts.hpp"
#include "kernel_table.hpp"

namespace hearth::gpu {
namespace {

/// Duration of one wait while a batch is not in the queue yet.
constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(20);

}  // namespace

// ---- opening ----

Result<std::unique_ptr<Backend>> GpuBackend::open(std::shared_ptr<const GpuDevice> device,
                                                  GpuOptions options) {
  auto parts = std::make_unique<Parts>();
  parts->device = std::move(device);
  parts->options = std::move(options);
  HEARTH_TRY_STATUS(parts->open());
  return std::unique_ptr<Backend>(new GpuBackend(std::move(parts)));  // NOLINT
}

GpuBackend::GpuBackend(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}

// A hung queue must not block the end of a runtime or a restart. Memory that the queue may touch is
// kept until a later device of the runtime finds the queue drained.
GpuBackend::~GpuBackend() {
  drain();
  const std::shared_ptr<const GpuDevice> device = parts_->device;
  const AbandonedObjects::Owner owner = parts_->owner;
  const bool has_executor = parts_->options.executor != nullptr;
  if (parts_->hangs) {
    parts_->options.log = nullptr;  // the abandoned parts may outlive the log
    parts_->kernels->forget_log();
    device->abandoned_objects().keep(owner, std::move(parts_));
  }
  if (!has_executor || !owner.expired()) {
    device->abandoned_objects().sweep(owner);
  }
}

void GpuBackend::drain() noexcept {
  Parts& p = *parts_;
  if (std::exchange(p.has_drained, true) || p.drains_within(p.drain_limit())) {
    return;
  }
  p.hangs = true;
  p.pages->keep_all();
  p.ops->abandon();
  if (p.options.log != nullptr) {
    p.options.log->write(hearth::detail::LogLevel::warn, [&] {
      return fmt::format(
          "device {}: its queue did not drain within {:g} s; memory that it may still use stays "
          "allocated until a later restart, trim() or opening of a device of this runtime finds it "
          "drained",
          p.info.name,
          std::chrono::duration<double>(p.drain_limit()).count());
    });
  }
}

std::vector<LaunchTime> GpuBackend::take_launch_times() {
  return parts_->ops->take_times();
}

CompileCounts GpuBackend::compile_counts() const noexcept {
  const KernelCounts counts = parts_->kernels->counts();
  return {.kernels = counts.kernels, .compiled = counts.compiled};
}

const BackendInfo& GpuBackend::info() const noexcept {
  return parts_->info;
}
PageProvider& GpuBackend::pages() noexcept {
  return *parts_->pages;
}
const KernelFacts& GpuBackend::facts() const noexcept {
  return parts_->facts;
}

// ---- ops ----

Support GpuBackend::supports(const KernelCall& call) const {
  const auto is_wide = [](const TensorView& view) { return view.dtype == DType::f64; };
  if (!parts_->device->facts().limits.has_f64 &&
      (std::ranges::any_of(call.inputs, is_wide) || std::ranges::any_of(call.outputs, is_wide))) {
    return {.yes = false,
            .reason = fmt::format("{}: {} has no f64 in its kernels",
                                  name(call.op.kind()),
                                  parts_->device->facts().card)};
  }
  return supports_kernel(call, parts_->device->facts().limits);
}

Status GpuBackend::prepare(const KernelCall& call) {
  if (Support support = supports(call); !support.yes) {
    return Error{.code = ErrorCode::unsupported,
                 .text = std::move(support.reason),
                 .op = std::string(name(call.op.kind())),
                 .device = parts_->info.name};
  }
  return parts_->encode_nothing(call, {.records = false});
}

// Ignores a full pool: the launch that needs the kernel finds the same.
void GpuBackend::precompile(const KernelCall& call) {
  if (parts_->kernels->has_pool() && supports(call).yes) {
    parts_->encoder->forget_dispatches();
    static_cast<void>(parts_->encode_nothing(call, {.records = false, .is_deferrable = true}));
  }
}

// Returns true for a call that cannot be encoded: its launch fails at once.
bool GpuBackend::has_kernel(const KernelCall& call) {
  if (!supports(call).yes) {
    return true;
  }
  parts_->encoder->begin({.records = false, .only_queries = true});
  return !kernel_row(call.op.kind()).encode(call, *parts_->encoder).has_value() ||
         !parts_->encoder->is_compiling();
}

Issue GpuBackend::submit(std::span<const Launch> batch, std::span<const TimelinePoint> after) {
  Parts& p = *parts_;
  Issue issue;
  issue.status = p.has_lost() ? Status(p.lost()) : p.observe(p.wait_before(after));
  issue.may_have_begun = false;
  for (const Launch& launch : batch) {
    if (!issue.status.has_value()) {
      return issue;
    }
    issue.status = p.accept(launch);
    if (!issue.status.has_value()) {
      return issue;
    }
    p.encoder->forget_dispatches();
    p.ops->time_as(launch.timed_as);
    issue.status = p.observe(p.encode(launch));
    p.encoder->release_scratch();
    if (issue.status.has_value() && p.encoder->is_compiling()) {
      --p.submits;  // the launch is retried
      issue.status = Error{.code = ErrorCode::unsupported,
                           .text = "its kernel is being compiled",
                           .device = p.info.name};
      issue.is_compiling = true;
      return issue;
    }
    if (!issue.status.has_value()) {
      issue.may_have_begun = p.encoder->dispatches() > 0;
      return issue;
    }
    issue.point = {.value = p.ops->open_value(), .stream = kOpStream};
    ++issue.issued;
    const auto has_work = [&] {
      return p.ops->is_shuffled() || completed(kOpStream) != p.ops->submitted();
    };
    if (const std::uint32_t count = p.ops->open_count(); p.length.is_enough(count, has_work)) {
      // The device waits for a shorter batch, and a thread would wake too late.
      using Recording = LaunchStream::Recording;
      const Recording how = count < BatchLength::kMost ? Recording::here : Recording::beside;
      if (Status status = p.observe(p.ops->flush(how)); !status.has_value()) {
        issue.status = std::move(status);
        issue.may_have_begun = true;
        --issue.issued;
      }
    }
  }
  return issue;
}

Status GpuBackend::flush() {
  return parts_->flush();
}

void GpuBackend::use_scratch(ScratchMemory& scratch) noexcept {
  parts_->encoder->use_scratch(scratch);
}

// ---- copies ----

Result<CopyPart> GpuBackend::upload(std::byte* to,
                                    std::span<const std::byte> from,
                                    std::span<const TimelinePoint> after) {
  HEARTH_TRY_STATUS(parts_->begin_copy());
  return parts_->observed(parts_->transfers->upload(to, from, after));
}
Result<CopyPart> GpuBackend::download(std::span<std::byte> to,
                                      const std::byte* from,
                                      std::span<const TimelinePoint> after) {
  HEARTH_TRY_STATUS(parts_->begin_copy());
  return parts_->observed(parts_->transfers->download(to, from, after));
}
void GpuBackend::forget_target(std::span<std::byte> target) noexcept {
  parts_->transfers->forget_target(target);
}
TimelinePoint GpuBackend::newest_copy(std::uint8_t stream) const noexcept {
  return parts_->transfers->newest(stream);
}
HostBytes GpuBackend::host_bytes(std::size_t size) {
  return parts_->transfers->host_bytes(size);
}
std::int64_t GpuBackend::pinned_bytes() const noexcept {
  return parts_->transfers->pinned_bytes();
}
std::int64_t GpuBackend::trim() noexcept {
  return parts_->device->abandoned_objects().sweep(parts_->owner) + parts_->transfers->trim();
}

// ---- time ----

std::uint64_t GpuBackend::completed(std::uint8_t stream) noexcept {
  Parts& p = *parts_;
  if (p.has_lost()) {
    return stream == kOpStream ? p.known_ops : 0;
  }
  const Result<std::uint64_t> value = stream == kOpStream       ? p.ops->completed()
                                      : stream == kUploadStream ? p.transfers->uploads().completed()
                                                                : p.transfers->settle_piece();
  static_cast<void>(p.observe(value.status()));  // the next submit or wait reports a loss
  if (p.ops->has_failed()) {
    static_cast<void>(p.observe(p.ops->failure()));
  }
  if (!value.has_value() || p.has_flaw()) {
    return stream == kOpStream ? p.known_ops : 0;
  }
  if (stream == kOpStream) {
    p.known_ops = std::max(p.known_ops, value.value());
  }
  return value.value();
}

// Each round looks at the points, and waits for any of the values that they lack.
Status GpuBackend::wait(std::span<const TimelinePoint> any_of, Deadline deadline) {
  Parts& p = *parts_;
  while (true) {
    if (p.has_lost()) {
      return p.lost();
    }
    const bool is_settled = p.ops->is_settled();  // before has_failed() is read
    if (p.ops->has_failed()) {
      return p.observe(p.ops->failure());
    }
    const Result<Parts::Look> look = p.look(any_of);
    if (!look.has_value()) {
      return p.observe(look.status());
    }
    if (look.value().has_ended || any_of.empty()) {
      return {};
    }
    if (look.value().missing.empty()) {
      continue;  // the missing value has come meanwhile
    }
    // A batch that cannot be submitted never ends, and only its thread knows, so the wait is short.
    const std::chrono::nanoseconds most = is_settled ? std::chrono::hours(1) : kLook;
    const std::chrono::nanoseconds left = std::min<std::chrono::nanoseconds>(deadline.left(), most);
    const Result<bool> has_come = p.device->wait(look.value().missing, WaitFor::any, left);
    if (!has_come.has_value()) {
      return p.observe(has_come.status());
    }
    if (!has_come.value() && deadline.has_passed()) {
      return Error{
          .code = ErrorCode::deadline_exceeded,
          .text = fmt::format("{}: the deadline passed while waiting for the device", p.info.name),
          .device = p.info.name};
    }
  }
}

Status GpuBackend::cell_status(ErrorCell cell) {
  if (parts_->has_lost()) {
    return parts_->lost();
  }
  ErrorCellWords words;
  std::memcpy(&words, parts_->cells->host() + sizeof(words) * std::size_t{cell}, sizeof(words));
  return words.code == 0 ? Status() : Status(error_of(words, parts_->info.name));
}

}  // namespace hearth::gpu
