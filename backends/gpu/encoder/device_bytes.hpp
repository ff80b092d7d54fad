// Memory that kernels reach by its address, and the host too if it is mapped. Owns nothing. A
// value. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth::gpu {

struct DeviceBytes {
  std::uint64_t address = 0;  ///< The address for kernels; 0: no memory.
  std::byte* host = nullptr;  ///< The address for the host; null if the memory is not mapped.
};

}  // namespace hearth::gpu
