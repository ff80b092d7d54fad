// The shaders of attention, by what their texts depend on. Pure functions. Threads: any.
#pragma once

#include "attention_operands.hpp"
#include "backends/vulkan/kernel_encoder.hpp"

#include <cstdint>

namespace hearth::vulkan {

enum class AttentionPass : std::uint32_t {
  forward,      ///< Results and statistics of rows.
  query_grads,  ///< The gradient of q.
  key_grads,    ///< The gradients of k and v.
};

/// Where a pass writes, and the means that the gradients need.
struct AttentionResults {
  std::uint64_t first = 0;   ///< y; the gradient of q; that of k
  std::uint64_t second = 0;  ///< statistics of rows, 0: not asked for; the gradient of v
  std::uint64_t means = 0;
};

/// Errors: out_of_memory.
[[nodiscard]] Status encode_attention_pass(AttentionPass pass,
                                           const AttentionOperands& operands,
                                           const AttentionResults& results,
                                           KernelEncoder& encoder);
/// The sums over each row of grad times y, to `means`.
[[nodiscard]] Status encode_attention_means(const AttentionOperands& operands,
                                            std::uint64_t means,
                                            KernelEncoder& encoder);

}  // namespace hearth::vulkan
