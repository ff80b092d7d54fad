// A piece of memory of a device, freed with this object. Each kind of GPU device derives from it.
// Threads: any, one at a time. Invariants: (1) the address for kernels is never 0; (2) a piece may
// outlive the GpuDevice that made it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/gpu/encoder/device_bytes.hpp"
#include "backends/gpu/launches/batch.hpp"

namespace hearth::gpu {

/// Place of a piece of memory.
enum class MemoryPlace : std::uint8_t {
  device,      ///< Fastest for kernels; the host sees it where memory is unified.
  shared,      ///< Device memory for small host accesses; else host memory.
  host_write,  ///< Host memory, for writes in order.
  host_read,   ///< Cached host memory, for reads.
};

class MemoryPiece {
 public:
  MemoryPiece(const MemoryPiece&) = delete;
  MemoryPiece& operator=(const MemoryPiece&) = delete;
  virtual ~MemoryPiece() = default;

  [[nodiscard]] DeviceBytes bytes() const noexcept { return bytes_; }
  /// Address for kernels.
  [[nodiscard]] std::uint64_t address() const noexcept { return bytes_.address; }
  /// Host address; null if the piece is not mapped.
  [[nodiscard]] std::byte* host() const noexcept { return bytes_.host; }
  [[nodiscard]] std::int64_t size_bytes() const noexcept { return size_bytes_; }
  /// The place of a byte of this piece, for copies of the device.
  [[nodiscard]] CopyPlace at(std::int64_t offset_bytes) const noexcept {
    return {.piece = word_, .offset_bytes = offset_bytes};
  }

 protected:
  /// `word`: the driver's word for the piece, as in CopyPlace.
  MemoryPiece(DeviceBytes bytes, std::int64_t size_bytes, std::uint64_t word) noexcept
      : bytes_(bytes), size_bytes_(size_bytes), word_(word) {}

 private:
  DeviceBytes bytes_;
  std::int64_t size_bytes_;
  std::uint64_t word_;
};

}  // namespace hearth::gpu
