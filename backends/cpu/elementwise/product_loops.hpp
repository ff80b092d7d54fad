// The inner loops of two fused ops: a product and a sum, each rounded, with the product in
// registers. Private to backends/cpu. Threads: any; pure functions on the given memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <hearth/runtime/base/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Combines a·b with c, or with c·d. Operands are contiguous, except those that the form marks as
/// one element. out may equal an operand.
using ProductLoop = void (*)(
    void* out, const void* a, const void* b, const void* c, const void* d, std::int64_t count);

/// How the product and the other term are combined.
enum class ProductSum : std::uint8_t {
  plus,   ///< a·b + rest
  minus,  ///< a·b - rest
  from,   ///< rest - a·b
};

struct ProductLoops {
  /// By form: 1 if a is one element, plus 2 if c is; b and d never are.
  using Forms = std::array<ProductLoop, 4>;
  struct Row {
    std::array<Forms, 3> with_value;    ///< rest = c; by ProductSum.
    std::array<Forms, 3> with_product;  ///< rest = c·d; by ProductSum.
  };
  Row f32;
  Row f64;

  [[nodiscard]] const Row& at(DType dtype) const noexcept {
    return dtype == DType::f64 ? f64 : f32;
  }
};
HEARTH_CPU_ISA_TABLE(ProductLoops, product_loops);

}  // namespace hearth::cpu
