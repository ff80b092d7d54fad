// A logical device: its queues, its limits, and its buffers. All other parts of this backend hold a
// reference to one. Threads: owner only, except const functions, and functions of api() that Vulkan
// allows on any thread.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <hearth/runtime/base/deadline.hpp>

#include "backends/gpu/device/memory_piece.hpp"
#include "backends/gpu/encoder/device_limits.hpp"
#include "memory_types.hpp"
#include "vulkan_instance.hpp"

namespace hearth::vulkan {

class VulkanDevice;

/// A buffer as the word that gpu::CopyPlace has for it.
[[nodiscard]] inline std::uint64_t piece_of(VkBuffer buffer) noexcept {
  return std::bit_cast<std::uint64_t>(buffer);
}
[[nodiscard]] inline VkBuffer buffer_of(std::uint64_t piece) noexcept {
  return std::bit_cast<VkBuffer>(piece);
}

/// A buffer with memory of its own, and its address. Movable; frees both.
class Buffer final {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] VkBuffer handle() const noexcept { return handle_; }
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
  [[nodiscard]] gpu::DeviceBytes bytes() const noexcept { return {address_, host_}; }
  [[nodiscard]] std::int64_t size_bytes() const noexcept { return size_bytes_; }
  /// Host address; null if the buffer is not mapped.
  [[nodiscard]] std::byte* host() const noexcept { return host_; }
  [[nodiscard]] bool is_empty() const noexcept { return handle_ == VK_NULL_HANDLE; }

 private:
  friend class VulkanDevice;

  void free() noexcept;

  const VulkanDevice* device_ = nullptr;
  VkBuffer handle_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::uint64_t address_ = 0;
  std::int64_t size_bytes_ = 0;
  std::byte* host_ = nullptr;
};

struct VulkanDeviceOptions {
  /// Planned faults, for tests, as in FaultPlan.
  std::uint64_t lost_at_call = 0;
  std::uint64_t refused_at_call = 0;
  std::chrono::nanoseconds wait_limit = kDefaultWait;  ///< Limit of wait_until().
  bool allows_f16_sums = false;                        ///< May sum products of f16 in f16.
  bool interprets_always = false;                      ///< Sets DeviceLimits::interprets_always.
  bool hides_timestamps = false;                       ///< Hides timestamps, for tests.
};

class VulkanDevice final {
 public:
  /// Errors: unsupported, with the missing feature; those of Vulkan.
  [[nodiscard]] static Result<std::shared_ptr<const VulkanDevice>> open(
      std::string name,
      std::shared_ptr<const VulkanInstance> instance,
      const PhysicalDevice& physical,
      const VulkanDeviceOptions& options = {});

  VulkanDevice(std::string name,
               std::shared_ptr<const VulkanInstance> instance,
               PhysicalDevice physical) noexcept;
  VulkanDevice(const VulkanDevice&) = delete;
  VulkanDevice& operator=(const VulkanDevice&) = delete;
  ~VulkanDevice();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// "NVIDIA H200, NVIDIA 580.159.04, Vulkan 1.4, matrix units for f16, bf16, i8"
  [[nodiscard]] std::string description() const;
  [[nodiscard]] const PhysicalDevice& physical() const noexcept { return physical_; }
  [[nodiscard]] const DeviceApi& api() const noexcept { return api_; }
  [[nodiscard]] VkDevice handle() const noexcept { return handle_; }
  [[nodiscard]] const gpu::DeviceLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] VkQueue compute_queue() const noexcept { return compute_queue_; }
  /// Queues for uploads and downloads. They are two where the device has two, so that both run at
  /// once. Without copy queues both are the compute queue.
  [[nodiscard]] VkQueue upload_queue() const noexcept { return upload_queue_; }
  [[nodiscard]] VkQueue download_queue() const noexcept { return download_queue_; }
  [[nodiscard]] std::uint32_t compute_family() const noexcept { return compute_family_; }
  [[nodiscard]] std::uint32_t copy_family() const noexcept { return copy_family_; }
  /// True if the host sees gpu::MemoryPlace::device, at full speed.
  [[nodiscard]] bool is_unified() const noexcept { return types_.is_unified; }
  /// Size of the heap of gpu::MemoryPlace::device. With VK_EXT_memory_budget: this process's budget
  /// when the device was opened.
  [[nodiscard]] std::int64_t memory_bytes() const noexcept { return memory_bytes_; }
  [[nodiscard]] std::int64_t largest_buffer_bytes() const noexcept { return largest_bytes_; }
  /// Card and driver version, the key of the stored pipelines.
  [[nodiscard]] const std::string& fingerprint() const noexcept { return fingerprint_; }

  /// The instance's abandoned objects.
  [[nodiscard]] gpu::AbandonedObjects& abandoned_objects() const noexcept {
    return instance_->abandoned_objects();
  }
  /// VulkanDeviceOptions::wait_limit.
  [[nodiscard]] std::chrono::nanoseconds wait_limit() const noexcept { return wait_limit_; }
  /// Errors: out_of_memory; those of Vulkan.
  [[nodiscard]] Result<Buffer> make_buffer(std::int64_t size_bytes, gpu::MemoryPlace place) const;
  [[nodiscard]] Error failed(std::string_view call, VkResult result) const {
    return hearth::vulkan::failed(name_, call, result);
  }
  /// Marks the device as lost after a failed call from which it cannot continue, though the driver
  /// reports no loss. Threads: any.
  [[nodiscard]] Error abandon(std::string_view call, VkResult result) const;
  [[nodiscard]] bool is_abandoned() const noexcept {
    return is_abandoned_.load(std::memory_order_acquire);  // partner: abandon
  }
  /// Waits until the timeline reaches the value, on the thread of an owner that cannot go on
  /// before. After a timeline misses the limit, further waits for it return at once until it
  /// progresses.
  ///
  /// Errors: deadline_exceeded; device_lost.
  [[nodiscard]] Status wait_until(VkSemaphore semaphore, std::uint64_t value) const;
  /// The driver's description of a loss; empty if it has none, or knows no loss. Requires that the
  /// device is lost. Threads: any, one at a time.
  [[nodiscard]] std::string fault_text() const;

 private:
  [[nodiscard]] Status pick_families();
  [[nodiscard]] Status create(bool allows_f16_sums);
  void read_limits();
  [[nodiscard]] VkBufferCreateInfo buffer_info(std::int64_t size_bytes) const noexcept;
  /// `alone`: receives whether the buffer requires dedicated memory; may be null.
  [[nodiscard]] VkMemoryRequirements needs_of(VkBuffer buffer,
                                              VkMemoryDedicatedRequirements* alone) const;
  [[nodiscard]] Status find_memory_types();
  [[nodiscard]] std::uint32_t type_of(gpu::MemoryPlace place) const noexcept;
  [[nodiscard]] bool has_extension(std::string_view extension) const;

  std::string name_;
  std::shared_ptr<const VulkanInstance> instance_;
  PhysicalDevice physical_;
  VkDevice handle_ = VK_NULL_HANDLE;
  DeviceApi api_;
  PFN_vkGetDeviceFaultInfoEXT get_fault_ = nullptr;  ///< Null if the driver has none.
  gpu::DeviceLimits limits_;
  VkQueue compute_queue_ = VK_NULL_HANDLE;
  VkQueue upload_queue_ = VK_NULL_HANDLE;
  VkQueue download_queue_ = VK_NULL_HANDLE;
  std::uint32_t compute_family_ = 0;
  std::uint32_t copy_family_ = 0;
  std::array<std::uint32_t, 2> families_{};  ///< Both families, for buffers.
  MemoryTypes types_;
  std::int64_t memory_bytes_ = 0;
  std::int64_t largest_bytes_ = 0;
  std::string fingerprint_;
  std::chrono::nanoseconds wait_limit_ = kDefaultWait;
  mutable std::atomic<bool> hangs_{false};  ///< The last wait exceeded its limit.
  /// Lost for this program; the driver reports no loss.
  mutable std::atomic<bool> is_abandoned_{false};
};

}  // namespace hearth::vulkan
