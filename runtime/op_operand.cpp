#include "op_operand.hpp"

#include <string>

namespace hearth::detail {

void throw_op_error(const Error& error, OpKind kind, SourceLoc location) {
  Error located = error;
  if (located.op.empty()) {
    located.op = name(kind);
  }
  located.location = location;
  throw_error(std::move(located));
}

void throw_op_error(ErrorCode code, OpKind kind, std::string_view what, SourceLoc location) {
  const std::string op(name(kind));
  throw_op_error(
      Error{.code = code, .text = op + ": " + std::string(what), .op = op}, kind, location);
}

void throw_no_tensor(OpKind kind, const Arg& arg) {
  throw_op_error(ErrorCode::invalid_argument,
                 kind,
                 arg.is_scalar() ? "an operand is a number where a tensor is needed"
                                 : "an operand is an empty tensor",
                 arg.location());
}

void throw_dtype_error(OpKind kind, const Arg& arg) {
  const TensorImpl& impl = *arg.tensor().impl();
  throw_op_error(ErrorCode::dtype_mismatch,
                 kind,
                 "does not take " + std::string(name(impl.dtype)) + ", only " +
                     describe(op_info(kind).dtypes) + ": " +
                     describe(impl.dtype, impl.layout->shape),
                 arg.location());
}

}  // namespace hearth::detail
