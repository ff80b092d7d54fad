// One matrix product of the CPU backend in any float dtype, or of i8: chooses its form, returns its
// scratch size, runs it. Threads: owner only. Invariant: the form depends on sizes, strides and
// dtypes alone.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"
#include "gemm.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hearth::cpu {

/// c[m, n] = a[m, k]·b[k, n] + bias[n]; c is row-major and contiguous, of the operands' dtype. For
/// i8, c is i32 and there is no bias.
struct MatmulProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmOperand a;
  GemmOperand b;
  std::byte* c = nullptr;
  const std::byte* bias = nullptr;  ///< nullptr: none.
  std::int64_t bias_step = 0;
  BlockSink sink = {};
  ProducedRows rows = {};  ///< Producer of a, which then has no bytes and no gaps.

  [[nodiscard]] double flops() const noexcept {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

/// Choice among ways to compute a product by register tiles.
struct ProductChoice {
  bool is_swapped = false;  ///< Computes cᵀ = bᵀ·aᵀ and transposes it.
  GemmChoice gemm = {};

  friend bool operator==(const ProductChoice&, const ProductChoice&) = default;
};

/// A choice without a by_size, and the scratch memory with it.
struct ProductPlan {
  ProductChoice choice = {};
  std::int64_t scratch_bytes = 0;
};

/// Returns the plan of the rule. Nothing for i8, and where the rule does not choose register tiles.
[[nodiscard]] std::optional<ProductPlan> rule_plan(const MatmulProduct& product,
                                                   const KernelContext& context) noexcept;
/// Returns the plan of a choice that the product may follow, and which differs from the rule's.
/// The result's bits are then those of the rule. Products with an epilogue or a prologue allow
/// none.
[[nodiscard]] std::optional<ProductPlan> other_plan(const MatmulProduct& product,
                                                    const KernelContext& context,
                                                    const ProductChoice& rule,
                                                    const ProductChoice& choice) noexcept;
/// Returns whether the product may follow the choice, by other_plan().
[[nodiscard]] bool allows(const MatmulProduct& product,
                          const KernelContext& context,
                          const ProductChoice& choice) noexcept;

[[nodiscard]] std::int64_t matmul_scratch_bytes(const MatmulProduct& product,
                                                const KernelContext& context) noexcept;

/// Runs the product. Requires m, n > 0, and an arena if a prologue computes rows. arena: that of
/// the context, or nullptr to stay on this thread, which may be any.
void run_matmul(const MatmulProduct& product,
                const KernelContext& context,
                std::byte* scratch,
                Arena* arena);

}  // namespace hearth::cpu
