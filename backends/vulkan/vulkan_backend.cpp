#include <hearth/backends/vulkan/vulkan_backend.hpp>

#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/settings.hpp>

#include "backends/gpu/gpu_backend.hpp"
#include "backends/vulkan/device/physical_list.hpp"
#include "vulkan_gpu.hpp"

namespace hearth::vulkan {
namespace {

Result<std::shared_ptr<const VulkanDevice>> open_device(const VulkanOptions& options) {
  Result<PhysicalList> shown = list_physical();
  if (!shown.has_value()) {
    Error error = shown.error();
    if (error.code == ErrorCode::not_found) {
      error.text = fmt::format("no device '{}': {}", options.name, error.text);
    }
    error.device = options.name;
    return error;
  }
  const PhysicalList list = std::move(shown).value();
  const auto index = static_cast<std::size_t>(options.index);
  if (index >= list.devices.size()) {
    return Error{.code = ErrorCode::not_found,
                 .text = fmt::format("no device '{}': Vulkan shows {} here: {}",
                                     options.name,
                                     list.devices.size(),
                                     describe(list)),
                 .device = options.name};
  }
  return VulkanDevice::open(options.name,
                            list.instance,
                            list.devices[index],
                            {.lost_at_call = options.faults.lost_at_call,
                             .refused_at_call = options.faults.refused_at_call,
                             .wait_limit = options.wait_limit,
                             .allows_f16_sums = options.allows_f16_sums,
                             .interprets_always = options.interprets_always});
}

Result<std::optional<std::uint64_t>> shuffle_seed() {
  HEARTH_TRY(
      const std::optional<std::int64_t> seed,
      hearth::detail::Settings::from_environment().integer(
          hearth::detail::Setting::vulkan_shuffle, 0, std::numeric_limits<std::int64_t>::max()));
  return seed ? std::optional(static_cast<std::uint64_t>(*seed)) : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Backend>> VulkanBackend::open(VulkanOptions options) {
  HEARTH_TRY(std::shared_ptr<const VulkanDevice> device, open_device(options));
  HEARTH_TRY(std::shared_ptr<const VulkanGpu> gpu, VulkanGpu::make(std::move(device)));
  HEARTH_TRY(const std::optional<std::uint64_t> seed, shuffle_seed());
  return gpu::GpuBackend::open(std::move(gpu),
                               {.executor = options.executor,
                                .compiles_beside = options.compiles_beside,
                                .log = options.log,
                                .faults = std::move(options.faults),
                                .staging = options.staging,
                                .wait_limit = options.wait_limit,
                                .shuffle_seed = seed});
}

Result<std::vector<VulkanDeviceInfo>> vulkan_devices() {
  HEARTH_TRY(const PhysicalList list, list_physical());
  std::vector<VulkanDeviceInfo> out;
  for (const PhysicalDevice& device : list.devices) {
    out.push_back({.name = device.name,
                   .driver = device.driver,
                   .uuid = device.uuid,
                   .is_cpu = device.is_cpu(),
                   .lack = device.lack});
  }
  return out;
}

}  // namespace hearth::vulkan
