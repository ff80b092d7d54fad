// Scratch of a backend that has no pool of a device: one buffer, which grows. Outgrown buffers live
// until the batches that may use them have ended. Threads: owner only.
#pragma once

#include <cstdint>
#include <deque>

#include <hearth/backends/scratch_memory.hpp>

#include "backends/gpu/launches/launch_stream.hpp"
#include "backends/vulkan/device/vulkan_device.hpp"

namespace hearth::vulkan {

class OwnScratch final : public ScratchMemory {
 public:
  /// Lifetime: the arguments outlive the scratch.
  OwnScratch(const VulkanDevice& device, const gpu::LaunchStream& ops) noexcept
      : device_(device), ops_(ops) {}

  /// Errors: out_of_memory; those of Vulkan.
  [[nodiscard]] Result<std::byte*> take(std::int64_t size_bytes) override;
  void give_back() noexcept override {}

 private:
  struct Outgrown {
    Buffer buffer;
    std::uint64_t value;
  };

  const VulkanDevice& device_;
  const gpu::LaunchStream& ops_;
  Buffer buffer_;
  std::deque<Outgrown> outgrown_;
};

}  // namespace hearth::vulkan
