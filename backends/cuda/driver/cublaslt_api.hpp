// cuBLASLt as a table of functions, found at run time. Immutable once made. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <hearth/runtime/base/result.hpp>

#include "cublaslt_types.hpp"

namespace hearth::cuda {

#define HEARTH_CUBLASLT_FUNCTIONS(X)                                                             \
  X(cublasLtCreate, (cublasLtHandle_t * handle))                                                 \
  X(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * product, int compute, int scale_type))     \
  X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t product))                                   \
  X(cublasLtMatmulDescSetAttribute,                                                              \
    (cublasLtMatmulDesc_t product, int attribute, const void* value, std::size_t size))          \
  X(cublasLtMatrixLayoutCreate,                                                                  \
    (cublasLtMatrixLayout_t * matrix,                                                            \
     int type,                                                                                   \
     std::uint64_t rows,                                                                         \
     std::uint64_t columns,                                                                      \
     std::int64_t stride))                                                                       \
  X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t matrix))                                \
  X(cublasLtMatrixLayoutSetAttribute,                                                            \
    (cublasLtMatrixLayout_t matrix, int attribute, const void* value, std::size_t size))         \
  X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))                   \
  X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                    \
  X(cublasLtMatmulPreferenceSetAttribute,                                                        \
    (cublasLtMatmulPreference_t preference, int attribute, const void* value, std::size_t size)) \
  X(cublasLtMatmulAlgoGetHeuristic,                                                              \
    (cublasLtHandle_t handle,                                                                    \
     cublasLtMatmulDesc_t product,                                                               \
     cublasLtMatrixLayout_t a,                                                                   \
     cublasLtMatrixLayout_t b,                                                                   \
     cublasLtMatrixLayout_t c,                                                                   \
     cublasLtMatrixLayout_t d,                                                                   \
     cublasLtMatmulPreference_t preference,                                                      \
     int wanted,                                                                                 \
     cublasLtMatmulHeuristicResult_t* results,                                                   \
     int* found))                                                                                \
  X(cublasLtMatmul,                                                                              \
    (cublasLtHandle_t handle,                                                                    \
     cublasLtMatmulDesc_t product,                                                               \
     const void* alpha,                                                                          \
     const void* a_address,                                                                      \
     cublasLtMatrixLayout_t a,                                                                   \
     const void* b_address,                                                                      \
     cublasLtMatrixLayout_t b,                                                                   \
     const void* beta,                                                                           \
     const void* c_address,                                                                      \
     cublasLtMatrixLayout_t c,                                                                   \
     void* d_address,                                                                            \
     cublasLtMatrixLayout_t d,                                                                   \
     const cublasLtMatmulAlgo_t* algo,                                                           \
     void* workspace,                                                                            \
     std::size_t workspace_size,                                                                 \
     CUstream stream))

#define HEARTH_CUDA_MEMBER(name, parameters) int(*name) parameters = nullptr;
struct CublasLtApi {
  HEARTH_CUBLASLT_FUNCTIONS(HEARTH_CUDA_MEMBER)

  /// Errors: not_found, with the reason.
  [[nodiscard]] static Result<std::shared_ptr<const CublasLtApi>> open(const std::string& folder);

  std::string file;
  std::size_t version = 0;  ///< 130100 is 13.1.
};
#undef HEARTH_CUDA_MEMBER

}  // namespace hearth::cuda
