// The machine's part of CUDA's prelude, for kernels that g++ compiles and the host runs: each
// thread of a block is a fiber of host_driver.cpp. Included by the kernel's text.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

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

// Words of CUDA C++ that kernels of programs have.
#define __device__
#define __forceinline__
#define __shared__ static
#define __syncthreads() ::hearth_kernel::barrier()
struct HostIndex {
  unsigned x;
  unsigned y;
  unsigned z;
};
#define threadIdx (HostIndex{THREAD, 0, 0})

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
#define OF_MATH_LIBRARY(name) __builtin_##name
FN float near_div(float a, float b) {
  return a / b;
}
// A card refuses a store at another address than a multiple of its size.
FN void store_words(void* to, std::initializer_list<uint> words) {
  if (reinterpret_cast<std::uintptr_t>(to) % (words.size() * sizeof(uint)) != 0) {
    __builtin_trap();
  }
  std::memcpy(to, words.begin(), words.size() * sizeof(uint));
}
FN void store_16(void* to, uint x, uint y, uint z, uint w) {
  store_words(to, {x, y, z, w});
}
FN void store_8(void* to, uint x, uint y) {
  store_words(to, {x, y});
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
// ---- copies to shared memory, at their latest: when the thread waits for them ----

struct LateCopy {
  void* to;
  std::uint64_t from;
  uint bytes;
  bool is_inside;
};
struct LateCopies {
  LateCopy all[64];
  uint count;
};
inline LateCopies hearth_copies[1024];

FN void copy_late(void* to, std::uint64_t from, uint bytes, bool is_inside) {
  LateCopies& own = hearth_copies[THREAD];
  if (own.count == 64) {
    __builtin_trap();
  }
  own.all[own.count++] = LateCopy{to, from, bytes, is_inside};
}
FN void copy_16(void* to, std::uint64_t from, bool is_inside) {
  copy_late(to, from, 16, is_inside);
}
FN void copy_4(void* to, std::uint64_t from, bool is_inside) {
  copy_late(to, from, 4, is_inside);
}
/// The ends of the groups among the copies.
struct LateGroups {
  uint end[8];
  uint count;
};
inline LateGroups hearth_groups[1024];
FN void copies_end() {
  LateGroups& own = hearth_groups[THREAD];
  own.end[own.count++] = hearth_copies[THREAD].count;
}
template <int n>
FN void wait_copies() {
  LateCopies& own = hearth_copies[THREAD];
  LateGroups& groups = hearth_groups[THREAD];
  if (groups.count <= n) {
    return;
  }
  const uint ended = groups.count - n;
  const uint last = groups.end[ended - 1];
  for (uint i = 0; i < last; ++i) {
    if (own.all[i].is_inside) {
      std::memcpy(own.all[i].to, reinterpret_cast<const void*>(own.all[i].from), own.all[i].bytes);
    } else {
      std::memset(own.all[i].to, 0, own.all[i].bytes);
    }
  }
  for (uint i = last; i < own.count; ++i) {
    own.all[i - last] = own.all[i];
  }
  own.count -= last;
  for (uint i = ended; i < groups.count; ++i) {
    groups.end[i - ended] = groups.end[i] - last;
  }
  groups.count -= ended;
}

// ---- products of a warp, whose threads pass their operands through memory ----

inline constexpr uint kMostThreads = 1024;
struct WarpOperands {
  const void* row;
  uint a[4];
  uint b[2];
};
inline WarpOperands hearth_operands[kMostThreads];

FN uint short_at(uint pair, uint place) {
  return place % 2 == 0 ? pair & 0xffffU : pair >> 16U;
}
FN void load_matrices_as(uint* to, const void* row, bool is_turned) {
  const WarpOperands* const warp = &hearth_operands[THREAD / 32 * 32];
  const uint lane = THREAD % 32;
  hearth_operands[THREAD].row = row;
  warp_barrier();
  for (uint matrix = 0; matrix < 4; ++matrix) {
    uint pair[2];
    for (uint i = 0; i < 2; ++i) {
      const uint of_row = is_turned ? lane % 4 * 2 + i : lane / 4;
      const uint column = is_turned ? lane / 4 : lane % 4 * 2 + i;
      std::uint16_t element = 0;
      std::memcpy(&element,
                  static_cast<const char*>(warp[matrix * 8 + of_row].row) + 2 * column,
                  sizeof element);
      pair[i] = element;
    }
    to[matrix] = pair[0] | pair[1] << 16U;
  }
  warp_barrier();
}
FN void load_matrices(uint* to, const void* row) {
  load_matrices_as(to, row, false);
}
FN void load_matrices_turned(uint* to, const void* row) {
  load_matrices_as(to, row, true);
}
template <class Value>
FN void multiply_as(float* sum, const uint* a, uint b0, uint b1, Value value) {
  WarpOperands& own = hearth_operands[THREAD];
  const WarpOperands* const warp = &hearth_operands[THREAD / 32 * 32];
  const uint lane = THREAD % 32;
  std::memcpy(own.a, a, sizeof own.a);
  own.b[0] = b0;
  own.b[1] = b1;
  warp_barrier();
  for (uint e = 0; e < 4; ++e) {
    const uint row = lane / 4 + e / 2 * 8;
    const uint column = lane % 4 * 2 + e % 2;
    for (uint k = 0; k < 16; ++k) {
      const uint of_a = warp[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2];
      const uint of_b = warp[column * 4 + k % 8 / 2].b[k / 8];
      sum[e] += value(short_at(of_a, k)) * value(short_at(of_b, k));
    }
  }
  warp_barrier();
}
FN void multiply_f16(float* sum, const uint* a, uint b0, uint b1) {
  multiply_as(sum, a, b0, b1, [](uint bits) { return float_of_half(bits); });
}
FN void multiply_bf16(float* sum, const uint* a, uint b0, uint b1) {
  multiply_as(sum, a, b0, b1, [](uint bits) { return uintBitsToFloat(bits << 16U); });
}
FN void* global_memory(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace hearth_kernel
