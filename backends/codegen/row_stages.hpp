// How a row kernel is done in stages: what is made of a row's elements before its first fold, what
// between the first and those that need it, and so on. Softmax and its kin are spelled out as folds
// first. Pure. Threads: any.
#pragma once

#include <cstdint>
#include <vector>

#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth {

/// The same kernel without row functions: softmax(x) is exp(x - max)·(1/sum), and so on. Requires a
/// row kernel.
[[nodiscard]] KernelIR spell_out_row_functions(const KernelIR& rows);

/// The order of a row kernel that has no row functions.
struct RowStages {
  explicit RowStages(const KernelIR& kernel);

  int count = 1;
  /// Of values with an element at each place: the stage that makes them. Of one for each row: the
  /// stage that can use them.
  std::vector<int> stage;
  std::vector<bool> is_of_rows;
  /// An element's value that a later stage needs too.
  std::vector<bool> is_kept;

  /// What stage `number` makes of elements, in order: where nothing is kept, all that it needs.
  [[nodiscard]] std::vector<std::int32_t> elements_of(const KernelIR& kernel,
                                                      int number,
                                                      bool keeps) const;
  /// The folds whose operand stage `number` has.
  [[nodiscard]] std::vector<std::int32_t> folds_of(const KernelIR& kernel, int number) const;
};

}  // namespace hearth
