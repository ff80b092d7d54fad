// Large products by OpenBLAS, where it is faster than our own tiles: below AVX-512. Called from our
// arena, one thread a call. Threads: any. Invariant: only the pthread build is called. The serial
// build gives wrong sums to several callers at once, the OpenMP build crawls.
#pragma once

#include "gemm.hpp"

#include <string>
#include <string_view>

namespace hearth::cpu {

struct BlasStatus {
  bool usable = false;
  std::string description;    ///< "OpenBLAS 0.3.21 (pthread build)", or why it is not used.
  std::string core = {};      ///< The processor that its kernels are for: "Haswell".
  std::string starving = {};  ///< Why the process would never end; empty where it does.
};

/// Looks once at the library that was loaded, and sets it to one thread.
[[nodiscard]] const BlasStatus& blas_status();
/// What a device of this level says of its products: the library, or why it goes without.
[[nodiscard]] std::string describe_products(IsaLevel isa);

/// Whether kernels that OpenBLAS has for this core ("Haswell") may beat our tiles at this level. It
/// takes a processor that is younger than itself for one without AVX.
[[nodiscard]] bool is_worthy_blas_core(std::string_view core, IsaLevel isa) noexcept;

/// Whether this product should go to OpenBLAS: large, of T alone, rows or columns contiguous.
template <class T>
[[nodiscard]] bool blas_suits(const Gemm<T>& gemm, IsaLevel isa) noexcept;

/// Runs a product that suits, cut by size. Requires blas_status().usable.
template <class T>
void run_blas_gemm(const Gemm<T>& gemm, Arena* arena);

}  // namespace hearth::cpu
