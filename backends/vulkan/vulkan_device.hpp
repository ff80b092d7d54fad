// A logical device: queues, what it can do, and buffers from it. Everything else of this backend
// holds a reference to one. Threads: owner only, but for the const functions and the functions of
// api() that Vulkan lets any thread call.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <hearth/runtime/base/deadline.hpp>

#include "device_limits.hpp"
#include "memory_types.hpp"
#include "vulkan_instance.hpp"

namespace hearth::vulkan {

class VulkanDevice;

/// A buffer with memory of its own, and its address. Movable; frees both.
class Buffer final {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] VkBuffer handle() const noexcept { return handle_; }
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
  [[nodiscard]] std::int64_t size_bytes() const noexcept { return size_bytes_; }
  /// Where the host sees it; null where it does not.
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
  /// What goes wrong, for tests: as FaultPlan has them.
  std::uint64_t lost_at_call = 0;
  std::uint64_t refused_at_call = 0;
  std::chrono::nanoseconds wait_limit = kDefaultWait;  ///< Of wait_until().
  bool allows_f16_sums = false;                        ///< As RuntimeOptions has it.
  bool interprets_always = false;                      ///< As DeviceLimits has it.
  bool hides_timestamps = false;                       ///< As a driver without them, for tests.
};

/// Where a buffer's memory lies.
enum class BufferPlace : std::uint8_t {
  device,      ///< The fastest for kernels; the host sees it where memory is unified.
  shared,      ///< Of the device, and the host may write and read a little of it; else of the host.
  host_write,  ///< Of the host, for what it writes in order.
  host_read,   ///< Of the host and cached, for what it reads.
};

class VulkanDevice final {
 public:
  /// Errors: unsupported, with what the device lacks; what Vulkan refuses.
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
  [[nodiscard]] const DeviceLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] VkQueue compute_queue() const noexcept { return compute_queue_; }
  /// The same as the compute queue where there is no other.
  /// For copies to the device, and from there: two where the device has them, so that both run at
  /// once.
  [[nodiscard]] VkQueue upload_queue() const noexcept { return upload_queue_; }
  [[nodiscard]] VkQueue download_queue() const noexcept { return download_queue_; }
  [[nodiscard]] std::uint32_t compute_family() const noexcept { return compute_family_; }
  [[nodiscard]] std::uint32_t copy_family() const noexcept { return copy_family_; }
  /// Whether the host sees what BufferPlace::device gives, at full speed.
  [[nodiscard]] bool is_unified() const noexcept { return types_.is_unified; }
  /// Of the heap that BufferPlace::device takes from; where the driver tells how much of it this
  /// process may have (VK_EXT_memory_budget), what it told as the device was opened.
  [[nodiscard]] std::int64_t memory_bytes() const noexcept { return memory_bytes_; }
  [[nodiscard]] std::int64_t largest_buffer_bytes() const noexcept { return largest_bytes_; }
  /// For the store of compiled pipelines: card and driver version.
  [[nodiscard]] const std::string& fingerprint() const noexcept { return fingerprint_; }

  /// Of its instance.
  [[nodiscard]] LeftBehind& left_behind() const noexcept { return instance_->left_behind(); }
  /// Of VulkanDeviceOptions.
  [[nodiscard]] std::chrono::nanoseconds wait_limit() const noexcept { return wait_limit_; }
  /// Errors: out_of_memory; what Vulkan refuses.
  [[nodiscard]] Result<Buffer> make_buffer(std::int64_t size_bytes, BufferPlace place) const;
  [[nodiscard]] Error failed(std::string_view call, VkResult result) const {
    return hearth::vulkan::failed(name_, call, result);
  }
  /// A call failed behind which the device cannot go on, though the driver does not call it lost:
  /// for this program it is. Threads: any.
  [[nodiscard]] Error give_up(std::string_view call, VkResult result) const;
  [[nodiscard]] bool is_given_up() const noexcept {
    return is_given_up_.load(std::memory_order_acquire);  // partner: give_up
  }
  /// Waits until the timeline is there, on the thread of an owner who cannot go on before. While
  /// the timeline that did not come on in time stands still, further waits for it do not wait.
  ///
  /// Errors: deadline_exceeded; device_lost.
  [[nodiscard]] Status wait_until(VkSemaphore semaphore, std::uint64_t value) const;
  /// What the driver says of a loss, as a sentence; empty where it says nothing, or does not know
  /// of it. Requires that the device is lost. Threads: any, one at a time.
  [[nodiscard]] std::string fault_text() const;

 private:
  [[nodiscard]] Status pick_families();
  [[nodiscard]] Status create(bool allows_f16_sums);
  void read_limits();
  [[nodiscard]] VkBufferCreateInfo buffer_info(std::int64_t size_bytes) const noexcept;
  /// `alone`: whether it wants memory of its own; null: nobody asks.
  [[nodiscard]] VkMemoryRequirements needs_of(VkBuffer buffer,
                                              VkMemoryDedicatedRequirements* alone) const;
  [[nodiscard]] Status find_memory_types();
  [[nodiscard]] std::uint32_t type_of(BufferPlace place) const noexcept;
  [[nodiscard]] bool has_extension(std::string_view extension) const;

  std::string name_;
  std::shared_ptr<const VulkanInstance> instance_;
  PhysicalDevice physical_;
  VkDevice handle_ = VK_NULL_HANDLE;
  DeviceApi api_;
  PFN_vkGetDeviceFaultInfoEXT get_fault_ = nullptr;  ///< Null where the driver has none.
  DeviceLimits limits_;
  VkQueue compute_queue_ = VK_NULL_HANDLE;
  VkQueue upload_queue_ = VK_NULL_HANDLE;
  VkQueue download_queue_ = VK_NULL_HANDLE;
  std::uint32_t compute_family_ = 0;
  std::uint32_t copy_family_ = 0;
  std::array<std::uint32_t, 2> families_{};  ///< Both, for buffers.
  MemoryTypes types_;
  std::int64_t memory_bytes_ = 0;
  std::int64_t largest_bytes_ = 0;
  std::string fingerprint_;
  std::chrono::nanoseconds wait_limit_ = kDefaultWait;
  mutable std::atomic<bool> hangs_{false};        ///< The last wait was too long.
  mutable std::atomic<bool> is_given_up_{false};  ///< The driver knows of no loss.
};

}  // namespace hearth::vulkan
