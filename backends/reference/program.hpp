// The oracle for whole programs: a list of records over tensors by slot, with the poisoning and the
// update groups of a device. For random programs and for replaying what was recorded. Values, any
// thread.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/shape_table.hpp>

namespace hearth::reference {

/// A record that owns its blob.
struct RecordedOp {
  OpRecord record;
  std::vector<std::byte> blob = {};

  [[nodiscard]] OpView view() const noexcept { return {record, blob.data()}; }
};

/// A contiguous tensor, or the error that spoiled it.
struct HostTensor {
  DType dtype = DType::f32;
  detail::Layout layout = {};
  std::vector<std::byte> bytes = {};
  ErrorRef error = {};

  /// Zeros.
  HostTensor(DType type, const Shape& shape);
  /// A poisoned one, without bytes.
  HostTensor(DType type, const Shape& shape, ErrorRef cause);
  /// Borrows the bytes and the layout.
  [[nodiscard]] TensorView view() noexcept { return {bytes.data(), &layout, dtype}; }
};

using Tensors = std::map<SlotId, HostTensor>;

/// Runs the ops in order. `tensors` holds what the program starts from, the result of each upload
/// too, and afterwards everything that was not dropped.
///
/// An op that fails poisons its outputs, an op with a poisoned input inherits its error. Of an
/// update group (group_begin ... group_end) all runs or nothing: when one of its outputs would be
/// poisoned, the outputs of its optimizer steps take the old parameters and states, and its other
/// outputs are poisoned. Views are copies here. publish, adopt, lend, readback and sync change
/// nothing. Errors: invalid_argument when a program is malformed: a slot that nothing wrote, a
/// group without an end.
[[nodiscard]] Status evaluate_program(std::span<const RecordedOp> program,
                                      const ShapeTable& shapes,
                                      Tensors& tensors);

}  // namespace hearth::reference
