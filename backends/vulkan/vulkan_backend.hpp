// The backend of a Vulkan device, as one function that opens it: gpu's backend over the device.
// Threads: as Backend.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/gpu/staging_options.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/runtime/base/log.hpp>

namespace hearth::vulkan {

using StagingOptions = gpu::StagingOptions;

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
  /// For tests: pointwise kernels run by the interpreter (gpu/pointwise/interpreter.hpp), if it
  /// can.
  bool interprets_always = false;
};

/// Description of a physical device.
struct VulkanDeviceInfo {
  std::string name;    ///< "NVIDIA H200"
  std::string driver;  ///< "NVIDIA 580.159.04"
  std::string uuid;    ///< 32 hexadecimal digits, equal to those that CUDA has for the card.
  bool is_cpu = false;
  std::string lack;  ///< Reason why the device is unusable; empty if it is usable.
};

/// Lists the physical devices of this machine, each once, real GPUs first; or those that
/// HEARTH_VULKAN_DEVICES names.
/// Errors: not_found, without a loader or a driver.
[[nodiscard]] Result<std::vector<VulkanDeviceInfo>> vulkan_devices();

class VulkanBackend final {
 public:
  VulkanBackend() = delete;
  /// Errors: not_found, unsupported, out_of_memory, with a sentence for the user.
  [[nodiscard]] static Result<std::unique_ptr<Backend>> open(VulkanOptions options);
};

}  // namespace hearth::vulkan
