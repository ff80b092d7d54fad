// Picks the memory types of a card for its buffers, from the driver's list. A pure function.
// Values. Threads: any.
#pragma once

#include <cstdint>
#include <optional>

#include "vulkan_api.hpp"

namespace hearth::vulkan {

/// Indices of memory types, by gpu::MemoryPlace.
struct MemoryTypes {
  std::uint32_t device = 0;
  std::uint32_t shared = 0;
  std::uint32_t host_write = 0;
  std::uint32_t host_read = 0;
  std::uint32_t visible = 0;  ///< Bit i: the host sees memory of type i, without a flush.
  bool is_unified = false;    ///< The host sees `device`, at full speed.
};

/// `usable`: bit i, buffers may use type i. `may_be_unified`: kernels and the host share one memory
/// on such a card. Empty: no memory serves both kernels and the host.
[[nodiscard]] std::optional<MemoryTypes> pick_memory_types(
    const VkPhysicalDeviceMemoryProperties& all, std::uint32_t usable, bool may_be_unified);

}  // namespace hearth::vulkan
