// The prologue of a reduction: elements of a pointwise expression, or losses of rows of logits,
// piece by piece. Private to backends/cpu. Lives on the kernel's stack; each thread has a Part.
// Invariant: elements have the bits of the separate call.
#pragma once

#include "backends/cpu/fused/prologue_rows.hpp"
#include "backends/cpu/machine/kernel_table.hpp"
#include "class_losses.hpp"

#include <hearth/backends/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hearth::cpu {

class ReductionInput {
 public:
  /// Whether a reduction accepts the producer of its input.
  [[nodiscard]] static Support supports(const KernelCall& call, const KernelContext& context);

  /// Prepares the producer. Lifetime: the prologue outlives this; null if the input is in memory.
  /// Errors: those of the producer.
  [[nodiscard]] Status start(const Prologue* prologue, KernelContext& context);
  [[nodiscard]] bool is_there() const noexcept { return losses_.has_value() || rows_.is_there(); }
  [[nodiscard]] bool makes_losses() const noexcept { return losses_.has_value(); }
  /// Elements worth a fork. Requires is_there().
  [[nodiscard]] std::int64_t grain() const noexcept {
    return losses_.has_value() ? losses_->grain() : rows_.grain();
  }

  /// The state of one thread. Requires is_there().
  class Part {
   public:
    explicit Part(const ReductionInput& of);
    /// Computes elements [begin, end), in row-major order, from `to` on.
    void make(std::byte* to, std::int64_t begin, std::int64_t end);

   private:
    std::optional<ClassLosses::Part> losses_ = {};
    std::optional<PrologueRows::Part> rows_ = {};
  };

 private:
  std::optional<ClassLosses> losses_ = {};
  PrologueRows rows_;
};

}  // namespace hearth::cpu
