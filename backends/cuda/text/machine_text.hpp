// The machine's part of CUDA's prelude: threads, shared memory, and the functions that are single
// instructions. Constants. Threads: any.
#pragma once

#include <string_view>

namespace hearth::cuda {

// NVRTC has the built-in names of CUDA. clang's front end runs without CUDA's headers, so it gets
// the same from its own built-in functions.
inline constexpr std::string_view kMachine = R"(
typedef unsigned int uint;
#ifdef HEARTH_MACHINE
#include HEARTH_MACHINE
namespace hearth_kernel {
#else
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef long int64_t;
typedef unsigned long uint64_t;
#ifdef __CUDACC_RTC__
#define FN __device__ __forceinline__
#define KERNEL_ENTRY extern "C" __global__ void __launch_bounds__(GROUP_THREADS, GROUP_BLOCKS)
#define BY_VALUE const __grid_constant__
#define SHARED_MEMORY __shared__
#define UNROLLED _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
namespace hearth_kernel {
#define THREAD (threadIdx.x)
#define GROUP (blockIdx.y * 0x7fffffffu + blockIdx.x)
FN void barrier() { __syncthreads(); }
FN void warp_barrier() { __syncwarp(); }
FN uint shuffle_xor(uint x, uint bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
FN float uintBitsToFloat(uint x) { return __uint_as_float(x); }
FN uint floatBitsToUint(float x) { return __float_as_uint(x); }
FN double uint64BitsToDouble(uint64_t x) { return __longlong_as_double((long long)x); }
FN uint64_t doubleBitsToUint64(double x) { return (uint64_t)__double_as_longlong(x); }
FN float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
FN double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
FN float sqrt(float x) { return __fsqrt_rn(x); }
FN double sqrt(double x) { return __dsqrt_rn(x); }
FN float floor(float x) { return ::floorf(x); }
FN double floor(double x) { return ::floor(x); }
FN float ceil(float x) { return ::ceilf(x); }
FN double ceil(double x) { return ::ceil(x); }
FN float abs(float x) { return ::fabsf(x); }
FN double abs(double x) { return ::fabs(x); }
FN uint high_of_product(uint a, uint b) { return __umulhi(a, b); }
FN int findMSB(uint x) { return 31 - __clz((int)x); }
FN uint atomicCompSwap(uint& at, uint expected, uint wanted) {
  return ::atomicCAS(&at, expected, wanted);
}
FN uint atomicAdd(uint& at, uint x) { return ::atomicAdd(&at, x); }
FN void* global_memory(uint64_t address) { return __cvta_global_to_generic(address); }
FN uint shared_address(const void* at) { return (uint)__cvta_generic_to_shared(at); }
FN uint64_t global_address(const void* at) { return __cvta_generic_to_global(at); }
FN float exp2(float x) { return ::exp2f(x); }
FN float log2(float x) { return ::__log2f(x); }
FN float near_div(float a, float b) { return ::__fdividef(a, b); }
#define OF_MATH_LIBRARY(name) ::name
#else
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define FN __device__ inline __attribute__((always_inline))
#define KERNEL_ENTRY extern "C" __global__ void __attribute__((launch_bounds(GROUP_THREADS)))
#define BY_VALUE const
#define SHARED_MEMORY static __shared__
#define UNROLLED _Pragma("unroll")
#define ROLLED _Pragma("nounroll")
namespace hearth_kernel {
#define THREAD ((uint)__nvvm_read_ptx_sreg_tid_x())
#define GROUP ((uint)__nvvm_read_ptx_sreg_ctaid_y() * 0x7fffffffu + (uint)__nvvm_read_ptx_sreg_ctaid_x())
FN void barrier() { __nvvm_bar_sync(0); }
FN void warp_barrier() { __nvvm_bar_warp_sync(0xffffffffu); }
FN uint shuffle_xor(uint x, uint bits) {
  return (uint)__nvvm_shfl_sync_bfly_i32(0xffffffffu, (int)x, (int)bits, 31);
}
FN float uintBitsToFloat(uint x) { return __builtin_bit_cast(float, x); }
FN uint floatBitsToUint(float x) { return __builtin_bit_cast(uint, x); }
FN double uint64BitsToDouble(uint64_t x) { return __builtin_bit_cast(double, x); }
FN uint64_t doubleBitsToUint64(double x) { return __builtin_bit_cast(uint64_t, x); }
FN float fma(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }
FN double fma(double a, double b, double c) { return __nvvm_fma_rn_d(a, b, c); }
FN float sqrt(float x) { return __nvvm_sqrt_rn_f(x); }
FN double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
FN float floor(float x) { return __nvvm_floor_f(x); }
FN double floor(double x) { return __nvvm_floor_d(x); }
FN float ceil(float x) { return __nvvm_ceil_f(x); }
FN double ceil(double x) { return __nvvm_ceil_d(x); }
FN float abs(float x) { return __builtin_fabsf(x); }
FN double abs(double x) { return __builtin_fabs(x); }
FN uint high_of_product(uint a, uint b) { return (uint)(((uint64_t)a * (uint64_t)b) >> 32); }
FN int findMSB(uint x) { return x == 0u ? -1 : 31 - __builtin_clz(x); }
FN uint atomicCompSwap(uint& at, uint expected, uint wanted) {
  return (uint)__nvvm_atom_cas_gen_i((int*)&at, (int)expected, (int)wanted);
}
FN uint atomicAdd(uint& at, uint x) { return (uint)__nvvm_atom_add_gen_i((int*)&at, (int)x); }
FN void* global_memory(uint64_t address) { return (void*)(__attribute__((address_space(1))) void*)address; }
FN uint shared_address(const void* at) {
  return (uint)(uint64_t)(__attribute__((address_space(3))) const void*)at;
}
FN uint64_t global_address(const void* at) {
  return (uint64_t)(__attribute__((address_space(1))) const void*)at;
}
FN float exp2(float x) { return __nvvm_ex2_approx_f(x); }
FN float log2(float x) { return __nvvm_lg2_approx_f(x); }
FN float near_div(float a, float b) { return __nvvm_div_approx_f(a, b); }
#define OF_MATH_LIBRARY(name) __nv_##name
#define DECLARED(name) \
  extern "C" __device__ float __nv_##name##f(float); \
  extern "C" __device__ double __nv_##name(double);
DECLARED(exp) DECLARED(log) DECLARED(log1p) DECLARED(expm1)
DECLARED(sin) DECLARED(cos) DECLARED(tanh) DECLARED(erf)
extern "C" __device__ float __nv_powf(float, float);
extern "C" __device__ double __nv_pow(double, double);
#endif
// One store of 16 or 8 bytes. Of words that were floats the compiler makes four stores.
FN void store_16(void* to, uint x, uint y, uint z, uint w) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :: "l"(global_address(to)), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
FN void store_8(void* to, uint x, uint y) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};"
               :: "l"(global_address(to)), "r"(x), "r"(y) : "memory");
}
// Copies a word of 16 or 4 bytes to shared memory while the kernel goes on, or zeros. A barrier
// behind wait_copies() lets the block's threads see the words. copies_end() ends a group of copies;
// wait_copies<n>() waits until at most n of the last groups are on their way.
FN void copy_16(void* to, uint64_t from, bool is_inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(shared_address(to)), "l"(from), "r"(is_inside ? 16 : 0) : "memory");
}
FN void copy_4(void* to, uint64_t from, bool is_inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"(shared_address(to)), "l"(from), "r"(is_inside ? 4 : 0) : "memory");
}
FN void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int n> FN void wait_copies() {
  asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory");
}
// Four matrices of 8 x 8 elements of 16 bits. Thread i names the i-th row, of 16 bytes; it gets two
// neighbours of each matrix: of row i / 4, or of column i / 4 of turned matrices.
FN void load_matrices(uint* to, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
FN void load_matrices_turned(uint* to, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
// Adds the product of 16 x 16 and 16 x 8 elements, by a warp, to 16 x 8 sums.
#define HEARTH_WARP_PRODUCT(name, type) \
  FN void name(float* sum, const uint* a, uint b0, uint b1) { \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \
  }
HEARTH_WARP_PRODUCT(multiply_f16, "f16")
HEARTH_WARP_PRODUCT(multiply_bf16, "bf16")
#if __CUDA_ARCH__ >= 800
#define CONVERTS_BF16
FN uint pack_bf16(float low, float high) {
  uint y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
#endif
FN uint half_of_float(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
FN float float_of_half(uint x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)x));
  return y;
}
#endif
)";

/// GROUP_BLOCKS: blocks that a multiprocessor shall have room for, which bounds the registers.
inline constexpr std::string_view kEntry = R"(
#ifndef GROUP_BLOCKS
#define GROUP_BLOCKS 1
#endif
KERNEL_ENTRY kernel_entry(BY_VALUE hearth_kernel::Kernel::Parameters p) {
  hearth_kernel::Kernel kernel(p);
  kernel.main();
}
#ifdef HEARTH_MACHINE
extern "C" void kernel_entry_at(const void* parameters) {
  kernel_entry(*(const hearth_kernel::Kernel::Parameters*)parameters);
}
extern "C" unsigned kernel_parameter_bytes() { return sizeof(hearth_kernel::Kernel::Parameters); }
#endif
)";

}  // namespace hearth::cuda
