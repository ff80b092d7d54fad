#include "cuda_memory.hpp"

#include <cstring>
#include <utility>

namespace hearth::cuda {
namespace {

// A reserved range of addresses, then what is behind it. The destructor frees what was made.
struct Range {
  std::shared_ptr<const CudaDevice> device;
  CUdeviceptr address = 0;
  std::size_t size = 0;
  bool is_mapped = false;

  Range(std::shared_ptr<const CudaDevice> its_device, std::size_t bytes) noexcept
      : device(std::move(its_device)), size(bytes) {}
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  Range(Range&& other) noexcept
      : device(std::move(other.device)),
        address(std::exchange(other.address, 0)),
        size(other.size),
        is_mapped(std::exchange(other.is_mapped, false)) {}
  Range& operator=(Range&&) = delete;
  ~Range() {
    if (is_mapped) {
      device->api().cuMemUnmap(address, size);
    }
    if (address != 0) {
      device->api().cuMemAddressFree(address, size);
    }
  }
};

// Phases: the addresses; the pages, which the mapping keeps; access.
Status map_pages(Range& range, CUdevice handle) {
  const DriverApi& api = range.device->api();
  CUresult result = api.cuMemAddressReserve(&range.address, range.size, 0, 0, 0);
  if (result != kSuccess) {
    range.address = 0;
    return range.device->failed("cuMemAddressReserve", result);
  }
  const CUmemAllocationProp properties{.location = {.id = handle}};
  CUmemGenericAllocationHandle pages = 0;
  result = api.cuMemCreate(&pages, range.size, &properties, 0);
  if (result != kSuccess) {
    return range.device->failed("cuMemCreate", result);
  }
  result = api.cuMemMap(range.address, range.size, 0, pages, 0);
  range.is_mapped = result == kSuccess;
  api.cuMemRelease(pages);
  if (result != kSuccess) {
    return range.device->failed("cuMemMap", result);
  }
  const CUmemAccessDesc access{.location = {.id = handle}};
  result = api.cuMemSetAccess(range.address, range.size, &access, 1);
  return result == kSuccess ? Status() : range.device->failed("cuMemSetAccess", result);
}

class DevicePiece final : public gpu::MemoryPiece {
 public:
  DevicePiece(Range range, std::int64_t size_bytes) noexcept
      : MemoryPiece({.address = range.address, .host = nullptr}, size_bytes, range.address),
        range_(std::move(range)) {}
  DevicePiece(const DevicePiece&) = delete;
  DevicePiece& operator=(const DevicePiece&) = delete;
  ~DevicePiece() override = default;

 private:
  Range range_;
};

class HostPiece final : public gpu::MemoryPiece {
 public:
  HostPiece(std::shared_ptr<const CudaDevice> device,
            std::byte* host,
            CUdeviceptr address,
            std::int64_t size_bytes) noexcept
      : MemoryPiece({.address = address, .host = host}, size_bytes, address),
        device_(std::move(device)) {}
  HostPiece(const HostPiece&) = delete;
  HostPiece& operator=(const HostPiece&) = delete;
  ~HostPiece() override { device_->api().cuMemFreeHost(host()); }

 private:
  std::shared_ptr<const CudaDevice> device_;
};

}  // namespace

Result<std::unique_ptr<gpu::MemoryPiece>> make_device_memory(
    std::shared_ptr<const CudaDevice> device,
    CUdevice handle,
    std::size_t size,
    std::size_t granularity) {
  Range range(std::move(device), (size + granularity - 1) / granularity * granularity);
  HEARTH_TRY_STATUS(map_pages(range, handle));
  return std::unique_ptr<gpu::MemoryPiece>(
      std::make_unique<DevicePiece>(std::move(range), static_cast<std::int64_t>(size)));
}

Result<std::unique_ptr<gpu::MemoryPiece>> make_host_memory(std::shared_ptr<const CudaDevice> device,
                                                           std::size_t size) {
  constexpr unsigned kPortable = 1;
  constexpr unsigned kDeviceMap = 2;
  const DriverApi& api = device->api();
  void* host = nullptr;
  CUresult result = api.cuMemHostAlloc(&host, size, kPortable | kDeviceMap);
  if (result != kSuccess) {
    return device->failed("cuMemHostAlloc", result);
  }
  CUdeviceptr address = 0;
  result = api.cuMemHostGetDevicePointer_v2(&address, host, 0);
  if (result != kSuccess) {
    api.cuMemFreeHost(host);
    return device->failed("cuMemHostGetDevicePointer", result);
  }
  return std::unique_ptr<gpu::MemoryPiece>(std::make_unique<HostPiece>(
      std::move(device), static_cast<std::byte*>(host), address, static_cast<std::int64_t>(size)));
}

}  // namespace hearth::cuda
