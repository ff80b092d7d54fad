// CUDA's types, as its driver and NVRTC have them: own declarations of a stable binary interface,
// so that a build needs no CUDA headers. Names and numbers are NVIDIA's. Values. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth::cuda {

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's own names
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmemGenericAllocationHandle = std::uint64_t;
using CUhostFn = void (*)(void* data);
struct CUuuid {
  char bytes[16];
};

struct CUmemLocation {
  int type = 1;  ///< CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;
};
struct CUmemAllocationProp {
  int type = 1;                  ///< CU_MEM_ALLOCATION_TYPE_PINNED
  int requestedHandleTypes = 0;  ///< CU_MEM_HANDLE_TYPE_NONE
  CUmemLocation location;
  void* win32HandleMetaData = nullptr;
  unsigned char allocFlags[8] = {};  ///< No compression, no RDMA.
};
static_assert(sizeof(CUmemAllocationProp) == 32);
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags = 3;  ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};
static_assert(sizeof(CUmemAccessDesc) == 12);

/// CUDA_KERNEL_NODE_PARAMS_v2.
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDim[3];
  unsigned blockDim[3];
  unsigned sharedMemBytes;
  void** kernelParams;
  void** extra;
  void* kern;
  CUcontext ctx;
};
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72);

using nvrtcResult = int;
using nvrtcProgram = struct _nvrtcProgram*;
// NOLINTEND(readability-identifier-naming)

inline constexpr CUresult kSuccess = 0;
inline constexpr CUresult kOutOfMemory = 2;
inline constexpr CUresult kNotReady = 600;

/// Attributes of cuDeviceGetAttribute.
enum class Attribute : int {
  max_threads_per_block = 1,
  max_shared_memory_per_block = 8,
  clock_rate = 13,
  multiprocessor_count = 16,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_block_optin = 97,
  virtual_memory_management_supported = 102,
};

}  // namespace hearth::cuda
