// Checks an op's operands before submission, and throws errors that name the op and the line of the
// call. Private to runtime. Threads: any; pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "op_submit.hpp"
#include "runtime/client/tensor_impl.hpp"

namespace hearth::detail {

/// The path of the first operand that has one ("encoder.inner.weight"); empty if none has.
[[nodiscard]] std::string module_path_of(std::span<const Arg> operands);

/// Throws the error with op, location and the operands' module path filled in.
[[noreturn]] void throw_op_error(const Error& error,
                                 OpKind kind,
                                 SourceLoc location,
                                 std::span<const Arg> operands = {});
[[noreturn]] void throw_op_error(const Error& error, OpKind kind, const Arg& operand);
/// Throws an error made of a code and a sentence; the text becomes "<op>: <what>".
[[noreturn]] void throw_op_error(ErrorCode code,
                                 OpKind kind,
                                 std::string_view what,
                                 SourceLoc location,
                                 std::span<const Arg> operands = {});
[[noreturn]] void throw_op_error(ErrorCode code,
                                 OpKind kind,
                                 std::string_view what,
                                 const Arg& operand);
[[noreturn]] void throw_no_tensor(OpKind kind, const Arg& arg);
/// Throws for an operand that the kind's row does not accept.
[[noreturn]] void throw_dtype_error(OpKind kind, const Arg& arg);

/// Sets the op name of a capture on this thread, while it lives. The outermost one counts.
class CalledOp final {
 public:
  explicit CalledOp(std::string_view op) : listener_(current_context().call_listener()) {
    if (listener_ != nullptr) [[unlikely]] {
      (*listener_)(op);
    }
  }
  CalledOp(const CalledOp&) = delete;
  CalledOp& operator=(const CalledOp&) = delete;
  ~CalledOp() {
    if (listener_ != nullptr) [[unlikely]] {
      (*listener_)({});
    }
  }

 private:
  const VectorEnvironment environment_;
  ThreadContext::CallListener* const listener_;
};

/// Calls `fn`, which composes its result of ops with other names, and reports mistakes under the
/// name `op`, which the caller wrote.
template <class Fn>
[[nodiscard]] auto named_as(std::string_view op, const Fn& fn) {
  const CalledOp called(op);
  return mistakes_named(op, fn);
}

/// Returns the value of a rule, or throws its error with the place of the call.
template <class T>
[[nodiscard]] T checked(Result<T>&& result,
                        OpKind kind,
                        SourceLoc location,
                        std::span<const Arg> operands) {
  if (!result.has_value()) [[unlikely]] {
    throw_op_error(result.error(), kind, location, operands);
  }
  return std::move(result).value();
}
/// checked() with the place of the first operand, which must exist.
template <class T>
[[nodiscard]] T checked(Result<T>&& result, OpKind kind, std::span<const Arg> operands) {
  return checked(std::move(result), kind, operands[0].location(), operands);
}
template <class T>
[[nodiscard]] T checked(Result<T>&& result, OpKind kind, const Arg& operand) {
  return checked(std::move(result), kind, std::span<const Arg>(&operand, 1));
}

/// The tensor behind an operand. Errors: ArgumentError if it is a number or empty.
[[nodiscard]] inline const TensorImpl& operand(OpKind kind, const Arg& arg) {
  if (arg.is_scalar() || detail::TensorAccess::impl(arg.tensor()) == nullptr) [[unlikely]] {
    throw_no_tensor(kind, arg);
  }
  return *detail::TensorAccess::impl(arg.tensor());
}
/// The tensor behind an operand that the kind's row accepts. Errors: also DtypeError.
[[nodiscard]] inline const TensorImpl& accepted_operand(OpKind kind, const Arg& arg) {
  const TensorImpl& impl = operand(kind, arg);
  if (!accepts(kind, impl.dtype)) [[unlikely]] {
    throw_dtype_error(kind, arg);
  }
  return impl;
}

/// Converts a number to that type, beside this tensor, for the op `op`. Errors: DtypeError for a
/// float as an integer; ArgumentError for an integer that the type does not hold.
[[nodiscard]] ScalarAttributes scalar_of(std::string_view op,
                                         const Arg& number,
                                         const TensorImpl& beside,
                                         DType dtype);

/// Returns the operand itself, for ops with nothing to do; moves a moved-in tensor.
[[nodiscard]] inline Tensor take(const Arg& arg) {
  return arg.movable() != nullptr ? Tensor(std::move(*arg.movable())) : Tensor(arg.tensor());
}

}  // namespace hearth::detail
