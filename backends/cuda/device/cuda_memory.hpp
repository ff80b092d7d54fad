// Pieces of memory of a CUDA device: ranges of addresses with pages of the device behind them, and
// pinned memory of the host. Making and freeing device memory never waits for the device's work;
// freeing pinned memory does, so that is done only when no work runs. Threads: any.
#pragma once

#include <cstddef>
#include <memory>

#include <hearth/runtime/base/result.hpp>

#include "backends/gpu/device/memory_piece.hpp"
#include "cuda_device.hpp"

namespace hearth::cuda {

/// Device memory that the host does not see. `granularity`: pages have a multiple of these bytes.
/// Errors: out_of_memory; those of CUDA.
[[nodiscard]] Result<std::unique_ptr<gpu::MemoryPiece>> make_device_memory(
    std::shared_ptr<const CudaDevice> device,
    CUdevice handle,
    std::size_t size,
    std::size_t granularity);

/// Pinned host memory that kernels reach by its address.
/// Errors: out_of_memory; those of CUDA.
[[nodiscard]] Result<std::unique_ptr<gpu::MemoryPiece>> make_host_memory(
    std::shared_ptr<const CudaDevice> device, std::size_t size);

}  // namespace hearth::cuda
