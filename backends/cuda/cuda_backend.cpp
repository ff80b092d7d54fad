#include <hearth/backends/cuda/cuda_backend.hpp>

#include <utility>

#include <fmt/format.h>

#include "backends/gpu/gpu_backend.hpp"
#include "cuda_gpu.hpp"

namespace hearth::cuda {

Result<std::unique_ptr<Backend>> CudaBackend::open(CudaOptions options) {
  HEARTH_TRY(std::shared_ptr<const CudaDevice> device,
             CudaDevice::open(options.name,
                              options.index,
                              {.library_folder = options.library_folder,
                               .wait_limit = options.wait_limit,
                               .interprets_always = options.interprets_always,
                               .lost_at_call = options.faults.lost_at_call,
                               .refused_at_call = options.faults.refused_at_call}));
  return gpu::GpuBackend::open(std::make_shared<const CudaGpu>(std::move(device)),
                               {.executor = options.executor,
                                .compiles_beside = options.compiles_beside,
                                .log = options.log,
                                .faults = std::move(options.faults),
                                .staging = options.staging,
                                .wait_limit = options.wait_limit,
                                .shuffle_seed = std::nullopt});
}

Result<std::vector<CudaDeviceInfo>> cuda_devices(const std::string& library_folder) {
  HEARTH_TRY(const std::shared_ptr<const DriverApi> api, DriverApi::open(library_folder));
  HEARTH_TRY(const std::vector<ListedDevice> devices, list_devices(*api));
  const Result<std::shared_ptr<const NvrtcApi>> nvrtc = NvrtcApi::open(library_folder);
  std::vector<CudaDeviceInfo> out;
  for (const ListedDevice& device : devices) {
    CudaDeviceInfo& info = out.emplace_back();
    info.name = device.name;
    info.driver = fmt::format("CUDA {}.{}", api->version / 1000, api->version % 1000 / 10);
    if (nvrtc.has_value()) {
      info.driver += fmt::format(", NVRTC {}.{} of {}",
                                 nvrtc.value()->version / 1000,
                                 nvrtc.value()->version % 1000 / 10,
                                 nvrtc.value()->file);
    } else {
      info.lack = nvrtc.error().text;
    }
  }
  return out;
}

}  // namespace hearth::cuda
