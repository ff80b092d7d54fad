// The backend of a CUDA device, as one function that opens it: gpu's backend over the device. A
// build needs nothing of NVIDIA's; the libraries are found at run time. Threads: as Backend.
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

namespace hearth::cuda {

struct CudaOptions {
  std::string name = "cuda:0";
  int index = 0;  ///< Number of the device, in the order of cuda_devices().
  /// Folders of NVIDIA's libraries, with colons between them; looked through before the usual ones.
  /// Empty: those of HEARTH_CUDA_LIBRARY_PATH.
  std::string nvidia_folders = {};
  /// Runs the threads that compile, and record batches, while the device goes on; null: no threads.
  /// Outlives the backend.
  hearth::detail::Executor* executor = nullptr;
  bool compiles_beside = true;  ///< False: compiles each kernel where it is first needed.
  /// Receives the lack of cuBLASLt, and the objects that the close abandons. Outlives the backend.
  hearth::detail::Log* log = nullptr;
  /// Uses lost_at_submit, lost_at_call, refused_at_call, hanging_submit and failing_compiles.
  FaultPlan faults = {};
  gpu::StagingOptions staging = {};
  /// Longest wait of the owner's thread for work that does not progress.
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  bool allows_tf32 = false;  ///< May round factors of f32 products (RuntimeOptions::allow_tf32).
  /// For tests: pointwise kernels run by the interpreter, if it can.
  bool interprets_always = false;
};

/// Description of a device.
struct CudaDeviceInfo {
  std::string name;    ///< "NVIDIA H200"
  std::string driver;  ///< "CUDA 13.0, NVRTC 13.0 of libnvrtc.so.13"
  std::string uuid;    ///< 32 hexadecimal digits, equal to those that Vulkan has for the card.
  std::string lack;  ///< Reason why the device is unusable, with the remedy; empty if it is usable.
  std::string note;  ///< What a usable device does without, with the remedy; empty: nothing.
};

struct CudaDeviceQuery {
  std::string nvidia_folders = {};  ///< As in CudaOptions.
  /// Loads cuBLASLt, which takes a third of a second, to note its absence.
  bool looks_for_products = false;
};

/// Lists the devices that CUDA's driver shows, or those that HEARTH_CUDA_DEVICES names.
/// Errors: not_found, without a driver; invalid_argument, if HEARTH_CUDA_DEVICES names a missing
/// device.
[[nodiscard]] Result<std::vector<CudaDeviceInfo>> cuda_devices(const CudaDeviceQuery& query = {});

class CudaBackend final {
 public:
  CudaBackend() = delete;
  /// Errors: not_found, unsupported, out_of_memory, with a sentence for the user.
  [[nodiscard]] static Result<std::unique_ptr<Backend>> open(CudaOptions options);
};

}  // namespace hearth::cuda
