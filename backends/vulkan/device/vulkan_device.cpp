#include "vulkan_device.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/settings.hpp>

#include "cooperative_matrix.hpp"
#include "device_fault.hpp"
#include "matrix_units.hpp"

namespace hearth::vulkan {
namespace {

constexpr VkBufferUsageFlags kUsage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
    VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;

std::vector<VkQueueFamilyProperties> families_of(const InstanceApi& api, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  api.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  api.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  return families;
}

// The first family with all of `has` and none of `lacks`.
std::optional<std::uint32_t> find_family(const std::vector<VkQueueFamilyProperties>& families,
                                         VkQueueFlags has,
                                         VkQueueFlags lacks) {
  for (std::uint32_t i = 0; i < families.size(); ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if (families[i].queueCount > 0 && (flags & has) == has && (flags & lacks) == 0) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace

// ---- buffers ----

Buffer::Buffer(Buffer&& other) noexcept {
  *this = std::move(other);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    free();
    device_ = std::exchange(other.device_, nullptr);
    handle_ = std::exchange(other.handle_, VK_NULL_HANDLE);
    memory_ = std::exchange(other.memory_, VK_NULL_HANDLE);
    address_ = std::exchange(other.address_, 0);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    host_ = std::exchange(other.host_, nullptr);
  }
  return *this;
}

Buffer::~Buffer() {
  free();
}

void Buffer::free() noexcept {
  if (device_ != nullptr) {
    device_->api().vkDestroyBuffer(device_->handle(), handle_, nullptr);
    device_->api().vkFreeMemory(device_->handle(), memory_, nullptr);  // unmaps it too
    device_ = nullptr;
  }
}

// Phases: the buffer; memory of the right type; binding; the address; the mapping.
Result<Buffer> VulkanDevice::make_buffer(std::int64_t size_bytes, gpu::MemoryPlace place) const {
  Buffer buffer;
  buffer.device_ = this;
  buffer.size_bytes_ = size_bytes;
  const VkBufferCreateInfo info = buffer_info(size_bytes);
  VkResult result = api_.vkCreateBuffer(handle_, &info, nullptr, &buffer.handle_);
  if (result != VK_SUCCESS) {
    buffer.handle_ = VK_NULL_HANDLE;
    return failed("vkCreateBuffer", result);
  }
  VkMemoryDedicatedRequirements alone{};
  alone.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS;
  const VkMemoryRequirements needs = needs_of(buffer.handle_, &alone);
  VkMemoryDedicatedAllocateInfo dedicated{};
  dedicated.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO;
  dedicated.buffer = buffer.handle_;
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  if (alone.prefersDedicatedAllocation == VK_TRUE || alone.requiresDedicatedAllocation == VK_TRUE) {
    flags.pNext = &dedicated;  // the buffer has memory of its own in any case
  }
  VkMemoryAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.pNext = &flags;
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = type_of(place);
  result = api_.vkAllocateMemory(handle_, &allocate, nullptr, &buffer.memory_);
  if (result != VK_SUCCESS) {
    buffer.memory_ = VK_NULL_HANDLE;
    return failed("vkAllocateMemory", result);
  }
  result = api_.vkBindBufferMemory(handle_, buffer.handle_, buffer.memory_, 0);
  if (result != VK_SUCCESS) {
    return failed("vkBindBufferMemory", result);
  }
  VkBufferDeviceAddressInfo address{};
  address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  address.buffer = buffer.handle_;
  buffer.address_ = api_.vkGetBufferDeviceAddress(handle_, &address);
  const bool is_mapped = place != gpu::MemoryPlace::device || types_.is_unified;
  if (is_mapped && (types_.visible >> allocate.memoryTypeIndex & 1U) != 0) {
    void* host = nullptr;
    result = api_.vkMapMemory(handle_, buffer.memory_, 0, VK_WHOLE_SIZE, 0, &host);
    if (result != VK_SUCCESS) {
      return failed("vkMapMemory", result);
    }
    buffer.host_ = static_cast<std::byte*>(host);
  }
  return buffer;
}

VkMemoryRequirements VulkanDevice::needs_of(VkBuffer buffer,
                                            VkMemoryDedicatedRequirements* alone) const {
  VkBufferMemoryRequirementsInfo2 info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2;
  info.buffer = buffer;
  VkMemoryRequirements2 needs{};
  needs.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2;
  needs.pNext = alone;
  api_.vkGetBufferMemoryRequirements2(handle_, &info, &needs);
  return needs.memoryRequirements;
}

// ---- the device ----

Result<std::shared_ptr<const VulkanDevice>> VulkanDevice::open(
    std::string name,
    std::shared_ptr<const VulkanInstance> instance,
    const PhysicalDevice& physical,
    const VulkanDeviceOptions& options) {
  if (!physical.lack.empty()) {
    return Error{.code = ErrorCode::unsupported,
                 .text = fmt::format(
                     "{} is {}, which cannot be used: {}", name, physical.name, physical.lack),
                 .device = name};
  }
  auto device = std::make_shared<VulkanDevice>(std::move(name), std::move(instance), physical);
  device->wait_limit_ = options.wait_limit;
  HEARTH_TRY_STATUS(device->pick_families());
  device->read_limits();
  device->limits_.interprets_always = options.interprets_always;
  if (options.hides_timestamps) {
    device->limits_.timestamp_bits = 0;
  }
  HEARTH_TRY_STATUS(device->create(options.allows_f16_sums));
  HEARTH_TRY_STATUS(device->find_memory_types());
  if (options.lost_at_call != 0) {
    device->api_.inject(std::make_shared<CallFaults>(
        options.lost_at_call,
        [wait = device->api_.vkDeviceWaitIdle, handle = device->handle_] { wait(handle); }));
  }
  if (options.refused_at_call != 0) {
    device->api_.inject(std::make_shared<CallRefusal>(options.refused_at_call));
  }
  return std::shared_ptr<const VulkanDevice>(std::move(device));
}

VulkanDevice::VulkanDevice(std::string name,
                           std::shared_ptr<const VulkanInstance> instance,
                           PhysicalDevice physical) noexcept
    : name_(std::move(name)), instance_(std::move(instance)), physical_(std::move(physical)) {}

VulkanDevice::~VulkanDevice() {
  if (handle_ != VK_NULL_HANDLE) {
    api_.vkDestroyDevice(handle_, nullptr);
  }
}

std::string VulkanDevice::description() const {
  return fmt::format("{}, {}, Vulkan {}.{}, {}",
                     physical_.name,
                     physical_.driver,
                     VK_API_VERSION_MAJOR(physical_.api_version),
                     VK_API_VERSION_MINOR(physical_.api_version),
                     describe_matrix_units(limits_));
}

Error VulkanDevice::abandon(std::string_view call, VkResult result) const {
  if (result == VK_ERROR_DEVICE_LOST) {
    return failed(call, result);
  }
  is_abandoned_.store(true, std::memory_order_release);  // partner: is_abandoned
  Error error = failed(call, result);
  error.code = ErrorCode::device_lost;
  error.text += "; what that batch had recorded will not run, so the device counts as lost";
  return error;
}

Status VulkanDevice::wait_until(VkSemaphore semaphore, std::uint64_t value) const {
  VkSemaphoreWaitInfo wait{};
  wait.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  wait.semaphoreCount = 1;
  wait.pSemaphores = &semaphore;
  wait.pValues = &value;
  std::uint64_t before = 0;
  VkResult result = api_.vkGetSemaphoreCounterValue(handle_, semaphore, &before);
  while (result == VK_SUCCESS) {
    const auto limit = hangs_.load(std::memory_order_acquire) ? std::chrono::nanoseconds(0)
                                                              : wait_limit_;  // partner: below
    result = api_.vkWaitSemaphores(handle_, &wait, static_cast<std::uint64_t>(limit.count()));
    if (result == VK_SUCCESS) {
      hangs_.store(false, std::memory_order_release);  // partner: the next wait
      return {};
    }
    if (result != VK_TIMEOUT) {
      break;
    }
    std::uint64_t now = 0;
    result = api_.vkGetSemaphoreCounterValue(handle_, semaphore, &now);
    if (result == VK_SUCCESS && std::exchange(before, now) == now) {
      hangs_.store(true, std::memory_order_release);  // partner: the next wait
      return Error{.code = ErrorCode::deadline_exceeded,
                   .text = fmt::format("{}: submitted work makes no progress", name_),
                   .device = name_};
    }
  }
  return failed("vkWaitSemaphores", result);
}

// On NVIDIA's GPUs a compute-only family has 100 KiB of shared memory a multiprocessor, one with
// graphics 48 KiB. A copy-only family works beside it.
Status VulkanDevice::pick_families() {
  const auto families = families_of(instance_->api(), physical_.handle);
  auto compute = find_family(families, VK_QUEUE_COMPUTE_BIT, VK_QUEUE_GRAPHICS_BIT);
  if (!compute) {
    compute = find_family(families, VK_QUEUE_COMPUTE_BIT, 0);
  }
  if (!compute) {
    return Error{.code = ErrorCode::unsupported,
                 .text = fmt::format("{}: {} has no queue that computes", name_, physical_.name),
                 .device = name_};
  }
  compute_family_ = *compute;
  copy_family_ =
      find_family(families, VK_QUEUE_TRANSFER_BIT, VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)
          .value_or(compute_family_);
  families_ = {compute_family_, copy_family_};
  return {};
}

// Ignores extensions that HEARTH_VULKAN_WITHOUT names.
bool VulkanDevice::has_extension(std::string_view extension) const {
  const std::string without = hearth::detail::Settings::from_environment()
                                  .text(hearth::detail::Setting::vulkan_without)
                                  .value_or("");
  for (std::string_view rest = without; !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (rest.substr(0, end) == extension) {
      return false;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const InstanceApi& api = instance_->api();
  std::uint32_t count = 0;
  api.vkEnumerateDeviceExtensionProperties(physical_.handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> all(count);
  api.vkEnumerateDeviceExtensionProperties(physical_.handle, nullptr, &count, all.data());
  return std::ranges::any_of(all, [&](const VkExtensionProperties& each) {
    return extension == std::string_view(std::data(each.extensionName));
  });
}

void VulkanDevice::read_limits() {
  VkPhysicalDeviceVulkan12Properties twelve{};
  twelve.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  VkPhysicalDeviceVulkan11Properties eleven{};
  eleven.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &eleven;
  eleven.pNext = &twelve;
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV builtins{};
  builtins.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV;
  if (has_extension(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
    twelve.pNext = &builtins;
  }
  instance_->api().vkGetPhysicalDeviceProperties2(physical_.handle, &properties);
  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  limits_.subgroup_size = eleven.subgroupSize;
  limits_.is_exact_f16 = twelve.shaderRoundingModeRTEFloat16 != VK_FALSE &&
                         twelve.shaderDenormPreserveFloat16 != VK_FALSE;
  limits_.special_widths = (twelve.shaderSignedZeroInfNanPreserveFloat16 != VK_FALSE ? 16U : 0U) |
                           (twelve.shaderSignedZeroInfNanPreserveFloat32 != VK_FALSE ? 32U : 0U) |
                           (twelve.shaderSignedZeroInfNanPreserveFloat64 != VK_FALSE ? 64U : 0U);
  limits_.shared_bytes = limits.maxComputeSharedMemorySize;
  limits_.most_group_threads =
      std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
  limits_.most_groups_x = std::min(limits.maxComputeWorkGroupCount[0], 0x7fffffffU);
  limits_.is_cpu = physical_.is_cpu();
  limits_.timestamp_bits =
      families_of(instance_->api(), physical_.handle)[compute_family_].timestampValidBits;
  limits_.timestamp_ns = static_cast<double>(limits.timestampPeriod);
  limits_.emulates_matrix_units = physical_.is_cpu();
  constexpr int kUnknownCount = 128;
  limits_.multiprocessors = physical_.is_cpu()           ? 2
                            : builtins.shaderSMCount > 0 ? static_cast<int>(builtins.shaderSMCount)
                                                         : kUnknownCount;
  largest_bytes_ = static_cast<std::int64_t>(
      std::min<VkDeviceSize>(eleven.maxMemoryAllocationSize, VkDeviceSize{1} << 62U));
  fingerprint_ = fmt::format("{}-{:08x}-{:08x}",
                             physical_.uuid,
                             properties.properties.driverVersion,
                             properties.properties.deviceID);
}

Status VulkanDevice::create(bool allows_f16_sums) {
  VkPhysicalDeviceVulkan12Features has12{};
  has12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  VkPhysicalDeviceFeatures2 has{};
  has.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  has.pNext = &has12;
  instance_->api().vkGetPhysicalDeviceFeatures2(physical_.handle, &has);
  limits_.has_f64 = has.features.shaderFloat64 != VK_FALSE;
  limits_.has_f16_arithmetic = has12.shaderFloat16 != VK_FALSE;

  VkPhysicalDeviceVulkan12Features twelve{};
  twelve.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  twelve.bufferDeviceAddress = VK_TRUE;
  twelve.timelineSemaphore = VK_TRUE;
  twelve.scalarBlockLayout = VK_TRUE;
  twelve.storageBuffer8BitAccess = VK_TRUE;
  twelve.shaderInt8 = VK_TRUE;
  twelve.shaderFloat16 = has12.shaderFloat16;
  twelve.vulkanMemoryModel = has12.vulkanMemoryModel;
  twelve.vulkanMemoryModelDeviceScope = has12.vulkanMemoryModelDeviceScope;
  VkPhysicalDeviceVulkan11Features eleven{};
  eleven.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  eleven.storageBuffer16BitAccess = VK_TRUE;
  eleven.pNext = &twelve;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &eleven;
  features.features.shaderInt16 = VK_TRUE;
  features.features.shaderInt64 = VK_TRUE;
  features.features.shaderFloat64 = has.features.shaderFloat64;

  const MatrixUnits units =
      find_matrix_units(*instance_,
                        physical_.handle,
                        {.has_khr = has_extension(kCooperativeMatrixExtension),
                         .has_bfloat16 = has_extension(kBfloat16Extension),
                         .has_nv = has_extension(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME)});
  limits_.has_cooperative_matrix = units.has_f16 && has12.vulkanMemoryModel != VK_FALSE;
  limits_.has_cooperative_bf16 = limits_.has_cooperative_matrix && units.has_bf16;
  limits_.has_cooperative_i8 = limits_.has_cooperative_matrix && units.has_i8;
  limits_.has_khr_matrices = units.by_khr;
  limits_.sums_f16 = allows_f16_sums && (limits_.emulates_matrix_units ||
                                         (limits_.has_cooperative_matrix && units.has_f16_sums));
  std::vector<const char*> extensions;
  CooperativeMatrixFeatures matrices{.cooperative_matrix = VK_TRUE};
  Bfloat16Features bfloat16{.bfloat16_type = VK_TRUE, .cooperative_matrix = VK_TRUE};
  VkPhysicalDeviceCooperativeMatrixFeaturesNV nv_matrices{};
  nv_matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV;
  nv_matrices.cooperativeMatrix = VK_TRUE;
  if (limits_.has_cooperative_matrix && !units.by_khr) {
    extensions.push_back(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
    twelve.pNext = &nv_matrices;
  } else if (limits_.has_cooperative_matrix) {
    extensions.push_back(kCooperativeMatrixExtension);
    twelve.pNext = &matrices;
    if (limits_.has_cooperative_bf16) {
      extensions.push_back(kBfloat16Extension);
      matrices.next = &bfloat16;
    }
  }

  VkPhysicalDeviceFaultFeaturesEXT faults{};
  faults.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FAULT_FEATURES_EXT;
  if (has_extension(VK_EXT_DEVICE_FAULT_EXTENSION_NAME)) {
    extensions.push_back(VK_EXT_DEVICE_FAULT_EXTENSION_NAME);
    faults.deviceFault = VK_TRUE;
    faults.pNext = features.pNext;
    features.pNext = &faults;
  }

  const std::array priorities{1.0F, 1.0F};
  const std::uint32_t copy_queues =
      copy_family_ == compute_family_
          ? 1
          : std::min(2U, families_of(instance_->api(), physical_.handle)[copy_family_].queueCount);
  std::array<VkDeviceQueueCreateInfo, 2> queues{};
  for (VkDeviceQueueCreateInfo& queue : queues) {
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueCount = 1;
    queue.pQueuePriorities = priorities.data();
  }
  queues[0].queueFamilyIndex = compute_family_;
  queues[1].queueFamilyIndex = copy_family_;
  queues[1].queueCount = copy_queues;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = compute_family_ == copy_family_ ? 1 : 2;
  info.pQueueCreateInfos = queues.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VkDevice handle = VK_NULL_HANDLE;
  const VkResult result =
      instance_->api().vkCreateDevice(physical_.handle, &info, nullptr, &handle);
  if (result != VK_SUCCESS) {
    return failed("vkCreateDevice", result);
  }
  Result<DeviceApi> api = load_device(instance_->api(), handle);
  if (!api.has_value()) {
    return api.status();  // the device cannot be destroyed either
  }
  handle_ = handle;
  api_ = api.value();
  if (faults.deviceFault != VK_FALSE) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): Vulkan hands functions out so
    get_fault_ = reinterpret_cast<PFN_vkGetDeviceFaultInfoEXT>(
        instance_->api().vkGetDeviceProcAddr(handle_, "vkGetDeviceFaultInfoEXT"));
  }
  api_.vkGetDeviceQueue(handle_, compute_family_, 0, &compute_queue_);
  api_.vkGetDeviceQueue(handle_, copy_family_, 0, &upload_queue_);
  api_.vkGetDeviceQueue(handle_, copy_family_, copy_queues - 1, &download_queue_);
  return {};
}

// Phases: the sizes of the report; the report. A second loss in between may shrink it.
std::string VulkanDevice::fault_text() const {
  if (get_fault_ == nullptr || is_abandoned()) {
    return {};
  }
  VkDeviceFaultCountsEXT counts{};
  counts.sType = VK_STRUCTURE_TYPE_DEVICE_FAULT_COUNTS_EXT;
  if (get_fault_(handle_, &counts, nullptr) != VK_SUCCESS) {
    return {};
  }
  counts.vendorBinarySize = 0;
  std::vector<VkDeviceFaultAddressInfoEXT> addresses(counts.addressInfoCount);
  std::vector<VkDeviceFaultVendorInfoEXT> vendor(counts.vendorInfoCount);
  VkDeviceFaultInfoEXT info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_FAULT_INFO_EXT;
  info.pAddressInfos = addresses.empty() ? nullptr : addresses.data();
  info.pVendorInfos = vendor.empty() ? nullptr : vendor.data();
  const VkResult result = get_fault_(handle_, &counts, &info);
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
    return {};
  }
  addresses.resize(std::min<std::size_t>(addresses.size(), counts.addressInfoCount));
  vendor.resize(std::min<std::size_t>(vendor.size(), counts.vendorInfoCount));
  return describe_fault(info, addresses, vendor);
}

VkBufferCreateInfo VulkanDevice::buffer_info(std::int64_t size_bytes) const noexcept {
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = static_cast<VkDeviceSize>(size_bytes);
  info.usage = kUsage;
  if (compute_family_ != copy_family_) {
    info.sharingMode = VK_SHARING_MODE_CONCURRENT;
    info.queueFamilyIndexCount = static_cast<std::uint32_t>(families_.size());
    info.pQueueFamilyIndices = families_.data();
  }
  return info;
}

// Unified memory needs no copies. A software driver has it, as has a GPU that shares the host's
// memory, unless a setting treats the device as a card. Buffers of one usage have the same memory
// types.
Status VulkanDevice::find_memory_types() {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 memory{};
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  if (has_extension(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME)) {
    memory.pNext = &budget;
  }
  instance_->api().vkGetPhysicalDeviceMemoryProperties2(physical_.handle, &memory);
  constexpr std::int64_t kSomeBytes = 4096;
  const VkBufferCreateInfo info = buffer_info(kSomeBytes);
  VkBuffer some = VK_NULL_HANDLE;
  const VkResult result = api_.vkCreateBuffer(handle_, &info, nullptr, &some);
  if (result != VK_SUCCESS) {
    return failed("vkCreateBuffer", result);
  }
  const VkMemoryRequirements needs = needs_of(some, nullptr);
  api_.vkDestroyBuffer(handle_, some, nullptr);
  const bool shares_memory =
      physical_.is_cpu() || physical_.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  const bool acts_as_card = hearth::detail::Settings::from_environment()
                                .text(hearth::detail::Setting::vulkan_shuffle)
                                .has_value();
  const VkPhysicalDeviceMemoryProperties& all = memory.memoryProperties;
  const auto types = pick_memory_types(all, needs.memoryTypeBits, shares_memory && !acts_as_card);
  if (!types) {
    return Error{
        .code = ErrorCode::unsupported,
        .text = fmt::format(
            "{}: {} shows no memory that its kernels and the host can use", name_, physical_.name),
        .device = name_};
  }
  types_ = *types;
  const std::uint32_t heap = all.memoryTypes[types_.device].heapIndex;
  memory_bytes_ = static_cast<std::int64_t>(all.memoryHeaps[heap].size);
  if (budget.heapBudget[heap] > 0) {  // the memory that other programs have left
    memory_bytes_ = std::min(memory_bytes_, static_cast<std::int64_t>(budget.heapBudget[heap]));
  }
  return {};
}

std::uint32_t VulkanDevice::type_of(gpu::MemoryPlace place) const noexcept {
  switch (place) {
    case gpu::MemoryPlace::device:
      return types_.device;
    case gpu::MemoryPlace::shared:
      return types_.shared;
    case gpu::MemoryPlace::host_write:
      return types_.host_write;
    case gpu::MemoryPlace::host_read:
    default:
      return types_.host_read;
  }
}

}  // namespace hearth::vulkan
