#include "backend_parts.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <hearth/streams/op_table.hpp>

#include "backends/gpu/kernel_table.hpp"

namespace hearth::vulkan {

KernelFacts VulkanBackend::Parts::facts_of_rows() noexcept {
  KernelFacts facts;
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const gpu::KernelRow& row = gpu::kernel_row(kind);
    KindFacts& of_kind = facts.of(kind);
    of_kind.takes_epilogue = row.takes_epilogue;
    for (int input = 0; row.may_alias != nullptr && input < KindFacts::kInputBits; ++input) {
      of_kind.aliased_inputs |= row.may_alias(kind, input) ? std::uint32_t{1} << input : 0;
    }
  }
  return facts;
}

// ---- launches ----

Status VulkanBackend::Parts::accept(const Launch& launch) {
  if (has_lost()) {
    return lost();
  }
  ++submits;
  if (submits == options.faults.lost_at_submit) {
    return lose(
        Error{.code = ErrorCode::device_lost,
              .text = fmt::format(
                  "{}: the device is lost at submit {} by the fault plan", info.name, submits),
              .device = info.name});
  }
  if (submits == options.faults.hanging_submit) {
    ops->hang();
  }
  const gpu::KernelRow& row = gpu::kernel_row(launch.call.op.kind());
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

// Makes the batch of this launch wait for other queues. Such waits stand at the begin of a batch.
Status VulkanBackend::Parts::wait_before(std::span<const TimelinePoint> after) const {
  for (const TimelinePoint& point : after) {
    if (point.is_done() || point.stream == kOpStream) {
      continue;
    }
    HEARTH_TRY_STATUS(ops->flush());
    if (point.stream == kUploadStream) {
      ops->wait_for(transfers->uploads().queue(), point.value);
      continue;
    }
    HEARTH_TRY_STATUS(transfers->bring_down(point.value));
    const Needs needs = transfers->needs_of(point.value);
    ops->wait_for(transfers->uploads().queue(), needs[kUploadStream]);
    ops->wait_for(transfers->downloads().queue(), needs[kDownloadStream]);
  }
  return {};
}

void VulkanBackend::Parts::clear(ErrorCell cell, OpKind kind) {
  const gpu::ErrorCellWords words{.kind = static_cast<std::uint32_t>(kind)};
  std::memcpy(cells.host() + sizeof(words) * std::size_t{cell}, &words, sizeof(words));
  guards.forget();
}

// Phases: the launch's bytes; its error cell and guards; its order; its dispatches.
Status VulkanBackend::Parts::encode(const Launch& launch) {
  const KernelCall& call = launch.call;
  reads.clear();
  writes.clear();
  for (const TensorView& input : call.inputs) {
    reads.push_back(gpu::span_of(input));
  }
  if (call.epilogue != nullptr) {
    for (const TensorView& input : call.epilogue->inputs) {
      reads.push_back(gpu::span_of(input));
    }
  }
  for (const TensorView& output : call.outputs) {
    writes.push_back(gpu::span_of(output));
  }
  std::uint64_t cell = 0;
  if (launch.cell != 0) {
    clear(launch.cell, call.op.kind());
    cell = cell_address(launch.cell);
    writes.push_back({cell, cell + sizeof(gpu::ErrorCellWords)});
  }
  std::uint64_t guard = 0;
  if (!launch.guards.empty()) {
    guard = guards.known(launch.guards);
    if (guard == 0) {
      guard = guards.next_word();
      const gpu::ByteSpan all{cell_address(0), cell_address(kMostCells)};
      const gpu::ByteSpan word{guard, guard + 4};
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
  return gpu::kernel_row(call.op.kind()).encode(call, *encoder);
}

// Encodes the call only to make its pipelines. An update's launch may have a guard, which needs a
// different shader.
Status VulkanBackend::Parts::encode_nothing(const KernelCall& call, gpu::LaunchTerms terms) {
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
    gpu::LaunchTerms guarded = terms;
    guarded.guard = kSomeGuard;
    guarded.keeps = std::span(kReplaced).first(call.outputs.size());
    encoder->begin(guarded);
    HEARTH_TRY_STATUS(gpu::kernel_row(call.op.kind()).encode(call, *encoder));
  }
  encoder->begin(terms);
  return gpu::kernel_row(call.op.kind()).encode(call, *encoder);
}

// ---- time ----

Status VulkanBackend::Parts::flush() {
  length.begin_anew();
  return has_lost() ? Status(lost()) : note(ops->flush());
}

// A copy's dependencies have to be in the queue first. The queues may be one, and none may wait for
// a batch that cannot be submitted.
Status VulkanBackend::Parts::begin_copy() {
  HEARTH_TRY_STATUS(flush());
  return note(ops->settle(options.wait_limit));
}

bool VulkanBackend::Parts::comes_to_rest(std::chrono::nanoseconds within) {
  const std::array semaphores{semaphore_of(ops->queue()),
                              semaphore_of(transfers->uploads().queue()),
                              semaphore_of(transfers->downloads().queue())};
  const Deadline deadline = Deadline::in(within);
  if (const Status status = ops->settle(within);
      !status.has_value() && status.error().code == ErrorCode::deadline_exceeded) {
    return false;
  }
  const std::array values{
      ops->in_queue(), transfers->uploads().in_queue(), transfers->downloads().in_queue()};
  VkSemaphoreWaitInfo wait{};
  wait.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  wait.semaphoreCount = static_cast<std::uint32_t>(semaphores.size());
  wait.pSemaphores = semaphores.data();
  wait.pValues = values.data();
  if (options.faults.lost_at_call != 0) {
    device->api().vkDeviceWaitIdle(
        device->handle());  // the device may still run work after a planned loss
  }
  const std::chrono::nanoseconds left = deadline.left();
  const VkResult result = device->api().vkWaitSemaphores(
      device->handle(), &wait, static_cast<std::uint64_t>(left.count()));
  return result != VK_TIMEOUT;  // all work on a lost device has ended
}

}  // namespace hearth::vulkan
