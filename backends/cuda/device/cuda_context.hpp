// The primary context of a card, and the kernels that are loaded into it. All devices of the
// process on one card share it, so does a restarted device with the one before it: unloading a
// kernel would wait for all work of the card, and a context that is held goes on. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/sync.hpp>

#include "backends/cuda/driver/cuda_api.hpp"

namespace hearth::cuda {

/// A loaded kernel.
struct CudaKernel {
  CUfunction function = nullptr;
  unsigned threads = 0;       ///< Number in a block.
  unsigned shared_bytes = 0;  ///< Memory of a block whose size a launch names.
};

class CudaContext final {
 public:
  /// The context of a card; retains it if no device of the process has it.
  /// Errors: those of CUDA, with the device's name.
  [[nodiscard]] static Result<std::shared_ptr<CudaContext>> of(std::shared_ptr<const DriverApi> api,
                                                               std::string_view device,
                                                               CUdevice handle);

  CudaContext(std::shared_ptr<const DriverApi> api, CUdevice card, CUcontext context) noexcept;
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  /// Releases the context, and the kernels with it.
  ~CudaContext();

  [[nodiscard]] CUcontext handle() const noexcept { return context_; }
  /// Loads a cubin whose entry has this name, or returns the kernel of an equal one. `kernel` has
  /// its numbers, without the function. Requires the context to be current. Lifetime of the kernel:
  /// that of the context.
  /// Errors: those of CUDA, with the device's name.
  [[nodiscard]] Result<const CudaKernel*> load(std::string_view device,
                                               std::span<const std::uint32_t> cubin,
                                               const char* entry,
                                               CudaKernel kernel) HEARTH_EXCLUDES(mutex_);

 private:
  using Key = std::pair<std::uint64_t, std::size_t>;  // hash and size of a cubin

  std::shared_ptr<const DriverApi> api_;
  CUdevice card_;
  CUcontext context_;
  hearth::detail::Mutex mutex_;
  std::map<Key, CudaKernel> kernels_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::cuda
