// An input of an op that an expression makes: elements of it, or whole rows where the expression
// works on rows, in memory that the kernel gives, when it needs them. The mirror image of
// EpilogueRows. Private to backends/cpu. On the stack of the kernel; each thread has a Part.
// Invariant: elements have the bits that the expression gives when it runs singly, however they are
// cut into pieces.
#pragma once

#include "expression.hpp"
#include "kernel_table.hpp"
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
  /// Whether start() takes this maker of an input: a pointwise expression that does not fail, or,
  /// where it has rows, one of rows as long as `row_elements` says (0: none).
  [[nodiscard]] static Support supports(const Prologue& prologue,
                                        std::int64_t row_elements,
                                        const KernelContext& context);

  PrologueRows() = default;
  PrologueRows(const PrologueRows&) = delete;
  PrologueRows& operator=(const PrologueRows&) = delete;
  ~PrologueRows() = default;

  /// The maker of a call's input, if it has one that is an expression; the call outlives this.
  /// Errors: those of the program; unsupported, where its rows are too long for its values.
  [[nodiscard]] Status start(const Prologue* prologue, const KernelContext& context);
  [[nodiscard]] bool is_there() const noexcept { return program_ != nullptr; }
  /// Elements worth a fork. Requires is_there(), as all that follows.
  [[nodiscard]] std::int64_t grain() const noexcept { return program_->grain; }
  /// Of the memory that each thread needs to make elements.
  [[nodiscard]] std::int64_t part_bytes() const noexcept {
    return rows_.has_value() ? rows_->part_bytes() : 0;
  }

  /// Asks for the memory that elements [begin, end) are made of, as far as each has its own there.
  void ask_for(std::int64_t begin, std::int64_t end) const noexcept;

  /// What one thread runs.
  class Part {
   public:
    /// With part_bytes() of memory.
    Part(const PrologueRows& of, std::byte* memory);
    /// Makes elements [begin, end), whole rows of a maker that has rows, from `to` on.
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
