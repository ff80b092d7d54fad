// The shaders of attention, with the options that their texts depend on. Pure functions. Threads:
// any.
#pragma once

#include <cstdint>

#include "attention_operands.hpp"
#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

enum class AttentionPass : std::uint32_t {
  forward,      ///< Results and statistics of rows.
  query_grads,  ///< The gradient of q.
  key_grads,    ///< The gradients of k and v.
};

/// Results of a pass, and the row sums that the gradients need.
struct AttentionResults {
  std::uint64_t first = 0;   ///< y; or the gradient of q or k.
  std::uint64_t second = 0;  ///< Statistics of rows, 0: none; or the gradient of v.
  std::uint64_t means = 0;
};

/// Errors: out_of_memory.
[[nodiscard]] Status encode_attention_pass(AttentionPass pass,
                                           const AttentionOperands& operands,
                                           const AttentionResults& results,
                                           KernelEncoder& encoder);
/// Writes the sum over each row of grad times y to `means`.
[[nodiscard]] Status encode_attention_means(const AttentionOperands& operands,
                                            std::uint64_t means,
                                            KernelEncoder& encoder);

}  // namespace hearth::gpu
