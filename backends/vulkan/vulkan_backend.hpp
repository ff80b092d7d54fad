// The backend of a Vulkan device. It encodes kernels into batches, which begin at flush() or at a
// length; copies run beside them. Points of kOpStream are numbers of batches.
// Threads: as Backend.
// Invariants: (1) once the device is lost, all calls return the loss; (2) memory is freed only when
// no work runs any more.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/runtime/base/log.hpp>

namespace hearth::vulkan {

/// Staging memory of copies.
struct StagingOptions {
  /// Size of each direction's ring. Bench: hearth-gpu-staging.
  std::int64_t ring_bytes = std::int64_t{64} << 20;
  /// Bytes copied at a time, at most half of the ring; other lanes get a turn between two pieces.
  std::int64_t piece_bytes = std::int64_t{8} << 20;
  int threads = 1;  ///< Number of host threads that copy a piece.
};

struct VulkanOptions {
  std::string name = "vulkan:0";
  int index = 0;  ///< Number of the physical device, in the order of vulkan_devices().
  /// Runs the threads that compile, and record batches, while the device goes on; null: no threads.
  /// Outlives the backend.
  hearth::detail::Executor* executor = nullptr;
  bool compiles_beside = true;  ///< False: compiles each shader where it is first needed.
  /// Receives the objects that the close abandons. Outlives the backend.
  hearth::detail::Log* log = nullptr;
  /// Uses lost_at_submit, lost_at_call, refused_at_call, hanging_submit and failing_compiles.
  FaultPlan faults = {};
  StagingOptions staging = {};
  /// Longest wait of the owner's thread for work that does not progress.
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  bool allows_f16_sums =
      false;  ///< May sum products of f16 in f16 (RuntimeOptions::allow_f16_sums).
  /// For tests: pointwise kernels run by the interpreter (kernels/interpreter.hpp), if it can.
  bool interprets_always = false;
};

/// Description of a physical device.
struct VulkanDeviceInfo {
  std::string name;    ///< "NVIDIA H200"
  std::string driver;  ///< "NVIDIA 580.159.04"
  bool is_cpu = false;
  std::string lack;  ///< Reason why the device is unusable; empty if it is usable.
};

/// Lists the physical devices of this machine, each once, real GPUs first; or those that
/// HEARTH_VULKAN_DEVICES names.
/// Errors: not_found, without a loader or a driver.
[[nodiscard]] Result<std::vector<VulkanDeviceInfo>> vulkan_devices();

class VulkanBackend final : public Backend,
                            public KernelMaker,
                            public CopyEngine,
                            public BatchTimes {
 public:
  /// Errors: not_found, unsupported, out_of_memory, with a sentence for the user.
  [[nodiscard]] static Result<std::unique_ptr<Backend>> open(VulkanOptions options);
  VulkanBackend(const VulkanBackend&) = delete;
  VulkanBackend& operator=(const VulkanBackend&) = delete;
  /// Waits for submitted work, unless drain() already did.
  ~VulkanBackend() override;

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

  explicit VulkanBackend(std::unique_ptr<Parts> parts) noexcept;

  std::unique_ptr<Parts> parts_;
};

}  // namespace hearth::vulkan
