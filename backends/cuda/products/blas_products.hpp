// Products by cuBLASLt: the plans of its heuristics, kept by their sizes and strides. The library
// is opened when a product is first asked for. Threads: any, several at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <hearth/runtime/base/sync.hpp>

#include "backends/cuda/device/cuda_device.hpp"
#include "backends/cuda/driver/cublaslt_api.hpp"
#include "backends/gpu/encoder/library_product.hpp"

namespace hearth::cuda {

/// The parameters of a product's dispatch (gpu::Dispatch::call).
struct BlasAddresses {
  std::uint64_t a;
  std::uint64_t b;
  std::uint64_t y;
  std::uint64_t bias;  ///< 0: none.
  std::uint64_t scratch;
};

/// A product that the library has planned.
class BlasCall final : public gpu::LibraryCall {
 public:
  BlasCall(std::shared_ptr<const CublasLtApi> api, cublasLtHandle_t handle);
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;
  ~BlasCall() override;

  [[nodiscard]] std::int64_t scratch_bytes() const noexcept override {
    return static_cast<std::int64_t>(plan_.workspaceSize);
  }
  /// Puts the product into a stream. Returns the library's status; 0: success.
  /// Threads: one at a time.
  [[nodiscard]] int run(CUstream stream, const BlasAddresses& addresses) const noexcept;

 private:
  friend class BlasProducts;

  std::shared_ptr<const CublasLtApi> api_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t product_ = nullptr;
  std::array<cublasLtMatrixLayout_t, 3> matrices_{};  ///< The library's a and b, and the result.
  cublasLtMatmulHeuristicResult_t plan_{};
  bool is_double_ = false;
  bool is_integer_ = false;
};

class BlasProducts final : public gpu::ProductLibrary {
 public:
  explicit BlasProducts(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}

  [[nodiscard]] const gpu::LibraryCall* find(const gpu::LibraryProduct& product) override
      HEARTH_EXCLUDES(mutex_);
  /// The library's file, or why there is none; empty if no product asked for it yet.
  [[nodiscard]] std::string description() const HEARTH_EXCLUDES(mutex_);

 private:
  /// Type, sizes, strides and alignments; whether there is a bias.
  using Key = std::array<std::int64_t, 15>;

  [[nodiscard]] bool open() HEARTH_REQUIRES(mutex_);
  [[nodiscard]] std::unique_ptr<BlasCall> plan(const gpu::LibraryProduct& product) const
      HEARTH_REQUIRES(mutex_);

  std::shared_ptr<const CudaDevice> device_;
  mutable hearth::detail::Mutex mutex_;
  std::shared_ptr<const CublasLtApi> api_ HEARTH_GUARDED_BY(mutex_);
  cublasLtHandle_t handle_ HEARTH_GUARDED_BY(mutex_) = nullptr;
  std::optional<std::string> lack_ HEARTH_GUARDED_BY(mutex_);
  std::map<Key, std::unique_ptr<BlasCall>> calls_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::cuda
