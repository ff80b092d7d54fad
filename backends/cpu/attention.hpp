// Attention without the matrix of scores in memory: blocks of queries walk over blocks of keys, and
// what was summed so far is scaled whenever a larger score turns up.
// Papers: Milakov, Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867; Dao et
// al., FlashAttention, arXiv:2205.14135. Private to backends/cpu. Threads: owner only; forks in the
// device's arena. Invariant: blocks follow from sizes alone, so the bits do not depend on the
// cores.
#pragma once

#include "attention_operands.hpp"
#include "kernel_table.hpp"

namespace hearth::cpu {

inline constexpr std::int64_t kAttentionRows = 64;
inline constexpr std::int64_t kAttentionKeys = 256;

/// A product inside a block, on one thread. Nothing happens where it has no elements; without depth
/// it is 0, or leaves what it is added to.
template <class T>
void block_product(const Gemm<T>& product, const TileKernels<T>& kernels, std::byte* scratch);

/// What is asked of one block: `rows` queries and `keys` keys.
struct BlockSize {
  std::int64_t rows;
  std::int64_t keys;
};
/// The scratch that products need, in bytes: the most of all block sizes of a call. `of` gives the
/// product numbered `index` of `product_count` for a block size.
template <class T, class ProductOf>
[[nodiscard]] std::int64_t product_scratch_bytes(const AttentionSizes& sizes,
                                                 int product_count,
                                                 const TileKernels<T>& kernels,
                                                 const ProductOf& of) {
  const auto sides = [](std::int64_t size, std::int64_t block) {
    const std::int64_t last = size % block;
    return std::array{size < block ? size : block, last == 0 ? block : last};
  };
  std::int64_t bytes = 0;
  for (const std::int64_t rows : sides(sizes.rows(), kAttentionRows)) {
    for (const std::int64_t keys : sides(sizes.keys, kAttentionKeys)) {
      for (int index = 0; index < product_count && rows > 0 && keys > 0; ++index) {
        const Gemm<T> product = of(BlockSize{rows, keys}, index);
        if (product.m > 0 && product.n > 0 && product.k > 0) {
          const std::int64_t needed = gemm_scratch_bytes(product, kernels);
          bytes = bytes < needed ? needed : bytes;
        }
      }
    }
  }
  return bytes;
}

[[nodiscard]] Status run_attention(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_attention_backward(const KernelCall& call, KernelContext& context);

}  // namespace hearth::cpu
