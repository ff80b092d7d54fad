// Large products by OpenBLAS, where it is faster than our own tiles: below AVX-512. Our arena calls
// it, one thread a call. Threads: any. Invariant: only the pthread build is called. The serial
// build gives wrong sums to concurrent callers; the OpenMP build is very slow.
#pragma once

#include "gemm.hpp"

#include <string>
#include <string_view>

namespace hearth::cpu {

struct BlasStatus {
  bool usable = false;
  std::string description;  ///< "OpenBLAS 0.3.21 (pthread build)", or why it is not used.
  std::string core = {};    ///< Processor that OpenBLAS selected its kernels for: "Haswell".
  /// Why the process could not exit (threads without memory); empty if it can.
  std::string starving = {};
};

/// Inspects the loaded library once, and sets it to one thread.
[[nodiscard]] const BlasStatus& blas_status();
/// Returns the description of products of a device of this level: the library, or why it is not
/// used.
[[nodiscard]] std::string describe_products(IsaLevel isa);

/// Returns whether OpenBLAS's kernels for this core ("Haswell") may beat our tiles at this level.
/// OpenBLAS takes a processor newer than itself for one without AVX.
[[nodiscard]] bool is_worthy_blas_core(std::string_view core, IsaLevel isa) noexcept;

/// Returns whether OpenBLAS should run this product, a [m, k]·b [k, n]: large, of T alone, rows or
/// columns contiguous.
template <class T>
[[nodiscard]] bool blas_suits(std::int64_t m,
                              std::int64_t n,
                              std::int64_t k,
                              const GemmOperand& a,
                              const GemmOperand& b,
                              IsaLevel isa) noexcept;

/// Runs a suitable product, cut by size. Requires blas_status().usable.
template <class T>
void run_blas_gemm(const Gemm<T>& gemm, Arena* arena);

}  // namespace hearth::cpu
