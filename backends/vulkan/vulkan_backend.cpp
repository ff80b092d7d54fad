#include <hearth/backends/vulkan/vulkan_backend.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/settings.hpp>
#include <hearth/streams/op_table.hpp>

#include "backend_parts.hpp"
#include "backends/gpu/kernel_table.hpp"
#include "backends/vulkan/device/physical_list.hpp"

namespace hearth::vulkan {
namespace {

/// Duration of one wait while a batch is not in the queue yet.
constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(20);

}  // namespace

// ---- opening ----

// Phases: the card; the parts; the device's description.
Result<std::unique_ptr<Backend>> VulkanBackend::open(VulkanOptions options) {
  auto parts = std::make_unique<Parts>();
  Result<PhysicalList> shown = list_physical();
  if (!shown.has_value()) {
    Error error = shown.error();
    if (error.code == ErrorCode::not_found) {
      error.text = fmt::format("no device '{}': {}", options.name, error.text);
    }
    error.device = options.name;
    return error;
  }
  const PhysicalList list = std::move(shown).value();
  const auto index = static_cast<std::size_t>(options.index);
  if (index >= list.devices.size()) {
    return Error{.code = ErrorCode::not_found,
                 .text = fmt::format("no device '{}': Vulkan shows {} here: {}",
                                     options.name,
                                     list.devices.size(),
                                     describe(list)),
                 .device = options.name};
  }
  HEARTH_TRY(parts->device,
             VulkanDevice::open(options.name,
                                list.instance,
                                list.devices[index],
                                {.lost_at_call = options.faults.lost_at_call,
                                 .refused_at_call = options.faults.refused_at_call,
                                 .wait_limit = options.wait_limit,
                                 .allows_f16_sums = options.allows_f16_sums,
                                 .interprets_always = options.interprets_always}));
  HEARTH_TRY(parts->compiler, PipelineCompiler::make(parts->device));
  parts->shaders = std::make_unique<gpu::KernelStore>(
      parts->compiler,
      options.compiles_beside ? options.executor : nullptr,
      options.faults.failing_compiles,
      gpu::SaveTerms{.executor = options.executor, .log = options.log});
  if (const Status kept = parts->shaders->kept(); !kept.has_value() && options.log != nullptr) {
    options.log->warn(fmt::format("{}: compiled kernels are not cached for the next run: {}",
                                  options.name,
                                  kept.error().text));
  }
  if (options.executor != nullptr) {
    parts->owner = options.executor->life();
  }
  parts->device->left_behind().sweep(parts->owner);
  parts->pages = std::make_unique<DevicePages>(parts->device);
  HEARTH_TRY(std::shared_ptr<VulkanQueue> queue,
             VulkanQueue::make(
                 parts->device,
                 VulkanQueue::Work::kernels,
                 {.layout = parts->compiler->layout(), .loop_word = parts->compiler->loop_word()}));
  const gpu::ParameterRing ring = queue->parameter_ring();
  parts->ops = std::make_unique<gpu::LaunchStream>(
      std::move(queue),
      gpu::StreamTerms{.ring = ring,
                       .recorder = {.executor = options.executor, .log = options.log},
                       .wait_limit = options.wait_limit});
  HEARTH_TRY(
      const std::optional<std::int64_t> seed,
      hearth::detail::Settings::from_environment().integer(
          hearth::detail::Setting::vulkan_shuffle, 0, std::numeric_limits<std::int64_t>::max()));
  if (seed) {
    parts->ops->shuffle(static_cast<std::uint64_t>(*seed));
  }
  HEARTH_TRY(parts->transfers,
             Transfers::make(parts->device, *parts->ops, *parts->pages, options.staging));
  parts->scratch = std::make_unique<OwnScratch>(*parts->device, *parts->ops);
  parts->encoder = std::make_unique<gpu::LaunchEncoder>(
      parts->device->limits(), *parts->shaders, *parts->ops, *parts->scratch);
  HEARTH_TRY(parts->guard_words,
             parts->device->make_buffer(gpu::Guards::kBytes, BufferPlace::device));
  parts->guards.open(parts->guard_words.bytes());
  HEARTH_TRY(
      parts->cells,
      parts->device->make_buffer(kMostCells * sizeof(gpu::ErrorCellWords), BufferPlace::shared));
  const PhysicalDevice& physical = parts->device->physical();
  parts->info = {.name = options.name,
                 .description = parts->device->description(),
                 .runs_inline = false,
                 .has_host_memory = false,
                 .memory_bytes = physical.is_cpu() ? 0 : parts->device->memory_bytes(),
                 .peaks_name = parts->device->fingerprint(),
                 .most_cells = kMostCells - 1};
  parts->options = std::move(options);
  return std::unique_ptr<Backend>(new VulkanBackend(std::move(parts)));  // NOLINT
}

VulkanBackend::VulkanBackend(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}

// A hung queue must not block the end of a runtime or a restart. Memory that the queue may touch is
// kept until a later device of the runtime finds the queue drained.
VulkanBackend::~VulkanBackend() {
  come_to_rest();
  const std::shared_ptr<const VulkanDevice> device = parts_->device;
  const gpu::LeftBehind::Owner owner = parts_->owner;
  const bool has_executor = parts_->options.executor != nullptr;
  if (parts_->hangs) {
    parts_->options.log = nullptr;  // the abandoned parts may outlive the log
    parts_->shaders->forget_log();
    device->left_behind().keep(owner, std::move(parts_));
  }
  if (!has_executor || !owner.expired()) {
    device->left_behind().sweep(owner);
  }
}

void VulkanBackend::come_to_rest() noexcept {
  Parts& p = *parts_;
  if (std::exchange(p.has_rested, true) || p.comes_to_rest(p.longest_rest())) {
    return;
  }
  p.hangs = true;
  p.pages->keep_all();
  p.ops->leave_behind();
  if (p.options.log != nullptr) {
    p.options.log->write(hearth::detail::LogLevel::warn, [&] {
      return fmt::format(
          "device {}: its queue did not drain within {:g} s; memory that it may still use stays "
          "allocated until a later restart, trim() or opening of a device of this runtime finds it "
          "drained",
          p.info.name,
          std::chrono::duration<double>(p.longest_rest()).count());
    });
  }
}

std::vector<LaunchTime> VulkanBackend::take_launch_times() {
  return parts_->ops->take_times();
}

CompileCounts VulkanBackend::compile_counts() const noexcept {
  const gpu::KernelCounts counts = parts_->shaders->counts();
  return {.kernels = counts.kernels, .compiled = counts.compiled};
}

const BackendInfo& VulkanBackend::info() const noexcept {
  return parts_->info;
}
PageProvider& VulkanBackend::pages() noexcept {
  return *parts_->pages;
}
const KernelFacts& VulkanBackend::facts() const noexcept {
  return parts_->facts;
}

// ---- ops ----

Support VulkanBackend::supports(const KernelCall& call) const {
  const auto is_wide = [](const TensorView& view) { return view.dtype == DType::f64; };
  if (!parts_->device->limits().has_f64 &&
      (std::ranges::any_of(call.inputs, is_wide) || std::ranges::any_of(call.outputs, is_wide))) {
    return {.yes = false,
            .reason = fmt::format("{}: {} has no f64 in its kernels",
                                  name(call.op.kind()),
                                  parts_->device->physical().name)};
  }
  return gpu::supports_kernel(call, parts_->device->limits());
}

Status VulkanBackend::prepare(const KernelCall& call) {
  if (Support support = supports(call); !support.yes) {
    return Error{.code = ErrorCode::unsupported,
                 .text = std::move(support.reason),
                 .op = std::string(name(call.op.kind())),
                 .device = parts_->info.name};
  }
  return parts_->encode_nothing(call, {.records = false});
}

// Ignores a full pool: the launch that needs the kernel finds the same.
void VulkanBackend::foresee(const KernelCall& call) {
  if (parts_->shaders->has_pool() && supports(call).yes) {
    parts_->encoder->forget_dispatches();
    static_cast<void>(parts_->encode_nothing(call, {.records = false, .may_come_later = true}));
  }
}

// Returns true for a call that cannot be encoded: its launch fails at once.
bool VulkanBackend::has_kernel(const KernelCall& call) {
  if (!supports(call).yes) {
    return true;
  }
  parts_->encoder->begin({.records = false, .only_asks = true});
  return !gpu::kernel_row(call.op.kind()).encode(call, *parts_->encoder).has_value() ||
         !parts_->encoder->is_compiling();
}

Issue VulkanBackend::submit(std::span<const Launch> batch, std::span<const TimelinePoint> after) {
  Parts& p = *parts_;
  Issue issue;
  issue.status = p.has_lost() ? Status(p.lost()) : p.note(p.wait_before(after));
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
    issue.status = p.note(p.encode(launch));
    p.encoder->give_scratch_back();
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
      using Recording = gpu::LaunchStream::Recording;
      const Recording how = count < gpu::BatchLength::kMost ? Recording::here : Recording::beside;
      if (Status status = p.note(p.ops->flush(how)); !status.has_value()) {
        issue.status = std::move(status);
        issue.may_have_begun = true;
        --issue.issued;
      }
    }
  }
  return issue;
}

Status VulkanBackend::flush() {
  return parts_->flush();
}

void VulkanBackend::use_scratch(ScratchMemory& scratch) noexcept {
  parts_->encoder->use_scratch(scratch);
}

// ---- copies ----

Result<CopyPart> VulkanBackend::upload(std::byte* to,
                                       std::span<const std::byte> from,
                                       std::span<const TimelinePoint> after) {
  HEARTH_TRY_STATUS(parts_->begin_copy());
  return parts_->noted(parts_->transfers->upload(to, from, after));
}
Result<CopyPart> VulkanBackend::download(std::span<std::byte> to,
                                         const std::byte* from,
                                         std::span<const TimelinePoint> after) {
  HEARTH_TRY_STATUS(parts_->begin_copy());
  return parts_->noted(parts_->transfers->download(to, from, after));
}
void VulkanBackend::forget_target(std::span<std::byte> target) noexcept {
  parts_->transfers->forget_target(target);
}
TimelinePoint VulkanBackend::newest_copy(std::uint8_t stream) const noexcept {
  return parts_->transfers->newest(stream);
}
HostBytes VulkanBackend::host_bytes(std::size_t size) {
  return parts_->transfers->host_bytes(size);
}
std::int64_t VulkanBackend::pinned_bytes() const noexcept {
  return parts_->transfers->pinned_bytes();
}
std::int64_t VulkanBackend::trim() noexcept {
  return parts_->device->left_behind().sweep(parts_->owner) + parts_->transfers->trim();
}

// ---- time ----

std::uint64_t VulkanBackend::completed(std::uint8_t stream) noexcept {
  Parts& p = *parts_;
  if (p.has_lost()) {
    return stream == kOpStream ? p.known_ops : 0;
  }
  const Result<std::uint64_t> value = stream == kOpStream       ? p.ops->completed()
                                      : stream == kUploadStream ? p.transfers->uploads().completed()
                                                                : p.transfers->settle_piece();
  static_cast<void>(p.note(value.status()));  // the next submit or wait reports a loss
  if (p.ops->has_failed()) {
    static_cast<void>(p.note(p.ops->failure()));
  }
  if (!value.has_value() || p.has_left_a_loop()) {
    return stream == kOpStream ? p.known_ops : 0;
  }
  if (stream == kOpStream) {
    p.known_ops = std::max(p.known_ops, value.value());
  }
  return value.value();
}

// Phases of a round: which points have ended; which timelines the others need; a wait for any of
// them. A download may need several timelines; the wait covers the first that is not reached.
Status VulkanBackend::wait(std::span<const TimelinePoint> any_of, Deadline deadline) {
  Parts& p = *parts_;
  const std::array semaphores{semaphore_of(p.ops->queue()),
                              semaphore_of(p.transfers->uploads().queue()),
                              semaphore_of(p.transfers->downloads().queue())};
  while (true) {
    if (p.has_lost()) {
      return p.lost();
    }
    const bool is_settled = p.ops->is_settled();  // before has_failed() is read
    if (p.ops->has_failed()) {
      return p.note(p.ops->failure());
    }
    const Result<std::uint64_t> downloads = p.transfers->settle();
    const Result<Needs> reached =
        downloads.has_value() ? p.transfers->reached() : Result<Needs>(downloads.status());
    if (!reached.has_value()) {
      return p.note(reached.status());
    }
    std::vector<VkSemaphore> waited;
    std::vector<std::uint64_t> values;
    for (const TimelinePoint& point : any_of) {
      if (p.has_ended(point, reached.value(), downloads.value())) {
        return {};
      }
      if (point.stream != kDownloadStream) {
        waited.push_back(semaphores[point.stream]);
        values.push_back(point.value);
        continue;
      }
      const Needs needs = p.transfers->needs_of(point.value);
      for (std::size_t i = 0; i < needs.size(); ++i) {
        if (needs[i] > reached.value()[i]) {
          waited.push_back(semaphores[i]);
          values.push_back(needs[i]);
          break;
        }
      }
    }
    if (any_of.empty()) {
      return {};
    }
    if (waited.empty()) {
      continue;  // the missing value has come meanwhile
    }
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.flags = VK_SEMAPHORE_WAIT_ANY_BIT;
    info.semaphoreCount = static_cast<std::uint32_t>(waited.size());
    info.pSemaphores = waited.data();
    info.pValues = values.data();
    // A batch that cannot be submitted never ends, and only its thread knows, so the wait is short.
    const std::chrono::nanoseconds most = is_settled ? std::chrono::hours(1) : kLook;
    const std::chrono::nanoseconds left = std::min<std::chrono::nanoseconds>(deadline.left(), most);
    const VkResult result = p.device->api().vkWaitSemaphores(
        p.device->handle(),
        &info,
        static_cast<std::uint64_t>(std::chrono::nanoseconds(left).count()));
    if (result == VK_TIMEOUT && deadline.has_passed()) {
      return Error{
          .code = ErrorCode::deadline_exceeded,
          .text = fmt::format("{}: the deadline passed while waiting for the device", p.info.name),
          .device = p.info.name};
    }
    if (result != VK_SUCCESS && result != VK_TIMEOUT) {
      return p.note(p.device->failed("vkWaitSemaphores", result));
    }
  }
}

Status VulkanBackend::cell_status(ErrorCell cell) {
  if (parts_->has_lost()) {
    return parts_->lost();
  }
  gpu::ErrorCellWords words;
  std::memcpy(&words, parts_->cells.host() + sizeof(words) * std::size_t{cell}, sizeof(words));
  return words.code == 0 ? Status() : Status(gpu::error_of(words, parts_->info.name));
}

Result<std::vector<VulkanDeviceInfo>> vulkan_devices() {
  HEARTH_TRY(const PhysicalList list, list_physical());
  std::vector<VulkanDeviceInfo> out;
  for (const PhysicalDevice& device : list.devices) {
    out.push_back({.name = device.name,
                   .driver = device.driver,
                   .is_cpu = device.is_cpu(),
                   .lack = device.lack});
  }
  return out;
}

}  // namespace hearth::vulkan
