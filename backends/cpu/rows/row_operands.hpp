// The operands of a row kernel as contiguous arrays of its compute type. Operands in this form are
// used in place; others are converted in scratch memory first, and the result is rounded back at
// the end. Private to backends/cpu. Threads: owner only. Lifetime: holds the scratch memory from
// construction to finish().
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/backends/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

class RowOperands {
 public:
  static constexpr std::size_t kMaxInputs = 2;

  /// Prepares inputs [first, first + count) and one output. Errors: out_of_memory.
  [[nodiscard]] Status prepare(const KernelCall& call,
                               std::size_t first,
                               std::size_t count,
                               const TensorView& out,
                               KernelContext& context);
  /// Rounds the result into the output if it was computed in scratch memory.
  void finish(KernelContext& context) const;

  [[nodiscard]] DType type() const noexcept { return type_; }
  template <class T>
  [[nodiscard]] const T* input(std::size_t index) const noexcept {
    return reinterpret_cast<const T*>(inputs_[index]);
  }
  template <class T>
  [[nodiscard]] T* output() const noexcept {
    return reinterpret_cast<T*>(output_);
  }

 private:
  DType type_ = DType::f32;
  std::array<const std::byte*, kMaxInputs> inputs_{};
  std::byte* output_ = nullptr;
  TensorView result_;
};

/// The lines of a contiguous tensor along one axis: `length` elements that are `step` apart, `step`
/// adjacent lines, `outer` times.
struct LineSpace {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t step = 1;

  LineSpace(const Shape& shape, int axis) noexcept : length(shape[axis]) {
    for (int i = 0; i < shape.rank(); ++i) {
      (i < axis ? outer : step) *= i == axis ? 1 : shape[i];
    }
  }
};

}  // namespace hearth::cpu
