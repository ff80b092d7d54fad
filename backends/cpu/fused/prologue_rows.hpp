// A prologue: an expression that computes an input of an op on demand, into memory of the kernel.
// It computes elements or, for a row expression, whole rows. The counterpart of EpilogueRows.
// Private to backends/cpu. Lives on the kernel's stack; each thread has a Part. Invariant: elements
// have the bits of the separate expression, however they are cut into pieces.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"
#include "expression.hpp"
#include "row_call.hpp"
#include "tile_call.hpp"
#include "tile_program.hpp"
#include "tile_run.hpp"

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/kernel/expression.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hearth::cpu {

class PrologueRows {
 public:
  /// Whether start() accepts this producer: a pointwise expression that cannot fail, or a row
  /// expression with rows of `row_elements` elements (0: none).
  [[nodiscard]] static Support supports(const Prologue& prologue,
                                        std::int64_t row_elements,
                                        const KernelContext& context);

  PrologueRows() = default;
  PrologueRows(const PrologueRows&) = delete;
  PrologueRows& operator=(const PrologueRows&) = delete;
  ~PrologueRows() = default;

  /// Prepares the producer of a call's input, if it is an expression; the call outlives this.
  /// Errors: those of the program; unsupported if its rows are too long for its values.
  [[nodiscard]] Status start(const Prologue* prologue, const KernelContext& context);
  [[nodiscard]] bool is_there() const noexcept { return program_ != nullptr; }
  /// Elements worth a fork. Requires is_there(), as do the functions below.
  [[nodiscard]] std::int64_t grain() const noexcept { return program_->grain; }
  /// Returns the memory that each thread needs to compute elements.
  [[nodiscard]] std::int64_t part_bytes() const noexcept {
    return rows_.has_value() ? rows_->part_bytes() : 0;
  }

  /// Prefetches the producer's operands of elements [begin, end) that have an element for each of
  /// them.
  void ask_for(std::int64_t begin, std::int64_t end) const noexcept;

  /// The state of one thread.
  class Part {
   public:
    /// `memory` has part_bytes() bytes.
    Part(const PrologueRows& of, std::byte* memory);
    /// Computes elements [begin, end), whole rows for a row expression, from `to` on.
    void make(std::byte* to, std::int64_t begin, std::int64_t end);

   private:
    const PrologueRows& of_;
    std::byte* memory_;
    std::optional<TileCall> tiles_ = {};
    std::optional<TileRun> run_ = {};
  };

 private:
  const TileProgram* program_ = nullptr;
  IsaLevel isa_ = {};
  std::int64_t row_elements_ = 1;
  std::optional<ExpressionParameters> parameters_ = {};
  ExpressionCall call_ = {};
  std::optional<TileCall> tiles_ = {};
  std::optional<RowCall> rows_ = {};
};

}  // namespace hearth::cpu
