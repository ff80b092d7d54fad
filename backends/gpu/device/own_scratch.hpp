// Scratch of a backend that has no pool of a device: one piece, which grows. Outgrown pieces live
// until the batches that may use them have ended. Threads: owner only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include <hearth/backends/scratch_memory.hpp>

#include "backends/gpu/launches/launch_stream.hpp"
#include "gpu_device.hpp"

namespace hearth::gpu {

class OwnScratch final : public ScratchMemory {
 public:
  /// Lifetime: the arguments outlive the scratch.
  OwnScratch(const GpuDevice& device, const LaunchStream& ops) noexcept
      : device_(device), ops_(ops) {}

  /// Errors: out_of_memory; those of the driver.
  [[nodiscard]] Result<std::byte*> take(std::int64_t size_bytes) override;
  void release() noexcept override {}

 private:
  struct Outgrown {
    std::unique_ptr<MemoryPiece> piece;
    std::uint64_t value;
  };

  const GpuDevice& device_;
  const LaunchStream& ops_;
  std::unique_ptr<MemoryPiece> piece_;
  std::deque<Outgrown> outgrown_;
};

}  // namespace hearth::gpu
