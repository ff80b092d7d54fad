// Declarations shared by the contraction sources of one instruction set. Included by sources of
// ISA_SOURCES only. Threads: any; pure functions.
#pragma once

#include "gemm_tiles.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

// The members of TileKernels, for T = float and double.
template <class T>
void multiply(const Tile<T>& tile);
template <class T>
void pack(const Pack& pack, DType from, T* to);
template <class T>
void thin_dot(const Thin<T>& thin, DType w);
template <class T>
void thin_axpy(const Thin<T>& thin, DType w);
template <class T>
void transpose(const T* from,
               std::int64_t from_step,
               T* to,
               std::int64_t to_step,
               std::int64_t rows,
               std::int64_t columns);
template <class T>
void load_elements(const std::byte* from, DType dtype, T* to, std::int64_t count);
template <class T>
void store_elements(const T* from, std::byte* to, DType dtype, std::int64_t count);

}  // namespace hearth::cpu::HEARTH_CPU_ISA
