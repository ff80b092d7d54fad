// Turns an op function's call into a record on the calling thread's stream. The only place where
// tensors become operands, last uses are decided, ops enter the tape, and results get their slots.
// Private to runtime.
// Threads: any; uses the calling thread's current stream of the operands' device.
// Invariants: (1) nothing is queued if anything throws; (2) `read_last` is set only for a tensor
// whose one reference was moved in and which never left this stream; (3) the tape saves what the
// gradient needs before a reference is released.
#pragma once

#include <span>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>
#include <hearth/streams/shape_rules.hpp>

namespace hearth::detail {

/// Dtype and shape of a tensor. Errors: ArgumentError if it is empty, naming the op.
[[nodiscard]] TensorSpec spec_of(OpKind kind, const Arg& arg);

struct Submission {
  OpKind kind;
  SourceLoc location;
  std::span<const Arg> inputs;  ///< tensors only (a scalar operand is an attribute and a flag)
  std::span<const std::byte> attributes = {};  ///< the bytes of the kind's attribute struct
  std::uint16_t flags = 0;                     ///< RecordFlag bits
  std::span<const std::byte> parameters = {};  ///< of an expression
  std::string_view name = {};                  ///< of an expression; other kinds have a name
};

/// Submits an op with one result of this dtype and shape. Errors: DeviceMismatch if the inputs are
/// on several devices.
Tensor submit(const Submission& submission, DType dtype, const Shape& shape);
/// Submits an op with several results.
void submit(const Submission& submission,
            std::span<const TensorSpec> specs,
            std::span<Tensor> results);
/// Submits an op whose results all have the shape of input 0.
void submit_like(const Submission& submission,
                 std::span<const DType> dtypes,
                 std::span<Tensor> results);
/// Submits an op without inputs.
Tensor submit_on(const Device& device,
                 const Submission& submission,
                 DType dtype,
                 const Shape& shape);

template <class Attributes>
[[nodiscard]] std::span<const std::byte> bytes_of(const Attributes& attributes) noexcept {
  return std::as_bytes(std::span<const Attributes>(&attributes, 1));
}

}  // namespace hearth::detail
