// The oracle for whole programs: runs a list of records over tensors by slot, with the poisoning
// and update groups of a device. For random programs and for replay. Values. Threads: any.
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

/// A contiguous tensor, or the error that poisoned it.
struct HostTensor {
  DType dtype = DType::f32;
  detail::Layout layout = {};
  std::vector<std::byte> bytes = {};
  ErrorRef error = {};

  /// Makes a tensor of zeros.
  HostTensor(DType type, const Shape& shape);
  /// Makes a poisoned tensor without bytes.
  HostTensor(DType type, const Shape& shape, ErrorRef cause);
  /// Returns a view that borrows the bytes and the layout.
  [[nodiscard]] TensorView view() noexcept { return {bytes.data(), &layout, dtype}; }
};

using Tensors = std::map<SlotId, HostTensor>;

/// Runs the ops in order. On entry `tensors` holds the program's initial tensors and the result of
/// each upload; on return, all tensors that were not dropped.
///
/// An op that fails poisons its outputs; an op with a poisoned input inherits its error. An update
/// group (group_begin ... group_end) runs as a whole or not at all. If one of its outputs would be
/// poisoned, its optimizer steps keep the old parameters and states, and its other outputs are
/// poisoned. Views are copies here. publish, adopt, lend, readback and sync have no effect.
///
/// Errors: invalid_argument for a malformed program: a slot that no op wrote, a group without an
/// end.
[[nodiscard]] Status evaluate_program(std::span<const RecordedOp> program,
                                      const ShapeTable& shapes,
                                      Tensors& tensors);

}  // namespace hearth::reference
