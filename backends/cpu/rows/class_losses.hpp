// Forward cross entropy by rows: the loss of each row of logits and its class. Serves the op
// itself, and a reduction that consumes the losses as they are computed. Private to backends/cpu.
// Lives on the kernel's stack; each thread has a Part. Invariant: the bits of a loss do not depend
// on how the rows are cut.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"
#include "backends/cpu/products/epilogue_rows.hpp"
#include "row_operands.hpp"

#include <hearth/backends/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hearth::cpu {

class ClassLosses {
 public:
  /// Returns whether start() can take the call without memory of its own.
  [[nodiscard]] static bool reads_in_place(const KernelCall& call) noexcept;

  ClassLosses() = default;
  ClassLosses(const ClassLosses&) = delete;
  ClassLosses& operator=(const ClassLosses&) = delete;
  ~ClassLosses() = default;

  /// Requires a call with one output and at least one row, which outlives this.
  /// Errors: out_of_range for a class outside its range; out_of_memory.
  [[nodiscard]] Status start(const KernelCall& call, KernelContext& context);
  /// Rows worth a fork.
  [[nodiscard]] std::int64_t grain() const noexcept;

  /// The state of one thread.
  class Part {
   public:
    explicit Part(const ClassLosses& of);
    /// Computes the results of rows [begin, end), after the epilogue if there is one. Stores them
    /// in the call's outputs or, if those have no bytes, from `to` on.
    void make(std::byte* to, std::int64_t begin, std::int64_t end);

   private:
    void make_losses(std::byte* to, std::int64_t begin, std::int64_t end) const;

    const ClassLosses& of_;
    std::optional<EpilogueRows::Part> epilogue_ = {};
  };

 private:
  const KernelCall* call_ = nullptr;
  IsaLevel isa_ = {};
  RowOperands operands_;
  EpilogueRows epilogue_;
};

}  // namespace hearth::cpu
