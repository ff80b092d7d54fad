#include "launch_stream.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <hearth/runtime/base/assert.hpp>

#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

constexpr std::uint64_t kParameterAlignment = 16;

}  // namespace

LaunchStream::LaunchStream(std::shared_ptr<Queue> queue, StreamTerms terms)
    : queue_(std::move(queue)), ring_(queue_->parameter_ring()), terms_(std::move(terms)) {
  recorder_ = std::make_unique<BatchRecorder>(queue_, terms_.recorder);
}

LaunchStream::~LaunchStream() {
  recorder_.reset();  // its thread holds some of the batches
  const auto forget = [&](const std::unique_ptr<Batch>& batch) {
    if (batch != nullptr && batch->is_timed) {
      queue_->forget_times(*batch);
    }
  };
  forget(open_);
  std::ranges::for_each(running_, forget);
}

// ---- batches ----

// A batch may have ended on the device while its recorder thread still holds it.
Status LaunchStream::retire() {
  if (running_.empty()) {
    return {};
  }
  HEARTH_TRY(const std::uint64_t reached, completed());
  const std::uint64_t ended = std::min(reached, recorder_->done());
  while (!running_.empty() && running_.front()->value <= ended) {
    Batch& batch = *running_.front();
    ring_begin_ = batch.parameters_end;
    if (std::exchange(batch.is_timed, false)) [[unlikely]] {
      queue_->read_times(batch);
    }
    free_.push_back(std::move(running_.front()));
    running_.pop_front();
  }
  return {};
}

Status LaunchStream::wait_for_oldest() {
  if (running_.empty()) {
    return {};
  }
  HEARTH_TRY_STATUS(pass_on_held());
  HEARTH_TRY_STATUS(settle(terms_.wait_limit));
  HEARTH_TRY_STATUS(queue_->wait_until(running_.front()->value));
  return retire();
}

Result<std::unique_ptr<Batch>> LaunchStream::take_batch() {
  HEARTH_TRY_STATUS(retire());
  if (!free_.empty()) {
    std::unique_ptr<Batch> batch = std::move(free_.back());
    free_.pop_back();
    batch->dispatches.clear();
    batch->copies.clear();
    batch->recorded = 0;
    return batch;
  }
  auto batch = std::make_unique<Batch>();
  HEARTH_TRY(batch->objects, queue_->make_objects());
  return batch;
}

// A batch begins with a barrier, which makes earlier writes visible: that of its first dispatch.
Status LaunchStream::open_batch(LaunchState launch) {
  if (has_open()) {
    return {};
  }
  if (has_failed()) {
    return failure();
  }
  HEARTH_TRY(std::unique_ptr<Batch> batch, take_batch());
  if (Status status = queue_->begin(*batch); !status.has_value()) {
    free_.push_back(std::move(batch));
    return status;
  }
  batch->value = open_value();
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
std::vector<LaunchTime> LaunchStream::take_times() {
  const Result<std::uint64_t> reached = completed();
  if (reached.has_value() && reached.value() > recorder_->done()) {
    static_cast<void>(settle(terms_.wait_limit));
  }
  static_cast<void>(retire());
  return queue_->take_times();
}

void LaunchStream::wait_for(const Queue& queue, std::uint64_t value) {
  HEARTH_ASSERT(!has_open(), "a batch that is open cannot wait any more");
  waits_.push_back({&queue, value});
}

// Continues a launch between two of its dispatches. The next batch begins with a barrier, and the
// launch's bytes still count.
Status LaunchStream::continue_in_next_batch() {
  HEARTH_TRY_STATUS(flush());
  return open_batch(LaunchState::continues);
}

// The batch's launches count as issued, so later ones would read bytes that were never written. The
// caller therefore treats the device as lost.
void LaunchStream::drop(std::unique_ptr<Batch> batch) {
  if (std::exchange(batch->is_timed, false)) {
    queue_->forget_times(*batch);
  }
  free_.push_back(std::move(batch));
}

Status LaunchStream::flush(Recording recording) {
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

Status LaunchStream::pass_on(Batch& batch, Recording recording) {
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
Status LaunchStream::pass_on_held() {
  Batch* const batch = std::exchange(held_, nullptr);
  return batch == nullptr ? Status() : pass_on(*batch, Recording::beside);
}

// ---- recording ----

void LaunchStream::barrier() {
  has_barrier_ = true;
  hazards_.barrier();
}

Status LaunchStream::begin_launch(std::span<const ByteSpan> reads,
                                  std::span<const ByteSpan> writes) {
  HEARTH_TRY_STATUS(open_batch());
  has_barrier_ = hazards_.begin(reads, writes) || has_barrier_;
  return {};
}

Status LaunchStream::also_touches(std::span<const ByteSpan> reads,
                                  std::span<const ByteSpan> writes) {
  HEARTH_TRY_STATUS(open_batch());
  has_barrier_ = hazards_.also(reads, writes) || has_barrier_;
  return {};
}

Status LaunchStream::dispatch(KernelHandle kernel, const ParameterBlock& parameters, Grid grid) {
  std::span<const std::byte> bytes = parameters.bytes();
  std::uint64_t address = 0;
  const bool is_in_ring = bytes.size() > kPushBytes;
  if (is_in_ring) {
    HEARTH_TRY(address, store(bytes));
    bytes = std::as_bytes(std::span(&address, 1));
  }
  Dispatch& each = add_dispatch(bytes);
  each.kernel = kernel;
  each.call = nullptr;
  each.grid = grid;
  each.is_in_ring = is_in_ring;
  if (!is_beside_) {
    queue_->record(*open_);  // now, not when a caller waits for the batch
  }
  ++open_count_;
  return {};
}

Status LaunchStream::dispatch(const LibraryCall& call, const ParameterBlock& parameters) {
  Dispatch& each = add_dispatch(parameters.bytes());
  each.kernel = KernelHandle::none;
  each.call = &call;
  each.grid = {};
  each.is_in_ring = false;
  ++open_count_;
  return {};
}

// Adds a dispatch of the current launch, but for what it runs.
Dispatch& LaunchStream::add_dispatch(std::span<const std::byte> parameters) {
  Dispatch& each = open_->dispatches.emplace_back();
  each.is_behind_barrier = std::exchange(has_barrier_, false);
  each.timed_as = timed_as_;
  if (timed_as_ != 0 && !std::exchange(open_->is_timed, true)) [[unlikely]] {
    queue_->time(*open_);
  }
  each.parameter_bytes = static_cast<std::uint32_t>(parameters.size());
  std::ranges::copy(parameters, each.parameters.begin());
  return each;
}

// Shuffles each section between two barriers; the second barrier may stand in the next batch.
void LaunchStream::mix_dispatches() {
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
Result<std::uint64_t> LaunchStream::store(std::span<const std::byte> parameters) {
  const auto size = static_cast<std::uint64_t>(ring_.size_bytes);
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
  std::memcpy(ring_.bytes.host + begin % size, parameters.data(), parameters.size());
  return ring_.bytes.address + begin % size;
}

Status LaunchStream::copy(CopyPlace from, CopyPlace to, std::int64_t size_bytes) {
  HEARTH_TRY_STATUS(open_batch());
  open_->copies.push_back({from, to, size_bytes});
  ++open_count_;
  return {};
}

}  // namespace hearth::gpu
