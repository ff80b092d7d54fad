// cuBLASLt's types and numbers: own declarations, as in cuda_types.hpp. Values. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_types.hpp"

namespace hearth::cuda {

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's own names
using cublasStatus_t = int;
using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque*;
struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96);
// NOLINTEND(readability-identifier-naming)

/// cudaDataType.
enum class BlasType : int { f32 = 0, f64 = 1, f16 = 2, i8 = 3, i32 = 10, bf16 = 14 };
/// cublasComputeType_t.
enum class BlasCompute : int { f32 = 68, f64 = 70, i32 = 72, f32_by_tf32 = 77 };
/// Attributes of a product, of a matrix and of a search.
inline constexpr int kTransposeA = 3;
inline constexpr int kTransposeB = 4;
inline constexpr int kEpilogue = 7;
inline constexpr int kAddsBias = 4;  // of kEpilogue
inline constexpr int kBiasPointer = 8;
inline constexpr int kBatchCount = 5;
inline constexpr int kBatchStride = 6;
inline constexpr int kMostWorkspace = 1;
inline constexpr int kReductionSchemes = 3;
inline constexpr int kAlignmentOfA = 5;  // then of b, c and d

}  // namespace hearth::cuda
