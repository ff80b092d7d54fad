// Which of a card's types of memory serve which buffers. A pure function of what the driver lists.
// Values. Threads: any.
#pragma once

#include "vulkan_api.hpp"

#include <cstdint>
#include <optional>

namespace hearth::vulkan {

/// Numbers of memory types, by BufferPlace.
struct MemoryTypes {
  std::uint32_t device = 0;
  std::uint32_t shared = 0;
  std::uint32_t host_write = 0;
  std::uint32_t host_read = 0;
  std::uint32_t visible = 0;  ///< Bit i: the host sees memory of type i, without a flush.
  bool is_unified = false;    ///< The host sees `device`, at full speed.
};

/// `usable`: bit i, buffers may have memory of type i. `may_be_unified`: kernels and the host share
/// one memory on such a card. Empty: there is no memory that kernels and the host can use.
[[nodiscard]] std::optional<MemoryTypes> pick_memory_types(
    const VkPhysicalDeviceMemoryProperties& all, std::uint32_t usable, bool may_be_unified);

}  // namespace hearth::vulkan
