// The machine's part of CUDA's prelude, for kernels that g++ compiles and the host runs: each
// thread of a block is a fiber of host_driver.cpp. Included by the kernel's text.
#pragma once

#include <cstdint>
#include <cstring>

#include "host_machine_thread.hpp"

extern "C" {
/// The thread that runs now. The driver sets it before it resumes a fiber.
extern HostThread* hearth_host_thread;
HostThread* hearth_host_thread = nullptr;
}

#define FN inline
#define KERNEL_ENTRY static void
#define BY_VALUE const
#define UNROLLED
#define ROLLED
#define THREAD (hearth_host_thread->thread)
#define GROUP (hearth_host_thread->group)
#define SHARED_MEMORY static

namespace hearth_kernel {

FN void barrier() {
  hearth_host_thread->barrier();
}
FN void warp_barrier() {
  hearth_host_thread->warp_barrier();
}
FN uint shuffle_xor(uint x, uint bits) {
  return hearth_host_thread->shuffle_xor(x, bits);
}
template <class To, class From>
FN To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
FN float uintBitsToFloat(uint x) {
  return bits_as<float>(x);
}
FN uint floatBitsToUint(float x) {
  return bits_as<uint>(x);
}
FN double uint64BitsToDouble(std::uint64_t x) {
  return bits_as<double>(x);
}
FN std::uint64_t doubleBitsToUint64(double x) {
  return bits_as<std::uint64_t>(x);
}
FN float fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
FN double fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
FN float sqrt(float x) {
  return __builtin_sqrtf(x);
}
FN double sqrt(double x) {
  return __builtin_sqrt(x);
}
FN float floor(float x) {
  return __builtin_floorf(x);
}
FN double floor(double x) {
  return __builtin_floor(x);
}
FN float ceil(float x) {
  return __builtin_ceilf(x);
}
FN double ceil(double x) {
  return __builtin_ceil(x);
}
FN float abs(float x) {
  return __builtin_fabsf(x);
}
FN double abs(double x) {
  return __builtin_fabs(x);
}
FN float exp2(float x) {
  return __builtin_exp2f(x);
}
FN float log2(float x) {
  return __builtin_log2f(x);
}
FN uint high_of_product(uint a, uint b) {
  return static_cast<uint>(std::uint64_t{a} * std::uint64_t{b} >> 32U);
}
FN int findMSB(uint x) {
  return x == 0U ? -1 : 31 - __builtin_clz(x);
}
FN uint half_of_float(float x) {
  return bits_as<std::uint16_t>(static_cast<_Float16>(x));
}
FN float float_of_half(uint x) {
  return static_cast<float>(bits_as<_Float16>(static_cast<std::uint16_t>(x)));
}
FN uint atomicCompSwap(uint& at, uint expected, uint wanted) {
  const uint before = at;
  at = before == expected ? wanted : before;
  return before;
}
FN uint atomicAdd(uint& at, uint x) {
  const uint before = at;
  at += x;
  return before;
}
FN void* global_memory(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace hearth_kernel
