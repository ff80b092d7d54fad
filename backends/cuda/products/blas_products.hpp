// Products by cuBLASLt: the plans of its heuristics, kept by their sizes and strides. The first
// product opens the library. Threads: any, several at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include <hearth/runtime/base/log.hpp>
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
  /// `log` receives refused algorithms; may be null.
  BlasCall(std::shared_ptr<const CublasLtApi> api,
           cublasLtHandle_t handle,
           hearth::detail::Log* log);
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;
  ~BlasCall() override;

  [[nodiscard]] std::int64_t scratch_bytes() const noexcept override {
    return static_cast<std::int64_t>(workspace_bytes_);
  }
  /// Puts the product into a stream, by the first algorithm that the library does not refuse.
  /// Returns its last status; 0: success. Threads: one at a time.
  [[nodiscard]] int run(CUstream stream, const BlasAddresses& addresses) const;

 private:
  friend class BlasProducts;
  static constexpr int kMostAlgorithms = 4;

  [[nodiscard]] int run_by(const cublasLtMatmulHeuristicResult_t* algorithm,
                           CUstream stream,
                           const BlasAddresses& addresses) const noexcept;
  std::shared_ptr<const CublasLtApi> api_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t product_ = nullptr;
  std::array<cublasLtMatrixLayout_t, 3> matrices_{};  ///< The library's a and b, and the result.
  hearth::detail::Log* log_;
  /// The best first, by the library's heuristics.
  std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> algorithms_{};
  int algorithm_count_ = 0;
  mutable int first_ = 0;  ///< Index of the first algorithm that was not refused.
  std::size_t workspace_bytes_ = 0;
  bool is_double_ = false;
  bool is_integer_ = false;
};

class BlasProducts final : public gpu::ProductLibrary {
 public:
  /// `log` gets one warning if there is no library; may be null, else outlives the products.
  BlasProducts(std::shared_ptr<const CudaDevice> device, hearth::detail::Log* log)
      : device_(std::move(device)), log_(log) {}

  [[nodiscard]] const gpu::LibraryCall* find(const gpu::LibraryProduct& product) override
      HEARTH_EXCLUDES(mutex_);

 private:
  /// Type, sizes, strides and alignments; whether there is a bias.
  using Key = std::array<std::int64_t, 16>;

  /// Opens the library once. Returns false, and warns the first time, if it cannot be used.
  [[nodiscard]] bool open() HEARTH_REQUIRES(mutex_);
  static void keep_usable(BlasCall& call);
  [[nodiscard]] Status open_library() HEARTH_REQUIRES(mutex_);
  [[nodiscard]] std::unique_ptr<BlasCall> plan(const gpu::LibraryProduct& product) const
      HEARTH_REQUIRES(mutex_);

  std::shared_ptr<const CudaDevice> device_;
  hearth::detail::Log* log_;
  hearth::detail::Mutex mutex_;
  std::shared_ptr<const CublasLtApi> api_ HEARTH_GUARDED_BY(mutex_);
  cublasLtHandle_t handle_ HEARTH_GUARDED_BY(mutex_) = nullptr;
  bool was_tried_ HEARTH_GUARDED_BY(mutex_) = false;  ///< Whether open() ran.
  std::map<Key, std::unique_ptr<BlasCall>> calls_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::cuda
