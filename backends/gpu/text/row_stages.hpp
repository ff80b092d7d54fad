// Splits a row kernel into stages, separated by its folds. A stage computes the elements that the
// next folds consume. Softmax and similar functions are expanded into folds first. Pure. Threads:
// any.
#pragma once

#include <cstdint>
#include <vector>

#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth::gpu {

/// Expands the row functions of a kernel: softmax(x) becomes exp(x - max)·(1/sum), and so on.
/// Requires a row kernel.
[[nodiscard]] KernelIR spell_out_row_functions(const KernelIR& rows);

/// The stages of a row kernel that has no row functions.
struct RowStages {
  explicit RowStages(const KernelIR& kernel);

  int count = 1;
  /// For a value per element: the stage that computes it. For a value per row: the first stage that
  /// can use it.
  std::vector<int> stage;
  std::vector<bool> is_of_rows;
  /// An element's value that a later stage needs too.
  std::vector<bool> is_kept;

  /// The element values that stage `number` computes, in order. Without `keeps` these include
  /// values that earlier stages computed already.
  [[nodiscard]] std::vector<std::int32_t> elements_of(const KernelIR& kernel,
                                                      int number,
                                                      bool keeps) const;
  /// The folds whose operand stage `number` computes.
  [[nodiscard]] std::vector<std::int32_t> folds_of(const KernelIR& kernel, int number) const;
};

}  // namespace hearth::gpu
