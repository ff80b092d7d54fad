// Numbers CUDA's devices: all that the driver shows, or those that HEARTH_CUDA_DEVICES names, in
// its order. A card may stand there twice, for two devices on it. Threads: any.
#pragma once

#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "backends/cuda/driver/cuda_api.hpp"

namespace hearth::cuda {

/// A device as the driver lists it.
struct ListedDevice {
  CUdevice handle = 0;
  std::string name;       ///< "NVIDIA H200"
  std::string uuid;       ///< 32 hexadecimal digits, as Vulkan's.
  int architecture = 0;   ///< 90 is sm_90.
  std::string lack = {};  ///< Reason why the card is too old; empty if it is not.
};

/// Errors: not_found, with the reason; invalid_argument, if HEARTH_CUDA_DEVICES names a missing
/// device.
[[nodiscard]] Result<std::vector<ListedDevice>> list_devices(const DriverApi& api);

/// "cuda:0 is NVIDIA H200, cuda:1 is ..."
[[nodiscard]] std::string describe(const std::vector<ListedDevice>& devices);

}  // namespace hearth::cuda
