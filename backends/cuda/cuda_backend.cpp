#include <hearth/backends/cuda/cuda_backend.hpp>

#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/settings.hpp>

#include "backends/cuda/driver/cublaslt_api.hpp"
#include "backends/gpu/gpu_backend.hpp"
#include "cuda_gpu.hpp"

namespace hearth::cuda {

namespace {

// The folders of the options, or else those of the environment.
std::string library_folders(const std::string& of_options) {
  using hearth::detail::Setting;
  return of_options.empty() ? hearth::detail::Settings::from_environment()
                                  .text(Setting::cuda_library_path)
                                  .value_or("")
                            : of_options;
}

// As the warning of the first product.
std::string lack_of_products(const std::string& folders) {
  const Result<std::shared_ptr<const CublasLtApi>> products = CublasLtApi::open(folders);
  return products.has_value()
             ? ""
             : fmt::format("slower kernels of Hearth run its products: {}", products.error().text);
}

}  // namespace

Result<std::unique_ptr<Backend>> CudaBackend::open(CudaOptions options) {
  HEARTH_TRY(std::shared_ptr<const CudaDevice> device,
             CudaDevice::open(options.name,
                              options.index,
                              {.nvidia_folders = library_folders(options.nvidia_folders),
                               .wait_limit = options.wait_limit,
                               .allows_tf32 = options.allows_tf32,
                               .interprets_always = options.interprets_always,
                               .lost_at_call = options.faults.lost_at_call,
                               .refused_at_call = options.faults.refused_at_call}));
  HEARTH_TRY(std::shared_ptr<CudaCompiler> compiler, CudaCompiler::make(device, options.log));
  return gpu::GpuBackend::open(
      std::make_shared<const CudaGpu>(std::move(device), std::move(compiler), options.log),
      {.executor = options.executor,
       .compiles_beside = options.compiles_beside,
       .log = options.log,
       .faults = std::move(options.faults),
       .staging = options.staging,
       .wait_limit = options.wait_limit,
       .shuffle_seed = std::nullopt});
}

Result<std::vector<CudaDeviceInfo>> cuda_devices(const CudaDeviceQuery& query) {
  const std::string folders = library_folders(query.nvidia_folders);
  HEARTH_TRY(const std::shared_ptr<const DriverApi> api, DriverApi::open(folders));
  HEARTH_TRY(const std::vector<ListedDevice> devices, list_devices(*api));
  const Result<std::shared_ptr<const NvrtcApi>> nvrtc = NvrtcApi::open(folders);
  const std::string note =
      query.looks_for_products && nvrtc.has_value() ? lack_of_products(folders) : "";
  std::vector<CudaDeviceInfo> out;
  for (const ListedDevice& device : devices) {
    CudaDeviceInfo& info = out.emplace_back();
    info.name = device.name;
    info.uuid = device.uuid;
    info.driver = fmt::format("CUDA {}.{}", api->version / 1000, api->version % 1000 / 10);
    info.lack = device.lack;
    if (!nvrtc.has_value()) {
      info.lack = device.lack.empty() ? nvrtc.error().text : device.lack;
      continue;
    }
    info.driver += fmt::format(", NVRTC {}.{} of {}",
                               nvrtc.value()->version / 1000,
                               nvrtc.value()->version % 1000 / 10,
                               nvrtc.value()->file);
    if (info.lack.empty()) {
      info.lack = nvrtc.value()->lack_for(device.architecture, device.name);
    }
    info.note = info.lack.empty() ? note : "";
  }
  return out;
}

}  // namespace hearth::cuda
