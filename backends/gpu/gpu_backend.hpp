// The backend of a GPU, over any GpuDevice. It encodes kernels into batches, which begin at flush()
// or at a length; copies run beside them. Points of kOpStream are numbers of batches.
// Threads: as Backend.
// Invariants: (1) once the device is lost, all calls return the loss; (2) memory is freed only when
// no work runs any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/gpu/staging_options.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/runtime/base/log.hpp>

#include "backends/gpu/device/gpu_device.hpp"

namespace hearth::gpu {

struct GpuOptions {
  /// Runs the threads that compile, and record batches, while the device goes on; null: no threads.
  /// Outlives the backend.
  hearth::detail::Executor* executor = nullptr;
  bool compiles_beside = true;  ///< False: compiles each kernel where it is first needed.
  /// Receives the objects that the close abandons. Outlives the backend.
  hearth::detail::Log* log = nullptr;
  /// Uses lost_at_submit, hanging_submit and failing_compiles. The device itself plans
  /// lost_at_call.
  FaultPlan faults = {};
  StagingOptions staging = {};
  /// Longest wait of the owner's thread for work that does not progress.
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  /// For tests: seed of LaunchStream::shuffle().
  std::optional<std::uint64_t> shuffle_seed = {};
};

class GpuBackend final : public Backend, public KernelMaker, public CopyEngine, public BatchTimes {
 public:
  /// Errors: out_of_memory; those of the device.
  [[nodiscard]] static Result<std::unique_ptr<Backend>> open(
      std::shared_ptr<const GpuDevice> device, GpuOptions options);
  GpuBackend(const GpuBackend&) = delete;
  GpuBackend& operator=(const GpuBackend&) = delete;
  /// Waits for submitted work, unless drain() already did.
  ~GpuBackend() override;

  [[nodiscard]] const BackendInfo& info() const noexcept override;
  [[nodiscard]] PageProvider& pages() noexcept override;
  [[nodiscard]] const KernelFacts& facts() const noexcept override;
  [[nodiscard]] KernelMaker& kernels() noexcept override { return *this; }
  [[nodiscard]] CopyEngine& copies() noexcept override { return *this; }
  [[nodiscard]] BatchTimes* times() noexcept override { return this; }
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  [[nodiscard]] Status prepare(const KernelCall& call) override;
  void precompile(const KernelCall& call) override;
  [[nodiscard]] bool has_kernel(const KernelCall& call) override;
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override;
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> after) override;
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> after) override;
  void forget_target(std::span<std::byte> target) noexcept override;
  [[nodiscard]] TimelinePoint newest_copy(std::uint8_t stream) const noexcept override;
  void use_scratch(ScratchMemory& scratch) noexcept override;
  [[nodiscard]] Status flush() override;
  [[nodiscard]] HostBytes host_bytes(std::size_t size) override;
  [[nodiscard]] std::int64_t pinned_bytes() const noexcept override;
  std::int64_t trim() noexcept override;
  [[nodiscard]] std::uint64_t completed(std::uint8_t stream) noexcept override;
  [[nodiscard]] Status wait(std::span<const TimelinePoint> any_of, Deadline deadline) override;
  void drain() noexcept override;
  [[nodiscard]] Status cell_status(ErrorCell cell) override;
  [[nodiscard]] CompileCounts compile_counts() const noexcept override;
  [[nodiscard]] std::vector<LaunchTime> take_launch_times() override;

 private:
  struct Parts;

  explicit GpuBackend(std::unique_ptr<Parts> parts) noexcept;

  std::unique_ptr<Parts> parts_;
};

}  // namespace hearth::gpu
