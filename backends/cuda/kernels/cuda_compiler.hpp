// Kernels by NVRTC: from a text to a cubin of the device's architecture, and from a cubin to a
// function. Kernels stay loaded as long as the card's context.
// Threads: any, several at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/result.hpp>

#include "backends/cuda/device/cuda_device.hpp"
#include "backends/cuda/driver/cuda_api.hpp"
#include "backends/gpu/store/kernel_compiler.hpp"
#include "nvrtc_copies.hpp"

namespace hearth::cuda {

class CudaCompiler final : public gpu::KernelCompiler {
 public:
  /// `log` receives warnings; may be null, else outlives the compiler.
  /// Errors: not_found, without NVRTC; unsupported, if it is older than the device.
  [[nodiscard]] static Result<std::shared_ptr<CudaCompiler>> make(
      std::shared_ptr<const CudaDevice> device, hearth::detail::Log* log);

  CudaCompiler(std::shared_ptr<const CudaDevice> device,
               std::shared_ptr<const NvrtcApi> nvrtc,
               hearth::detail::Log* log);

  [[nodiscard]] const gpu::CompilerIdentity& identity() const noexcept override {
    return identity_;
  }
  [[nodiscard]] std::string whole_text(gpu::KernelFamily family, std::string text) const override;
  [[nodiscard]] Result<gpu::KernelModule> compile(gpu::KernelFamily family,
                                                  const std::string& text) const override;
  [[nodiscard]] Status check(gpu::KernelFamily family,
                             const gpu::KernelModule& module) const override;
  [[nodiscard]] Result<gpu::KernelHandle> load(const gpu::KernelModule& module) override;
  void open_cache(const std::filesystem::path& folder) override;
  void add_unsaved(gpu::CacheSave& to) override;

  /// The file and version of NVRTC.
  [[nodiscard]] std::string description() const;

 private:
  std::shared_ptr<const CudaDevice> device_;
  std::shared_ptr<const NvrtcApi> nvrtc_;
  std::shared_ptr<NvrtcCopies> copies_;  ///< One nvrtc_ for each of several threads.
  hearth::detail::Log* log_;
  std::string architecture_;  ///< "sm_90a"
  gpu::CompilerIdentity identity_;
};

/// A KernelHandle is the address of a kernel.
[[nodiscard]] inline const CudaKernel& kernel_of(gpu::KernelHandle handle) noexcept {
  return *reinterpret_cast<const CudaKernel*>(handle);  // NOLINT: its address
}

}  // namespace hearth::cuda
