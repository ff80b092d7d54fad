#include "op_operand.hpp"

#include <string>
#include <utility>

namespace hearth::detail {

std::string module_path_of(std::span<const Arg> operands) {
  for (const Arg& operand : operands) {
    const TensorImpl* impl = operand.is_scalar() ? nullptr : operand.tensor().impl();
    const PathId path = impl != nullptr ? impl->path.load(std::memory_order_acquire) : PathId{};
    if (path.value != 0) {
      return std::string(impl->endpoint->tables().paths.path(path));
    }
  }
  return {};
}

void throw_op_error(const Error& error,
                    OpKind kind,
                    SourceLoc location,
                    std::span<const Arg> operands) {
  Error located = error;
  if (located.op.empty()) {
    located.op = name(kind);
  }
  if (located.module_path.empty()) {
    located.module_path = module_path_of(operands);
  }
  located.location = location;
  throw_error(std::move(located));
}

void throw_op_error(const Error& error, OpKind kind, const Arg& operand) {
  throw_op_error(error, kind, operand.location(), {&operand, 1});
}

void throw_op_error(ErrorCode code,
                    OpKind kind,
                    std::string_view what,
                    SourceLoc location,
                    std::span<const Arg> operands) {
  const std::string op(name(kind));
  throw_op_error(Error{.code = code, .text = op + ": " + std::string(what), .op = op},
                 kind,
                 location,
                 operands);
}

void throw_op_error(ErrorCode code, OpKind kind, std::string_view what, const Arg& operand) {
  throw_op_error(code, kind, what, operand.location(), {&operand, 1});
}

void throw_named(const Error& mistake, std::string_view op) {
  Error renamed = mistake;
  if (renamed.text.starts_with(renamed.op + ": ")) {
    renamed.text.replace(0, renamed.op.size(), op);
  }
  renamed.op = op;
  throw_error(std::move(renamed));
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
                 arg);
}

}  // namespace hearth::detail
