// Cross entropy forwards: the loss of each row of logits and its class, rows at a time, for the op
// itself and for a reduction that reads the losses as they are made. Private to backends/cpu. On
// the stack of the kernel; each thread has a Part. Invariant: a loss has the same bits however the
// rows are cut into pieces.
#pragma once

#include "epilogue_rows.hpp"
#include "kernel_table.hpp"
#include "row_operands.hpp"

#include <hearth/backends/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hearth::cpu {

class ClassLosses {
 public:
  /// Whether start() can take the call without memory of its own.
  [[nodiscard]] static bool reads_in_place(const KernelCall& call) noexcept;

  ClassLosses() = default;
  ClassLosses(const ClassLosses&) = delete;
  ClassLosses& operator=(const ClassLosses&) = delete;
  ~ClassLosses() = default;

  /// The call has one output and at least one row, and outlives this. Errors: out_of_range, a class
  /// that there is not; out_of_memory.
  [[nodiscard]] Status start(const KernelCall& call, KernelContext& context);
  /// Rows worth a fork.
  [[nodiscard]] std::int64_t grain() const noexcept;

  /// What one thread runs.
  class Part {
   public:
    explicit Part(const ClassLosses& of);
    /// The results of rows [begin, end), behind the epilogue where there is one. They go from `to`
    /// on where the call's outputs have no bytes, else into those.
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
