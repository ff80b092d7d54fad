// One call of a case, ready for a backend: tensors, record and blob. Values (movable), any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/op_table.hpp>

#include "case_tensor.hpp"
#include "op_case.hpp"

namespace hearth::conformance {

class PreparedCall {
 public:
  /// `layouts` names one layout for each input. Equal arguments give equal bytes.
  PreparedCall(OpKind kind, const CallSpec& spec, DType dtype, std::vector<LayoutKind> layouts);
  /// All inputs dense.
  PreparedCall(OpKind kind, const CallSpec& spec, DType dtype);

  /// Lets output `output` write into the bytes of input `input`, which must be dense and of equal
  /// size and type.
  void alias(int output, int input);

  /// The call, which borrows from this object.
  [[nodiscard]] KernelCall call() const noexcept {
    return {OpView(*record_, blob_.data()), input_views_, output_views_};
  }
  [[nodiscard]] const std::vector<CaseTensor>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<CaseTensor>& outputs() const noexcept { return outputs_; }
  [[nodiscard]] bool is_aliased(int input) const noexcept;
  /// Whether an input's layout repeats elements.
  [[nodiscard]] bool has_repeats() const noexcept;
  /// The values of an output, wherever it was written.
  [[nodiscard]] std::vector<Number> output_values(int output) const;
  /// The work of the call, from the op table.
  [[nodiscard]] OpCost cost() const noexcept;
  /// "matmul f32[4, 8] transposed, f32[8, 3] dense -> f32[4, 3]"
  [[nodiscard]] std::string to_string() const;

 private:
  OpKind kind_;
  std::vector<LayoutKind> layouts_;
  std::vector<CaseTensor> inputs_;
  std::vector<CaseTensor> outputs_;
  std::vector<TensorView> input_views_;
  std::vector<TensorView> output_views_;
  std::vector<int> aliased_;          ///< For each output, its input or -1.
  std::unique_ptr<OpRecord> record_;  ///< Its address outlives moves.
  std::vector<std::byte> blob_;
};

}  // namespace hearth::conformance
