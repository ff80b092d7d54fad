// CUDA's driver and NVRTC as tables of functions, found at run time. No function here waits for
// work of the device (cuStreamSynchronize and its like are missing on purpose: they have no
// deadline). Immutable once made. Threads: any.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "cuda_types.hpp"
#include "shared_library.hpp"

namespace hearth::cuda {

// Name, parameters. All return CUresult.
#define HEARTH_CUDA_FUNCTIONS(X)                                                                \
  X(cuInit, (unsigned flags))                                                                   \
  X(cuDriverGetVersion, (int* version))                                                         \
  X(cuGetErrorName, (CUresult error, const char** name))                                        \
  X(cuGetErrorString, (CUresult error, const char** text))                                      \
  X(cuDeviceGetCount, (int* count))                                                             \
  X(cuDeviceGet, (CUdevice * device, int ordinal))                                              \
  X(cuDeviceGetName, (char* name, int length, CUdevice device))                                 \
  X(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                       \
  X(cuDeviceGetAttribute, (int* value, int attribute, CUdevice device))                         \
  X(cuDeviceTotalMem_v2, (std::size_t * bytes, CUdevice device))                                \
  X(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned* flags, int* is_active))             \
  X(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags))                           \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                           \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                            \
  X(cuCtxSetCurrent, (CUcontext context))                                                       \
  X(cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))                                 \
  X(cuMemGetAllocationGranularity,                                                              \
    (std::size_t * bytes, const CUmemAllocationProp* properties, int option))                   \
  X(cuMemAddressReserve,                                                                        \
    (CUdeviceptr * address,                                                                     \
     std::size_t size,                                                                          \
     std::size_t alignment,                                                                     \
     CUdeviceptr wanted,                                                                        \
     unsigned long long flags))                                                                 \
  X(cuMemAddressFree, (CUdeviceptr address, std::size_t size))                                  \
  X(cuMemCreate,                                                                                \
    (CUmemGenericAllocationHandle * handle,                                                     \
     std::size_t size,                                                                          \
     const CUmemAllocationProp* properties,                                                     \
     unsigned long long flags))                                                                 \
  X(cuMemRelease, (CUmemGenericAllocationHandle handle))                                        \
  X(cuMemMap,                                                                                   \
    (CUdeviceptr address,                                                                       \
     std::size_t size,                                                                          \
     std::size_t offset,                                                                        \
     CUmemGenericAllocationHandle handle,                                                       \
     unsigned long long flags))                                                                 \
  X(cuMemUnmap, (CUdeviceptr address, std::size_t size))                                        \
  X(cuMemSetAccess,                                                                             \
    (CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access, std::size_t count))  \
  X(cuMemHostAlloc, (void** host, std::size_t size, unsigned flags))                            \
  X(cuMemFreeHost, (void* host))                                                                \
  X(cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void* host, unsigned flags))          \
  X(cuCtxGetStreamPriorityRange, (int* least, int* greatest))                                   \
  X(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))              \
  X(cuStreamDestroy_v2, (CUstream stream))                                                      \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                        \
  X(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void* data))                         \
  X(cuEventCreate, (CUevent * event, unsigned flags))                                           \
  X(cuEventDestroy_v2, (CUevent event))                                                         \
  X(cuEventRecord, (CUevent event, CUstream stream))                                            \
  X(cuEventQuery, (CUevent event))                                                              \
  X(cuEventElapsedTime, (float* milliseconds, CUevent begin, CUevent end))                      \
  X(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream))       \
  X(cuModuleLoadData, (CUmodule * module, const void* image))                                   \
  X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))            \
  X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                        \
  X(cuLaunchKernel,                                                                             \
    (CUfunction function,                                                                       \
     unsigned grid_x,                                                                           \
     unsigned grid_y,                                                                           \
     unsigned grid_z,                                                                           \
     unsigned block_x,                                                                          \
     unsigned block_y,                                                                          \
     unsigned block_z,                                                                          \
     unsigned shared_bytes,                                                                     \
     CUstream stream,                                                                           \
     void** parameters,                                                                         \
     void** extra))                                                                             \
  X(cuGraphCreate, (CUgraph * graph, unsigned flags))                                           \
  X(cuGraphDestroy, (CUgraph graph))                                                            \
  X(cuGraphAddKernelNode_v2,                                                                    \
    (CUgraphNode * node,                                                                        \
     CUgraph graph,                                                                             \
     const CUgraphNode* before,                                                                 \
     std::size_t count,                                                                         \
     const CUDA_KERNEL_NODE_PARAMS* parameters))                                                \
  X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags)) \
  X(cuGraphExecKernelNodeSetParams_v2,                                                          \
    (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters))            \
  X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                         \
  X(cuGraphExecDestroy, (CUgraphExec exec))

#define HEARTH_NVRTC_FUNCTIONS(X)                                                              \
  X(nvrtcVersion, (int* major, int* minor))                                                    \
  X(nvrtcGetNumSupportedArchs, (int* count))                                                   \
  X(nvrtcGetSupportedArchs, (int* architectures))                                              \
  X(nvrtcCreateProgram,                                                                        \
    (nvrtcProgram * program,                                                                   \
     const char* text,                                                                         \
     const char* name,                                                                         \
     int header_count,                                                                         \
     const char* const* headers,                                                               \
     const char* const* header_names))                                                         \
  X(nvrtcDestroyProgram, (nvrtcProgram * program))                                             \
  X(nvrtcCompileProgram, (nvrtcProgram program, int option_count, const char* const* options)) \
  X(nvrtcGetCUBINSize, (nvrtcProgram program, std::size_t * size))                             \
  X(nvrtcGetCUBIN, (nvrtcProgram program, char* bytes))                                        \
  X(nvrtcGetProgramLogSize, (nvrtcProgram program, std::size_t * size))                        \
  X(nvrtcGetProgramLog, (nvrtcProgram program, char* text))

#define HEARTH_CUDA_MEMBER(name, parameters) int(*name) parameters = nullptr;

/// CUDA's driver.
struct DriverApi {
  HEARTH_CUDA_FUNCTIONS(HEARTH_CUDA_MEMBER)

  /// Opens the driver's library and initialises CUDA.
  /// Errors: not_found, with the reason.
  [[nodiscard]] static Result<std::shared_ptr<const DriverApi>> open(const std::string& folder);
  /// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered (700)"
  [[nodiscard]] std::string text_of(CUresult result) const;

  std::string file;  ///< The library that was found.
  int version = 0;   ///< 13000 is 13.0.
};

/// NVIDIA's compiler of kernels.
struct NvrtcApi {
  HEARTH_NVRTC_FUNCTIONS(HEARTH_CUDA_MEMBER)

  /// Errors: not_found, with the reason.
  [[nodiscard]] static Result<std::shared_ptr<const NvrtcApi>> open(const std::string& folder);
  /// Opens a copy of the library's file, which has a lock of its own.
  /// Errors: not_found, if the file cannot be copied or the copy does not load.
  [[nodiscard]] Result<std::shared_ptr<const NvrtcApi>> open_copy() const;
  /// Reason why it cannot compile for the card, with the remedy; empty if it can.
  [[nodiscard]] std::string lack_for(int architecture, std::string_view card) const;

  std::string file;
  int version = 0;                 ///< 13000 is 13.0.
  std::vector<int> architectures;  ///< 90 is sm_90.
};
#undef HEARTH_CUDA_MEMBER

/// True for errors after which every call of the process fails, until it ends. Measured: a context
/// that is retained again fails with the same error.
[[nodiscard]] bool is_sticky(CUresult result) noexcept;

/// The error of a failed call: device_lost, out_of_memory, else kernel_failed.
[[nodiscard]] Error failed(const DriverApi& api,
                           std::string_view device,
                           std::string_view call,
                           CUresult result);

}  // namespace hearth::cuda
