#include "cuda_device.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cuda_memory.hpp"

namespace hearth::cuda {

Result<std::shared_ptr<const CudaDevice>> CudaDevice::open(std::string name,
                                                           int index,
                                                           const CudaDeviceOptions& options) {
  const auto missing = [&name](Error error) {
    error.text = fmt::format("no device '{}': {}", name, error.text);
    error.device = name;
    return error;
  };
  Result<std::shared_ptr<const DriverApi>> api = DriverApi::open(options.nvidia_folders);
  if (!api.has_value()) {
    return missing(api.error());
  }
  const Result<std::vector<ListedDevice>> devices = list_devices(*api.value());
  if (!devices.has_value()) {
    Error error = devices.error();
    error.device = name;
    return error.code == ErrorCode::invalid_argument ? error : missing(std::move(error));
  }
  const auto number = static_cast<std::size_t>(index);
  if (number >= devices.value().size()) {
    return missing(
        {.code = ErrorCode::not_found,
         .text = fmt::format(
             "CUDA shows {} here: {}", devices.value().size(), describe(devices.value()))});
  }
  const ListedDevice& listed = devices.value()[number];
  if (!listed.lack.empty()) {
    return missing({.code = ErrorCode::unsupported, .text = listed.lack});
  }
  auto device =
      std::make_shared<CudaDevice>(std::move(name), std::move(api).value(), listed, options);
  HEARTH_TRY(device->context_,
             CudaContext::of(device->api_, device->name_, device->listed_.handle));
  HEARTH_TRY_STATUS(device->read_limits());
  return std::shared_ptr<const CudaDevice>(std::move(device));
}

CudaDevice::CudaDevice(std::string name,
                       std::shared_ptr<const DriverApi> api,
                       ListedDevice listed,
                       const CudaDeviceOptions& options) noexcept
    : name_(std::move(name)), api_(std::move(api)), listed_(std::move(listed)), options_(options) {}

Result<int> CudaDevice::attribute(Attribute which) const {
  int value = 0;
  const CUresult result =
      api_->cuDeviceGetAttribute(&value, static_cast<int>(which), listed_.handle);
  if (result != kSuccess) {
    return failed("cuDeviceGetAttribute", result);
  }
  return value;
}

// A kernel's own shared memory has 48 KiB at most; more needs an attribute of the function.
Status CudaDevice::read_limits() {
  HEARTH_TRY(const int threads, attribute(Attribute::max_threads_per_block));
  HEARTH_TRY(const int shared, attribute(Attribute::max_shared_memory_per_block));
  HEARTH_TRY(const int multiprocessors, attribute(Attribute::multiprocessor_count));
  limits_.subgroup_size = 32;
  limits_.shared_bytes = shared;
  limits_.most_group_threads = static_cast<std::uint32_t>(threads);
  limits_.most_groups_x = 0x7fffffffU;
  limits_.has_f64 = true;
  limits_.has_f16_arithmetic = true;
  limits_.is_exact_f16 = true;
  limits_.special_widths = 16U | 32U | 64U;
  limits_.multiprocessors = multiprocessors;
  limits_.has_warp_products = architecture() >= 80;
  limits_.takes_cuda = true;
  limits_.has_product_library = true;  // if the first product finds it
  limits_.row_elements = 16;  // softmax of rows of 1,024 on an H200: 131 us, with 32 188 us
  limits_.least_part = 64;    // an MLP's step on an H200: 195 us, with 256 221 us (13 runs)
  constexpr int kFirstWithTf32 = 80;
  limits_.allows_tf32 = options_.allows_tf32 && architecture() >= kFirstWithTf32;
  limits_.interprets_always = options_.interprets_always;
  const CUmemAllocationProp properties{.location = {.id = listed_.handle}};
  constexpr int kRecommended = 1;
  CUresult result = api().cuMemGetAllocationGranularity(&granularity_, &properties, kRecommended);
  if (result != kSuccess) {
    return failed("cuMemGetAllocationGranularity", result);
  }
  std::size_t free = 0;
  std::size_t total = 0;
  result = api().cuMemGetInfo_v2(&free, &total);
  if (result != kSuccess) {
    return failed("cuMemGetInfo", result);
  }
  memory_bytes_ = static_cast<std::int64_t>(free);
  return {};
}

std::string CudaDevice::description() const {
  return fmt::format("{}, CUDA {}.{}, sm_{}{}",
                     card(),
                     api_->version / 1000,
                     api_->version % 1000 / 10,
                     architecture(),
                     limits_.allows_tf32 ? ", products of f32 by TF32" : "");
}

std::string CudaDevice::fingerprint() const {
  return fmt::format("cuda-{}-{}", uuid(), api_->version);
}

CUresult CudaDevice::planned_fault() const noexcept {
  constexpr CUresult kLaunchFailed = 719;
  if (options_.lost_at_call == 0 && options_.refused_at_call == 0) [[likely]] {
    return kSuccess;
  }
  const std::uint64_t call = calls_.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (options_.lost_at_call != 0 && call >= options_.lost_at_call) {
    return kLaunchFailed;
  }
  return call == options_.refused_at_call ? kOutOfMemory : kSuccess;
}

Error CudaDevice::abandon(std::string_view call, CUresult result) const {
  return abandon_after(failed(call, result));
}

Error CudaDevice::abandon_after(Error error) const {
  if (error.code == ErrorCode::device_lost) {
    return error;
  }
  is_abandoned_.store(true, std::memory_order_release);  // partner: is_abandoned
  error.code = ErrorCode::device_lost;
  error.text += "; what that batch had recorded will not run, so the device counts as lost";
  return error;
}

Result<std::unique_ptr<gpu::MemoryPiece>> CudaDevice::make_memory(std::int64_t size_bytes,
                                                                  gpu::MemoryPlace place) const {
  const auto size = static_cast<std::size_t>(size_bytes);
  return place == gpu::MemoryPlace::device
             ? make_device_memory(shared_from_this(), listed_.handle, size, granularity_)
             : make_host_memory(shared_from_this(), size);
}

}  // namespace hearth::cuda
