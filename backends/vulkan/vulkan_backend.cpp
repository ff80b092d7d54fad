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

#include "batch_length.hpp"
#include "command_stream.hpp"
#include "device_pages.hpp"
#include "error_cells.hpp"
#include "guards.hpp"
#include "kernel_table.hpp"
#include "launch_encoder.hpp"
#include "leave_behind.hpp"
#include "physical_list.hpp"
#include "shader_store.hpp"
#include "transfers.hpp"

namespace hearth::vulkan {
namespace {

constexpr ErrorCell kMostCells = 16384;
/// How long the end of a device waits for what was submitted.
constexpr std::chrono::seconds kLongestRest{2};

}  // namespace

struct VulkanBackend::Parts {
  VulkanOptions options;
  std::shared_ptr<const VulkanDevice> device;
  BackendInfo info;
  std::unique_ptr<ShaderStore> shaders;
  std::unique_ptr<DevicePages> pages;
  std::unique_ptr<CommandStream> ops;
  BatchLength length;
  std::unique_ptr<Transfers> transfers;
  std::unique_ptr<LaunchEncoder> encoder;
  Guards guards;
  bool has_guard_kernel = false;  ///< Made, whether or not the host knows too late what failed.
  Buffer cells;
  std::atomic<bool> is_losing{false};  ///< Somebody saw the loss first, and asks the driver why.
  std::atomic<bool> is_lost{false};
  bool has_rested = false;
  bool hangs = false;         ///< It did not come to rest: what the queue may touch stays.
  std::string why_lost;       ///< What the driver said; written before is_lost.
  std::uint64_t submits = 0;  ///< Launches, for planned faults.
  std::uint64_t known_ops = 0;
  std::vector<ByteSpan> reads;  ///< Of the launch at hand.
  std::vector<ByteSpan> writes;

  [[nodiscard]] Error lost() const {
    return {.code = ErrorCode::device_lost,
            .text = fmt::format(
                "{}: the device is lost{}{}", info.name, why_lost.empty() ? "" : ": ", why_lost),
            .device = info.name};
  }
  /// Remembers a loss, with what the driver says of it.
  [[nodiscard]] Status note(Status status) {
    if (status.has_value() || status.error().code != ErrorCode::device_lost ||
        is_losing.exchange(true, std::memory_order_acq_rel)) {
      return status;
    }
    if (device->is_given_up() && !comes_to_rest(kLongestRest)) {
      pages->keep_all();  // what still runs may touch what goes back from here on
    }
    why_lost = device->is_given_up() ? status.error().text : device->fault_text();
    is_lost.store(true, std::memory_order_release);  // partner: has_lost
    if (device->is_given_up() || why_lost.empty()) {
      return status;
    }
    Error error = status.error();
    error.text = fmt::format("{}: {}", error.text, why_lost);
    return error;
  }
  /// Whether a driver in software has left a loop early: then the device counts as lost.
  [[nodiscard]] bool has_left_a_loop() {
    if (!shaders->has_left_a_loop()) [[likely]] {
      return false;
    }
    if (!is_losing.exchange(true, std::memory_order_acq_rel)) {
      why_lost =
          "a kernel needed more steps than this driver in software lets loops take (65,535), and "
          "what it has computed is wrong; the same op runs on cpu:0, on a GPU, or in smaller "
          "pieces";
      is_lost.store(true, std::memory_order_release);  // partner: has_lost
    }
    return true;
  }
  [[nodiscard]] Result<CopyPart> noted(Result<CopyPart> part) {
    static_cast<void>(note(part.status()));
    return part;
  }
  /// A loss of a fault plan: the driver knows nothing of it.
  [[nodiscard]] Status lose(Error error) {
    is_losing.store(true, std::memory_order_release);
    is_lost.store(true, std::memory_order_release);  // partner: has_lost
    return error;
  }
  /// Whether all that was submitted ends within this time, or has no end any more.
  [[nodiscard]] bool comes_to_rest(std::chrono::nanoseconds within) const;
  [[nodiscard]] bool has_lost() const noexcept { return is_lost.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t cell_address(ErrorCell cell) const noexcept {
    return cells.address() + sizeof(ErrorCellWords) * std::uint64_t{cell};
  }
  [[nodiscard]] Status accept(const Launch& launch);
  [[nodiscard]] Status wait_before(std::span<const TimelinePoint> after);
  void clear(ErrorCell cell, OpKind kind);
  [[nodiscard]] Status encode(const Launch& launch);
  [[nodiscard]] Status encode_nothing(const KernelCall& call, LaunchTerms terms);
  [[nodiscard]] bool has_ended(const TimelinePoint& point,
                               const Needs& reached,
                               std::uint64_t downloads) const noexcept {
    return point.value <= (point.stream == kDownloadStream ? downloads : reached[point.stream]);
  }
};

// ---- opening ----

// Phases: the card; its parts; what the device says of itself.
Result<std::unique_ptr<Backend>> VulkanBackend::open(VulkanOptions options) {
  auto parts = std::make_unique<Parts>();
  HEARTH_TRY(const PhysicalList list, list_physical());
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
                                 .allows_f16_sums = options.allows_f16_sums}));
  HEARTH_TRY(parts->shaders,
             ShaderStore::make(parts->device, options.executor, options.faults.failing_compiles));
  parts->pages = std::make_unique<DevicePages>(parts->device);
  HEARTH_TRY(
      parts->ops,
      CommandStream::make(parts->device, CommandStream::Work::kernels, parts->shaders->layout()));
  parts->ops->watch_loops(parts->shaders->loop_word());
  HEARTH_TRY(
      const std::optional<std::int64_t> seed,
      hearth::detail::Settings::from_environment().integer(
          hearth::detail::Setting::vulkan_shuffle, 0, std::numeric_limits<std::int64_t>::max()));
  if (seed) {
    parts->ops->shuffle(static_cast<std::uint64_t>(*seed));
  }
  HEARTH_TRY(parts->transfers,
             Transfers::make(parts->device, *parts->ops, *parts->pages, options.staging));
  parts->encoder = std::make_unique<LaunchEncoder>(*parts->device, *parts->shaders, *parts->ops);
  HEARTH_TRY_STATUS(parts->guards.open(*parts->device));
  HEARTH_TRY(parts->cells,
             parts->device->make_buffer(kMostCells * sizeof(ErrorCellWords), BufferPlace::shared));
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

// A queue that hangs must not hang whoever ends a runtime, or restarts a device: what the queue may
// still touch after kLongestRest stays, for the rest of the process.
VulkanBackend::~VulkanBackend() {
  come_to_rest();
  if (parts_->hangs) {
    leave_behind(std::move(parts_));
  }
}

void VulkanBackend::come_to_rest() noexcept {
  Parts& p = *parts_;
  if (std::exchange(p.has_rested, true) || p.comes_to_rest(kLongestRest)) {
    return;
  }
  p.hangs = true;
  p.pages->keep_all();
  if (p.options.log != nullptr) {
    p.options.log->write(hearth::detail::LogLevel::warn, [&] {
      return fmt::format(
          "device {}: its queue did not come to rest within {} s; what it may still touch is "
          "left to the end of the process",
          p.info.name,
          kLongestRest.count());
    });
  }
}

bool VulkanBackend::Parts::comes_to_rest(std::chrono::nanoseconds within) const {
  const std::array semaphores{
      ops->semaphore(), transfers->uploads().semaphore(), transfers->downloads().semaphore()};
  const std::array values{
      ops->submitted(), transfers->uploads().submitted(), transfers->downloads().submitted()};
  VkSemaphoreWaitInfo wait{};
  wait.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  wait.semaphoreCount = static_cast<std::uint32_t>(semaphores.size());
  wait.pSemaphores = semaphores.data();
  wait.pValues = values.data();
  if (options.faults.lost_at_call != 0) {
    device->api().vkDeviceWaitIdle(
        device->handle());  // it may still run what it seems to have lost
  }
  const VkResult result = device->api().vkWaitSemaphores(
      device->handle(), &wait, static_cast<std::uint64_t>(within.count()));
  return result != VK_TIMEOUT;  // what is lost has ended
}

void VulkanBackend::keep_batch_times(bool keeps) {
  parts_->ops->keep_times(keeps);
}
std::vector<BatchTime> VulkanBackend::take_batch_times() {
  return parts_->ops->take_times();
}

CompileCounts VulkanBackend::compile_counts() const noexcept {
  const ShaderCounts counts = parts_->shaders->counts();
  return {.kernels = counts.pipelines, .compiled = counts.compiled};
}

const BackendInfo& VulkanBackend::info() const noexcept {
  return parts_->info;
}
PageProvider& VulkanBackend::pages() noexcept {
  return *parts_->pages;
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
  return supports_kernel(call, parts_->device->limits());
}

bool VulkanBackend::may_anchor(OpKind kind) const noexcept {
  return kernel_row(kind).takes_epilogue;
}

bool VulkanBackend::may_alias(OpKind kind, int input_index) const noexcept {
  const KernelRow& row = kernel_row(kind);
  return row.may_alias != nullptr && row.may_alias(kind, input_index);
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

// That the pool takes no job is found again where the kernel is needed.
void VulkanBackend::foresee(const KernelCall& call) {
  if (parts_->shaders->has_pool() && supports(call).yes) {
    parts_->encoder->forget_dispatches();
    static_cast<void>(parts_->encode_nothing(call, {.records = false, .may_come_later = true}));
  }
}

// Encodes the call for its pipelines alone. An update's launch comes with guards, which make
// another shader.
Status VulkanBackend::Parts::encode_nothing(const KernelCall& call, LaunchTerms terms) {
  static constexpr std::array<std::int8_t, kMostGroupOutputs> kReplaced = [] {
    std::array<std::int8_t, kMostGroupOutputs> inputs{};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::int8_t>(i == 0 ? 0 : i + 1);  // behind the gradient
    }
    return inputs;
  }();
  constexpr std::uint64_t kSomeGuard = 4;
  if (is_update(call.op.record())) {
    if (!terms.may_come_later && !std::exchange(has_guard_kernel, true)) {
      constexpr ErrorCell kSomeCell = 1;
      encoder->begin(terms);
      HEARTH_TRY_STATUS(guards.look({&kSomeCell, 1}, kSomeGuard, kSomeGuard, *encoder));
      guards.forget();  // nothing was recorded
    }
    LaunchTerms guarded = terms;
    guarded.guard = kSomeGuard;
    guarded.keeps = std::span(kReplaced).first(call.outputs.size());
    encoder->begin(guarded);
    HEARTH_TRY_STATUS(kernel_row(call.op.kind()).encode(call, *encoder));
  }
  encoder->begin(terms);
  return kernel_row(call.op.kind()).encode(call, *encoder);
}

// What cannot be encoded is refused at once.
bool VulkanBackend::has_kernel(const KernelCall& call) {
  if (!supports(call).yes) {
    return true;
  }
  parts_->encoder->begin({.records = false, .only_asks = true});
  return !kernel_row(call.op.kind()).encode(call, *parts_->encoder).has_value() ||
         !parts_->encoder->is_compiling();
}

Status VulkanBackend::Parts::accept(const Launch& launch) {
  if (has_lost()) {
    return lost();
  }
  ++submits;
  if (submits == options.faults.lost_at_submit) {
    return lose(Error{
        .code = ErrorCode::device_lost,
        .text = fmt::format("{}: the device is lost, as planned, at submit {}", info.name, submits),
        .device = info.name});
  }
  if (submits == options.faults.hanging_submit) {
    ops->hang();
  }
  const KernelRow& row = kernel_row(launch.call.op.kind());
  if (row.encode == nullptr || launch.cell >= kMostCells) {
    return Error{
        .code = ErrorCode::unsupported,
        .text = row.encode == nullptr
                    ? fmt::format("{}: Vulkan devices have no kernel for this op",
                                  name(launch.call.op.kind()))
                    : fmt::format("more than {} ops that may fail are under way", kMostCells),
        .op = std::string(name(launch.call.op.kind())),
        .device = info.name};
  }
  return {};
}

// What is on another queue is waited for where a batch begins.
Status VulkanBackend::Parts::wait_before(std::span<const TimelinePoint> after) {
  for (const TimelinePoint& point : after) {
    if (point.is_done() || point.stream == kOpStream) {
      continue;
    }
    HEARTH_TRY_STATUS(ops->flush());
    if (point.stream == kUploadStream) {
      ops->wait_for(transfers->uploads().semaphore(), point.value);
      continue;
    }
    HEARTH_TRY_STATUS(transfers->bring_down(point.value));
    const Needs needs = transfers->needs_of(point.value);
    ops->wait_for(transfers->uploads().semaphore(), needs[kUploadStream]);
    ops->wait_for(transfers->downloads().semaphore(), needs[kDownloadStream]);
  }
  return {};
}

void VulkanBackend::Parts::clear(ErrorCell cell, OpKind kind) {
  const ErrorCellWords words{.kind = static_cast<std::uint32_t>(kind)};
  std::memcpy(cells.host() + sizeof(words) * std::size_t{cell}, &words, sizeof(words));
  guards.forget();
}

// Phases: the bytes that it touches; its cell and its guards; its order; its dispatches.
Status VulkanBackend::Parts::encode(const Launch& launch) {
  const KernelCall& call = launch.call;
  reads.clear();
  writes.clear();
  for (const TensorView& input : call.inputs) {
    reads.push_back(span_of(input));
  }
  if (call.epilogue != nullptr) {
    for (const TensorView& input : call.epilogue->inputs) {
      reads.push_back(span_of(input));
    }
  }
  for (const TensorView& output : call.outputs) {
    writes.push_back(span_of(output));
  }
  std::uint64_t cell = 0;
  if (launch.cell != 0) {
    clear(launch.cell, call.op.kind());
    cell = cell_address(launch.cell);
    writes.push_back({cell, cell + sizeof(ErrorCellWords)});
  }
  std::uint64_t guard = 0;
  if (!launch.guards.empty()) {
    guard = guards.known(launch.guards);
    if (guard == 0) {
      guard = guards.next_word();
      const ByteSpan all{cell_address(0), cell_address(kMostCells)};
      const ByteSpan word{guard, guard + 4};
      HEARTH_TRY_STATUS(ops->begin_launch({&all, 1}, {&word, 1}));
      encoder->begin({});
      HEARTH_TRY_STATUS(guards.look(launch.guards, cell_address(0), guard, *encoder));
    }
    reads.push_back({guard, guard + 4});
  }
  HEARTH_TRY_STATUS(ops->begin_launch(reads, writes));
  encoder->begin({.may_come_later = launch.may_come_later && shaders->has_pool(),
                  .cell = cell,
                  .guard = guard,
                  .keeps = launch.keeps});
  return kernel_row(call.op.kind()).encode(call, *encoder);
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
    issue.status = p.note(p.encode(launch));
    p.encoder->give_scratch_back();
    if (issue.status.has_value() && p.encoder->is_compiling()) {
      --p.submits;  // it comes again
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
    if (p.length.is_enough(p.ops->open_count(), has_work)) {
      if (Status status = p.note(p.ops->flush()); !status.has_value()) {
        issue.status = std::move(status);
        issue.may_have_begun = true;
        --issue.issued;
      }
    }
  }
  return issue;
}

Status VulkanBackend::flush() {
  parts_->length.begin_anew();
  return parts_->has_lost() ? Status(parts_->lost()) : parts_->note(parts_->ops->flush());
}

void VulkanBackend::use_scratch(ScratchMemory& scratch) noexcept {
  parts_->encoder->use_scratch(scratch);
}

// ---- copies ----

Result<CopyPart> VulkanBackend::upload(std::byte* to,
                                       std::span<const std::byte> from,
                                       std::span<const TimelinePoint> after) {
  HEARTH_TRY_STATUS(flush());
  return parts_->noted(parts_->transfers->upload(to, from, after));
}
Result<CopyPart> VulkanBackend::download(std::span<std::byte> to,
                                         const std::byte* from,
                                         std::span<const TimelinePoint> after) {
  HEARTH_TRY_STATUS(flush());
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
  return parts_->transfers->trim();
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
  if (!value.has_value() || p.has_left_a_loop()) {
    return stream == kOpStream ? p.known_ops : 0;
  }
  if (stream == kOpStream) {
    p.known_ops = std::max(p.known_ops, value.value());
  }
  return value.value();
}

// Phases of a round: what has ended; which timelines the others wait for; a wait for any of them.
// A download may need several timelines: it waits for the first that is not there yet.
Status VulkanBackend::wait(std::span<const TimelinePoint> any_of, Deadline deadline) {
  Parts& p = *parts_;
  const std::array semaphores{
      p.ops->semaphore(), p.transfers->uploads().semaphore(), p.transfers->downloads().semaphore()};
  while (true) {
    if (p.has_lost()) {
      return p.lost();
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
      continue;  // what was missing has come meanwhile
    }
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.flags = VK_SEMAPHORE_WAIT_ANY_BIT;
    info.semaphoreCount = static_cast<std::uint32_t>(waited.size());
    info.pSemaphores = waited.data();
    info.pValues = values.data();
    const std::chrono::nanoseconds left =
        std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::hours(1));
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
  ErrorCellWords words;
  std::memcpy(&words, parts_->cells.host() + sizeof(words) * std::size_t{cell}, sizeof(words));
  return words.code == 0 ? Status() : Status(error_of(words, parts_->info.name));
}

}  // namespace hearth::vulkan
