#include "backend_parts.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <hearth/streams/op_table.hpp>

#include "kernel_table.hpp"

namespace hearth::gpu {

KernelFacts GpuBackend::Parts::facts_of_rows() noexcept {
  KernelFacts facts;
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const KernelRow& row = kernel_row(kind);
    KindFacts& of_kind = facts.of(kind);
    of_kind.takes_epilogue = row.takes_epilogue;
    for (int input = 0; row.may_alias != nullptr && input < KindFacts::kInputBits; ++input) {
      of_kind.aliased_inputs |= row.may_alias(kind, input) ? std::uint32_t{1} << input : 0;
    }
  }
  return facts;
}

// ---- opening ----

Status GpuBackend::Parts::open() {
  const DeviceFacts& of_device = device->facts();
  info = {.name = of_device.name,
          .description = of_device.description,
          .runs_inline = false,
          .has_host_memory = false,
          .memory_bytes = of_device.limits.is_cpu ? 0 : of_device.memory_bytes,
          .peaks_name = of_device.fingerprint,
          .most_cells = kMostCells - 1};
  if (options.executor != nullptr) {
    owner = options.executor->life();
  }
  open_kernels();
  device->abandoned_objects().sweep(owner);
  pages = std::make_unique<DevicePages>(device);
  HEARTH_TRY_STATUS(open_queues());
  scratch = std::make_unique<OwnScratch>(*device, *ops);
  encoder = std::make_unique<LaunchEncoder>(
      of_device.limits, *kernels, device->products(), *ops, *scratch);
  HEARTH_TRY(guard_words, device->make_memory(Guards::kBytes, MemoryPlace::device));
  guards.open(guard_words->bytes());
  HEARTH_TRY(cells, device->make_memory(kMostCells * sizeof(ErrorCellWords), MemoryPlace::shared));
  return {};
}

void GpuBackend::Parts::open_kernels() {
  kernels =
      std::make_unique<KernelStore>(device->compiler(),
                                    options.compiles_beside ? options.executor : nullptr,
                                    options.faults.failing_compiles,
                                    SaveTerms{.executor = options.executor, .log = options.log});
  if (const Status kept = kernels->kept(); !kept.has_value() && options.log != nullptr) {
    options.log->warn(fmt::format(
        "{}: compiled kernels are not cached for the next run: {}", info.name, kept.error().text));
  }
}

Status GpuBackend::Parts::open_queues() {
  HEARTH_TRY(std::shared_ptr<Queue> queue, device->make_queue(QueueWork::kernels));
  ops = std::make_unique<LaunchStream>(
      std::move(queue),
      StreamTerms{.recorder = {.executor = options.executor, .log = options.log},
                  .wait_limit = options.wait_limit});
  if (options.shuffle_seed) {
    ops->shuffle(*options.shuffle_seed);
  }
  HEARTH_TRY(transfers, Transfers::make(device, *ops, *pages, options.staging));
  return {};
}

// ---- launches ----

Status GpuBackend::Parts::accept(const Launch& launch) {
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
  const KernelRow& row = kernel_row(launch.call.op.kind());
  if (row.encode == nullptr || launch.cell >= kMostCells) {
    return Error{
        .code = ErrorCode::unsupported,
        .text =
            row.encode == nullptr
                ? fmt::format("{}: GPUs have no kernel for this op", name(launch.call.op.kind()))
                : fmt::format("more than {} ops that may fail are under way", kMostCells),
        .op = std::string(name(launch.call.op.kind())),
        .device = info.name};
  }
  return {};
}

// Makes the batch of this launch wait for other queues. Such waits stand at the begin of a batch.
Status GpuBackend::Parts::wait_before(std::span<const TimelinePoint> after) const {
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

void GpuBackend::Parts::clear(ErrorCell cell, OpKind kind) {
  const ErrorCellWords words{.kind = static_cast<std::uint32_t>(kind)};
  std::memcpy(cells->host() + sizeof(words) * std::size_t{cell}, &words, sizeof(words));
  guards.forget();
}

// Phases: the launch's bytes; its error cell and guards; its order; its dispatches.
Status GpuBackend::Parts::encode(const Launch& launch) {
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
      HEARTH_TRY_STATUS(guards.scan(launch.guards, cell_address(0), guard, *encoder));
    }
    reads.push_back({guard, guard + 4});
  }
  HEARTH_TRY_STATUS(ops->begin_launch(reads, writes));
  encoder->begin({.is_deferrable = launch.is_deferrable && kernels->has_pool(),
                  .cell = cell,
                  .guard = guard,
                  .keeps = launch.keeps});
  return kernel_row(call.op.kind()).encode(call, *encoder);
}

// Encodes the call only to make its pipelines. An update's launch may have a guard, which needs a
// different shader.
Status GpuBackend::Parts::encode_nothing(const KernelCall& call, LaunchTerms terms) {
  static constexpr std::array<std::int8_t, kMostGroupOutputs> kReplaced = [] {
    std::array<std::int8_t, kMostGroupOutputs> inputs{};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::int8_t>(i == 0 ? 0 : i + 1);  // behind the gradient
    }
    return inputs;
  }();
  constexpr std::uint64_t kSomeGuard = 4;
  if (is_update(call.op.record())) {
    if (!terms.is_deferrable && !std::exchange(has_guard_kernel, true)) {
      constexpr ErrorCell kSomeCell = 1;
      encoder->begin(terms);
      HEARTH_TRY_STATUS(guards.scan({&kSomeCell, 1}, kSomeGuard, kSomeGuard, *encoder));
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

// ---- time ----

Status GpuBackend::Parts::flush() {
  length.begin_anew();
  return has_lost() ? Status(lost()) : observe(ops->flush());
}

// A download may need several timelines; the wait covers the first that is not reached.
std::optional<QueueValue> GpuBackend::Parts::first_missing(const TimelinePoint& point,
                                                           const Needs& reached) const {
  const std::array queues{
      &ops->queue(), &transfers->uploads().queue(), &transfers->downloads().queue()};
  if (point.stream != kDownloadStream) {
    return QueueValue{.queue = queues[point.stream], .value = point.value};
  }
  const Needs needs = transfers->needs_of(point.value);
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (needs[i] > reached[i]) {
      return QueueValue{.queue = queues[i], .value = needs[i]};
    }
  }
  return std::nullopt;
}

Result<GpuBackend::Parts::Look> GpuBackend::Parts::look(
    std::span<const TimelinePoint> points) const {
  HEARTH_TRY(const std::uint64_t downloads, transfers->settle());
  HEARTH_TRY(const Needs reached, transfers->reached());
  Look look;
  for (const TimelinePoint& point : points) {
    if (has_ended(point, reached, downloads)) {
      return Look{.has_ended = true, .missing = {}};
    }
    if (const std::optional<QueueValue> value = first_missing(point, reached)) {
      look.missing.push_back(*value);
    }
  }
  return look;
}

// A copy's dependencies have to be in the queue first. The queues may be one, and none may wait for
// a batch that cannot be submitted.
Status GpuBackend::Parts::begin_copy() {
  HEARTH_TRY_STATUS(flush());
  return observe(ops->settle(options.wait_limit));
}

bool GpuBackend::Parts::drains_within(std::chrono::nanoseconds within) {
  const Deadline deadline = Deadline::in(within);
  if (const Status status = ops->settle(within);
      !status.has_value() && status.error().code == ErrorCode::deadline_exceeded) {
    return false;
  }
  const auto last_of = [](const LaunchStream& stream) {
    return QueueValue{.queue = &stream.queue(), .value = stream.in_queue()};
  };
  const std::array values{
      last_of(*ops), last_of(transfers->uploads()), last_of(transfers->downloads())};
  if (options.faults.lost_at_call != 0) {
    device->drain();  // the device may still run work after a planned loss
  }
  const Result<bool> has_ended = device->wait(values, WaitFor::all, deadline.left());
  return !has_ended.has_value() || has_ended.value();  // all work on a lost device has ended
}

}  // namespace hearth::gpu
