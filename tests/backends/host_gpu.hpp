// A GpuDevice in host memory, for tests of gpu's backend. Each kernel adds two f32 operands element
// by element. Batches run when the backend submits them, or when let_go_on() runs them.
// Threads: one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/gpu/device/gpu_device.hpp"

namespace hearth::gpu::testing {

/// State that the parts of one device share, and that a test reads and changes.
struct HostGpuState {
  bool holds = false;                     ///< Submitted batches wait for let_go_on().
  bool is_lost = false;                   ///< Each call of the driver reports the loss.
  std::string flaw = {};                  ///< GpuDevice::flaw().
  int pieces = 0;                         ///< Pieces of memory that exist.
  int drains = 0;                         ///< Calls of drain().
  std::vector<std::string> texts = {};    ///< Compiled texts.
  std::vector<bool> barriers = {};        ///< Per dispatch that ran: it stood behind one.
  std::vector<std::size_t> batches = {};  ///< Dispatches of each batch of kernels that ran.
  std::size_t copies = 0;                 ///< Copies that ran.

  [[nodiscard]] static Error lost() {
    return {.code = ErrorCode::device_lost, .text = "host:0: lost", .device = "host:0"};
  }
};

class HostPiece final : public MemoryPiece {
 public:
  HostPiece(std::shared_ptr<HostGpuState> state,
            std::unique_ptr<std::byte[]> memory,
            std::int64_t size_bytes,
            bool is_mapped)
      : MemoryPiece({.address = word_of(memory.get()), .host = is_mapped ? memory.get() : nullptr},
                    size_bytes,
                    word_of(memory.get())),
        state_(std::move(state)),
        memory_(std::move(memory)) {
    ++state_->pieces;
  }
  HostPiece(const HostPiece&) = delete;
  HostPiece& operator=(const HostPiece&) = delete;
  ~HostPiece() override { --state_->pieces; }

 private:
  [[nodiscard]] static std::uint64_t word_of(std::byte* memory) noexcept {
    return reinterpret_cast<std::uintptr_t>(memory);  // NOLINT: an address as a number
  }

  std::shared_ptr<HostGpuState> state_;
  std::unique_ptr<std::byte[]> memory_;
};

/// Compiles every text to a kernel that adds.
class HostCompiler final : public KernelCompiler {
 public:
  explicit HostCompiler(std::shared_ptr<HostGpuState> state) : state_(std::move(state)) {}

  [[nodiscard]] const CompilerIdentity& identity() const noexcept override { return identity_; }
  [[nodiscard]] std::string whole_text(KernelFamily /*family*/, std::string text) const override {
    return text;
  }
  [[nodiscard]] Result<KernelModule> compile(KernelFamily /*family*/,
                                             const std::string& text) const override {
    state_->texts.push_back(text);
    return KernelModule{static_cast<std::uint32_t>(state_->texts.size())};
  }
  [[nodiscard]] Status check(KernelFamily /*family*/,
                             const KernelModule& /*module*/) const override {
    return {};
  }
  [[nodiscard]] Result<KernelHandle> load(const KernelModule& module) override {
    return static_cast<KernelHandle>(module.front());
  }
  void open_cache(const std::filesystem::path& /*folder*/) override {}
  void add_unsaved(CacheSave& /*to*/) override {}

 private:
  std::shared_ptr<HostGpuState> state_;
  CompilerIdentity identity_{.device = "host:0",
                             .folder = "host",
                             .modules = "modules",
                             .card = "host",
                             .options = "",
                             .compiler = 1};
};

class HostQueue final : public Queue {
 public:
  explicit HostQueue(std::shared_ptr<HostGpuState> state) : state_(std::move(state)) {}

  [[nodiscard]] const std::string& device_name() const noexcept override { return name_; }
  [[nodiscard]] Result<std::unique_ptr<BatchObjects>> make_objects() override {
    return std::make_unique<BatchObjects>();
  }
  [[nodiscard]] Status begin(Batch& /*batch*/) override { return {}; }
  void record(Batch& batch) override { batch.recorded = batch.dispatches.size(); }
  [[nodiscard]] Status run(Batch& batch) override {
    if (state_->is_lost) {
      return HostGpuState::lost();
    }
    if (!batch.hangs) {
      waiting_.push_back(&batch);
    }
    if (!state_->holds) {
      static_cast<void>(step());
    }
    return {};
  }
  [[nodiscard]] Result<std::uint64_t> completed() const override {
    return state_->is_lost ? Result<std::uint64_t>(HostGpuState::lost())
                           : Result<std::uint64_t>(reached_);
  }
  [[nodiscard]] Status wait_until(std::uint64_t value) const override {
    return reached_ >= value ? Status()
                             : Status(Error{.code = ErrorCode::deadline_exceeded, .text = "held"});
  }
  [[nodiscard]] Error abandon(std::string_view /*call*/) const override {
    return HostGpuState::lost();
  }
  void time(Batch& /*batch*/) override {}
  void read_times(Batch& batch) override {
    for (const Dispatch& each : batch.dispatches) {
      times_.push_back({.number = each.timed_as});
    }
  }
  void forget_times(Batch& /*batch*/) noexcept override {}
  [[nodiscard]] std::vector<LaunchTime> take_times() override { return std::exchange(times_, {}); }

  /// Runs the next batch if its waits have come. Returns whether it did.
  bool step() {
    if (waiting_.empty()) {
      return false;
    }
    const Batch& batch = *waiting_.front();
    for (const QueueValue& wait : batch.waits) {
      if (wait.queue->completed().value() < wait.value) {
        return false;
      }
    }
    waiting_.pop_front();
    execute(batch);
    reached_ = batch.value;
    return true;
  }

 private:
  void execute(const Batch& batch) {
    for (const Dispatch& each : batch.dispatches) {
      state_->barriers.push_back(each.is_behind_barrier);
      add(each.parameters.data());
    }
    if (!batch.dispatches.empty()) {
      state_->batches.push_back(batch.dispatches.size());
    }
    for (const Copy& copy : batch.copies) {
      ++state_->copies;
      std::memcpy(memory_at(copy.to.piece) + copy.to.offset_bytes,
                  memory_at(copy.from.piece) + copy.from.offset_bytes,
                  static_cast<std::size_t>(copy.size_bytes));
    }
  }
  // The parameters of a pointwise kernel over contiguous operands: two inputs, a result, a count.
  static void add(const std::byte* parameters) {
    std::uint64_t address[3];
    std::int32_t count = 0;
    std::memcpy(address, parameters, sizeof address);
    std::memcpy(&count, parameters + sizeof address, sizeof count);
    for (std::int32_t i = 0; i < count; ++i) {
      float x = 0;
      float y = 0;
      const std::size_t at = sizeof x * static_cast<std::size_t>(i);
      std::memcpy(&x, memory_at(address[0]) + at, sizeof x);
      std::memcpy(&y, memory_at(address[1]) + at, sizeof y);
      x += y;
      std::memcpy(memory_at(address[2]) + at, &x, sizeof x);
    }
  }
  [[nodiscard]] static std::byte* memory_at(std::uint64_t address) noexcept {
    return reinterpret_cast<std::byte*>(address);  // NOLINT: host memory
  }

  std::shared_ptr<HostGpuState> state_;
  const std::string name_ = "host:0";
  std::uint64_t reached_ = 0;
  std::deque<const Batch*> waiting_;
  std::vector<LaunchTime> times_;
};

class HostGpu final : public GpuDevice {
 public:
  explicit HostGpu(bool is_unified) : compiler_(std::make_shared<HostCompiler>(state_)) {
    facts_ = {.name = "host:0",
              .card = "host memory",
              .description = "a GPU in host memory",
              .fingerprint = "host",
              .limits = {},
              .memory_bytes = std::int64_t{1} << 30,
              .largest_piece_bytes = std::int64_t{1} << 28,
              .is_unified = is_unified};
  }

  [[nodiscard]] const DeviceFacts& facts() const noexcept override { return facts_; }
  [[nodiscard]] std::shared_ptr<KernelCompiler> compiler() const override { return compiler_; }
  [[nodiscard]] Result<std::shared_ptr<Queue>> make_queue(QueueWork /*work*/) const override {
    auto queue = std::make_shared<HostQueue>(state_);
    queues_.push_back(queue);
    return std::shared_ptr<Queue>(std::move(queue));
  }
  [[nodiscard]] Result<std::unique_ptr<MemoryPiece>> make_memory(std::int64_t size_bytes,
                                                                 MemoryPlace place) const override {
    const bool is_mapped = place != MemoryPlace::device || facts_.is_unified;
    return std::unique_ptr<MemoryPiece>(std::make_unique<HostPiece>(
        state_,
        std::make_unique<std::byte[]>(static_cast<std::size_t>(size_bytes)),
        size_bytes,
        is_mapped));
  }
  /// Returns at once: only let_go_on() ends a batch that is held.
  [[nodiscard]] Result<bool> wait(std::span<const QueueValue> values,
                                  WaitFor how,
                                  std::chrono::nanoseconds /*limit*/) const override {
    std::size_t reached = 0;
    for (const QueueValue& each : values) {
      HEARTH_TRY(const std::uint64_t value, each.queue->completed());
      reached += value >= each.value ? 1U : 0U;
    }
    return how == WaitFor::any ? reached > 0 : reached == values.size();
  }
  void drain() const noexcept override { ++state_->drains; }
  [[nodiscard]] bool is_abandoned() const noexcept override { return false; }
  [[nodiscard]] std::string fault_text() const override { return "the test wants it"; }
  [[nodiscard]] std::string_view flaw() const noexcept override { return state_->flaw; }
  [[nodiscard]] AbandonedObjects& abandoned_objects() const noexcept override {
    return *abandoned_objects_;
  }

  [[nodiscard]] HostGpuState& state() const noexcept { return *state_; }
  /// Objects that closed backends left, which outlive the device.
  [[nodiscard]] std::shared_ptr<AbandonedObjects> left() const noexcept {
    return abandoned_objects_;
  }
  /// Runs the submitted batches, as far as their waits allow.
  void let_go_on() const {
    bool has_run = true;
    while (has_run) {
      has_run = false;
      for (const std::weak_ptr<HostQueue>& each : queues_) {
        const std::shared_ptr<HostQueue> queue = each.lock();
        has_run = (queue != nullptr && queue->step()) || has_run;
      }
    }
  }

 private:
  const std::shared_ptr<HostGpuState> state_ = std::make_shared<HostGpuState>();
  const std::shared_ptr<AbandonedObjects> abandoned_objects_ = std::make_shared<AbandonedObjects>();
  std::shared_ptr<HostCompiler> compiler_;
  DeviceFacts facts_;
  mutable std::vector<std::weak_ptr<HostQueue>> queues_;
};

}  // namespace hearth::gpu::testing
