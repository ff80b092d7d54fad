#include "command_stream.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::vulkan {
namespace {

constexpr std::int64_t kRingBytes = std::int64_t{4} << 20;
constexpr std::uint64_t kParameterAlignment = 16;

}  // namespace

Result<std::unique_ptr<CommandStream>> CommandStream::make(
    std::shared_ptr<const VulkanDevice> device,
    Work work,
    VkPipelineLayout layout,
    RecorderThread recorder) {
  std::unique_ptr<CommandStream> stream(
      new CommandStream(std::move(device), work, layout));  // NOLINT
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  const VulkanDevice& d = *stream->device_;
  const VkResult result =
      d.api().vkCreateSemaphore(d.handle(), &info, nullptr, &stream->semaphore_);
  if (result != VK_SUCCESS) {
    return d.failed("vkCreateSemaphore", result);
  }
  const VkQueue queue = work == Work::kernels   ? d.compute_queue()
                        : work == Work::uploads ? d.upload_queue()
                                                : d.download_queue();
  stream->recorder_ =
      std::make_unique<BatchRecorder>(BatchRecorder::Target{.device = stream->device_,
                                                            .queue = queue,
                                                            .semaphore = stream->semaphore_,
                                                            .layout = layout,
                                                            .is_kernels = work == Work::kernels},
                                      std::move(recorder));
  if (work == Work::kernels) {
    HEARTH_TRY(stream->ring_, d.make_buffer(kRingBytes, BufferPlace::shared));
  }
  return stream;
}

CommandStream::~CommandStream() {
  recorder_.reset();  // its thread holds some of the batches
  const DeviceApi& api = device_->api();
  const auto destroy = [&](const std::unique_ptr<Batch>& batch) {
    if (batch != nullptr) {
      clock_.forget(batch->queries);
      api.vkDestroyCommandPool(device_->handle(), batch->pool, nullptr);
    }
  };
  destroy(open_);
  std::ranges::for_each(running_, destroy);
  std::ranges::for_each(free_, destroy);
  if (semaphore_ != VK_NULL_HANDLE) {
    api.vkDestroySemaphore(device_->handle(), semaphore_, nullptr);
  }
}

Result<std::uint64_t> CommandStream::completed() const {
  std::uint64_t value = 0;
  const VkResult result =
      device_->api().vkGetSemaphoreCounterValue(device_->handle(), semaphore_, &value);
  if (result != VK_SUCCESS) {
    return device_->failed("vkGetSemaphoreCounterValue", result);
  }
  return value;
}

// ---- batches ----

// A batch may have ended on the device while its recorder thread still holds it.
Status CommandStream::retire() {
  if (running_.empty()) {
    return {};
  }
  HEARTH_TRY(const std::uint64_t reached, completed());
  const std::uint64_t ended = std::min(reached, recorder_->done());
  while (!running_.empty() && running_.front()->value <= ended) {
    Batch& batch = *running_.front();
    ring_begin_ = batch.parameters_end;
    clock_.read(std::exchange(batch.queries, {}));
    free_.push_back(std::move(running_.front()));
    running_.pop_front();
  }
  return {};
}

Status CommandStream::wait_for_oldest() {
  if (running_.empty()) {
    return {};
  }
  HEARTH_TRY_STATUS(pass_on_held());
  HEARTH_TRY_STATUS(settle(device_->wait_limit()));
  HEARTH_TRY_STATUS(device_->wait_until(semaphore_, running_.front()->value));
  return retire();
}

Result<std::unique_ptr<Batch>> CommandStream::take_batch() {
  HEARTH_TRY_STATUS(retire());
  if (!free_.empty()) {
    const VkResult result =
        device_->api().vkResetCommandPool(device_->handle(), free_.back()->pool, 0);
    if (result != VK_SUCCESS) {
      return device_->failed("vkResetCommandPool", result);  // the pool stays in the free list
    }
    std::unique_ptr<Batch> batch = std::move(free_.back());
    free_.pop_back();
    batch->dispatches.clear();
    batch->recorded = 0;
    batch->bound = gpu::KernelHandle::none;
    return batch;
  }
  auto batch = std::make_unique<Batch>();
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex =
      work_ == Work::kernels ? device_->compute_family() : device_->copy_family();
  VkResult result =
      device_->api().vkCreateCommandPool(device_->handle(), &pool, nullptr, &batch->pool);
  if (result != VK_SUCCESS) {
    return device_->failed("vkCreateCommandPool", result);
  }
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = batch->pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  result = device_->api().vkAllocateCommandBuffers(device_->handle(), &info, &batch->commands);
  if (result != VK_SUCCESS) {
    device_->api().vkDestroyCommandPool(device_->handle(), batch->pool, nullptr);
    return device_->failed("vkAllocateCommandBuffers", result);
  }
  return batch;
}

// A batch begins with a barrier, which makes earlier writes visible. For kernels it is the barrier
// of the first dispatch.
Status CommandStream::open_batch(LaunchState launch) {
  if (has_open()) {
    return {};
  }
  if (has_failed()) {
    return failure();
  }
  HEARTH_TRY(std::unique_ptr<Batch> batch, take_batch());
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  const VkResult result = device_->api().vkBeginCommandBuffer(batch->commands, &begin);
  if (result != VK_SUCCESS) {
    free_.push_back(std::move(batch));
    return device_->failed("vkBeginCommandBuffer", result);
  }
  if (loop_word_ != 0) {
    device_->api().vkCmdPushConstants(batch->commands,
                                      layout_,
                                      VK_SHADER_STAGE_COMPUTE_BIT,
                                      static_cast<std::uint32_t>(gpu::kPushBytes),
                                      sizeof loop_word_,
                                      &loop_word_);
  }
  batch->value = open_value();
  if (work_ != Work::kernels) {
    record_barrier(*device_, batch->commands, false);
  }
  open_ = std::move(batch);
  open_count_ = 0;
  has_barrier_ = true;
  if (launch == LaunchState::continues) {
    hazards_.barrier();
  } else {
    hazards_.clear();
  }
  return {};
}

// A batch may have ended before its recorder thread publishes the submission; the wait keeps its
// times. submit() or a wait reports a loss.
std::vector<LaunchTime> CommandStream::take_times() {
  const Result<std::uint64_t> reached = completed();
  if (reached.has_value() && reached.value() > recorder_->done()) {
    static_cast<void>(settle(device_->wait_limit()));
  }
  static_cast<void>(retire());
  return clock_.take();
}

void CommandStream::wait_for(VkSemaphore semaphore, std::uint64_t value) {
  HEARTH_ASSERT(!has_open(), "a batch that is open cannot wait any more");
  waits_.push_back({semaphore, value});
}

// Continues a launch between two of its dispatches. The next batch begins with a barrier, and the
// launch's bytes still count.
Status CommandStream::continue_in_next_batch() {
  HEARTH_TRY_STATUS(flush());
  return open_batch(LaunchState::continues);
}

// The batch's launches count as issued, so later ones would read bytes that were never written. The
// caller therefore treats the device as lost.
void CommandStream::drop(std::unique_ptr<Batch> batch) {
  clock_.forget(std::exchange(batch->queries, {}));
  free_.push_back(std::move(batch));
}

Status CommandStream::flush(Recording recording) {
  if (!has_open()) {
    HEARTH_TRY_STATUS(pass_on_held());
    return has_failed() ? Status(failure()) : Status();
  }
  open_->waits = std::exchange(waits_, {});
  open_->parameters_end = ring_end_;
  open_->hangs = hangs_;
  if (has_failed()) {
    drop(std::move(open_));
    return failure();
  }
  if (shuffle_) [[unlikely]] {
    mix_dispatches();
    HEARTH_TRY_STATUS(pass_on_held());
  }
  const std::uint64_t value = open_->value;
  running_.push_back(std::move(open_));
  if (shuffle_ && recording == Recording::beside) [[unlikely]] {
    held_ = running_.back().get();
  } else {
    HEARTH_TRY_STATUS(pass_on(*running_.back(), recording));
  }
  submitted_ = value;
  return {};
}

Status CommandStream::pass_on(Batch& batch, Recording recording) {
  is_beside_ = recording == Recording::beside || is_shuffled();
  const bool is_here = !is_beside_ && recorder_->is_idle();
  if (!is_here && recorder_->hand_over(batch)) {
    return {};
  }
  is_beside_ = is_shuffled();
  Status status = recorder_->record(batch);
  if (!status.has_value()) {
    drop(std::move(running_.back()));
    running_.pop_back();
  }
  return status;
}

// No caller waits for the held batch without a flush() before.
Status CommandStream::pass_on_held() {
  Batch* const batch = std::exchange(held_, nullptr);
  return batch == nullptr ? Status() : pass_on(*batch, Recording::beside);
}

// ---- recording ----

void CommandStream::barrier() {
  has_barrier_ = true;
  hazards_.barrier();
}

Status CommandStream::begin_launch(std::span<const gpu::ByteSpan> reads,
                                   std::span<const gpu::ByteSpan> writes) {
  HEARTH_TRY_STATUS(open_batch());
  has_barrier_ = hazards_.begin(reads, writes) || has_barrier_;
  return {};
}

Status CommandStream::also_touches(std::span<const gpu::ByteSpan> reads,
                                   std::span<const gpu::ByteSpan> writes) {
  HEARTH_TRY_STATUS(open_batch());
  has_barrier_ = hazards_.also(reads, writes) || has_barrier_;
  return {};
}

Status CommandStream::dispatch(gpu::KernelHandle kernel,
                               const gpu::ParameterBlock& parameters,
                               gpu::Grid grid) {
  std::span<const std::byte> bytes = parameters.bytes();
  std::uint64_t address = 0;
  if (bytes.size() > gpu::kPushBytes) {
    HEARTH_TRY(address, store(bytes));
    bytes = std::as_bytes(std::span(&address, 1));
  }
  Dispatch& each = open_->dispatches.emplace_back();
  each.kernel = kernel;
  each.grid = grid;
  each.is_behind_barrier = std::exchange(has_barrier_, false);
  each.timed_as = timed_as_;
  if (timed_as_ != 0 && open_->queries.pool == VK_NULL_HANDLE) [[unlikely]] {
    open_->queries = clock_.begin(open_->commands);
  }
  each.parameter_bytes = static_cast<std::uint32_t>(bytes.size());
  std::ranges::copy(bytes, each.parameters.begin());
  if (!is_beside_) {
    recorder_->record_dispatches(*open_);  // now, not when a caller waits for the batch
  }
  ++open_count_;
  return {};
}

// Shuffles each section between two barriers; the second barrier may stand in the next batch.
void CommandStream::mix_dispatches() {
  std::vector<Dispatch*> section;
  const auto mix = [&] {
    for (std::size_t left = section.size(); left > 1; --left) {
      Dispatch& last = *section[left - 1];
      Dispatch& other = *section[(*shuffle_)() % left];
      std::swap(last, other);
      std::swap(last.is_behind_barrier, other.is_behind_barrier);  // the barrier stays in its place
    }
    section.clear();
  };
  if (held_ != nullptr && open_->waits.empty()) {
    std::vector<Dispatch>& before = held_->dispatches;
    for (auto each = before.rbegin(); each != before.rend(); ++each) {
      section.push_back(&*each);
      if (each->is_behind_barrier) {
        break;
      }
    }
  }
  for (Dispatch& each : open_->dispatches) {
    if (each.is_behind_barrier) {
      mix();
    }
    section.push_back(&each);
  }
  mix();
}

// A piece never crosses the end of the ring. Room that the open batch has filled returns only after
// that batch has run. A launch of very many dispatches therefore continues in another batch.
Result<std::uint64_t> CommandStream::store(std::span<const std::byte> parameters) {
  const auto size = static_cast<std::uint64_t>(ring_.size_bytes());
  const std::uint64_t needed =
      (parameters.size() + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
  std::uint64_t begin = ring_end_;
  if (begin % size + needed > size) {
    begin += size - begin % size;
  }
  while (begin + needed - ring_begin_ > size) {
    if (running_.empty()) {
      HEARTH_TRY_STATUS(continue_in_next_batch());
    }
    HEARTH_TRY_STATUS(wait_for_oldest());
  }
  ring_end_ = begin + needed;
  std::memcpy(ring_.host() + begin % size, parameters.data(), parameters.size());
  return ring_.address() + begin % size;
}

Status CommandStream::copy(VkBuffer from,
                           std::int64_t from_offset_bytes,
                           VkBuffer to,
                           std::int64_t to_offset_bytes,
                           std::int64_t size_bytes) {
  HEARTH_TRY_STATUS(open_batch());
  VkBufferCopy region{};
  region.srcOffset = static_cast<VkDeviceSize>(from_offset_bytes);
  region.dstOffset = static_cast<VkDeviceSize>(to_offset_bytes);
  region.size = static_cast<VkDeviceSize>(size_bytes);
  device_->api().vkCmdCopyBuffer(open_->commands, from, to, 1, &region);
  ++open_count_;
  return {};
}

}  // namespace hearth::vulkan
