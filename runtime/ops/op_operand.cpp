#include "op_operand.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <string>
#include <utility>

#include <fmt/format.h>

#include "runtime/client/renamed.hpp"

namespace hearth::detail {

std::string module_path_of(std::span<const Arg> operands) {
  for (const Arg& operand : operands) {
    const TensorImpl* impl =
        operand.is_scalar() ? nullptr : detail::TensorAccess::impl(operand.tensor());
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

void throw_named(const Error& mistake, std::string_view name) {
  throw_error(renamed(mistake, mistake.op, name));
}

void throw_no_tensor(OpKind kind, const Arg& arg) {
  throw_op_error(ErrorCode::invalid_argument,
                 kind,
                 arg.is_scalar() ? "an operand is a number where a tensor is needed"
                                 : "an operand is an empty tensor",
                 arg.location());
}

void throw_dtype_error(OpKind kind, const Arg& arg) {
  const TensorImpl& impl = *detail::TensorAccess::impl(arg.tensor());
  throw_op_error(ErrorCode::dtype_mismatch,
                 kind,
                 "does not take " + std::string(name(impl.dtype)) + ", only " +
                     describe(op_info(kind).dtypes) + ": " +
                     describe(impl.dtype, impl.layout->shape),
                 arg);
}

namespace {

[[noreturn]] void refuse_number(std::string_view op,
                                ErrorCode code,
                                std::string_view what,
                                const Arg& number) {
  throw_error(Error{.code = code,
                    .text = fmt::format("{}: the number {}: cast the tensor first", op, what),
                    .op = std::string(op),
                    .location = number.location()});
}

}  // namespace

ScalarAttributes scalar_of(std::string_view op,
                           const Arg& number,
                           const TensorImpl& beside,
                           DType dtype) {
  if (is_float(dtype)) {
    return {.real = number.real(), .integer = 0};
  }
  if (!number.is_integer()) [[unlikely]] {
    refuse_number(op,
                  ErrorCode::dtype_mismatch,
                  fmt::format("{} is a float and the tensor is {}",
                              number.real(),
                              describe(beside.dtype, beside.layout->shape)),
                  number);
  }
  const std::int64_t value = number.integer();
  if (number.is_beyond_i64() || !fits(value, dtype)) [[unlikely]] {
    refuse_number(
        op,
        ErrorCode::invalid_argument,
        fmt::format("{} does not fit {}",
                    number.is_beyond_i64() ? fmt::format("{}", static_cast<std::uint64_t>(value))
                                           : fmt::format("{}", value),
                    describe(beside.dtype, beside.layout->shape)),
        number);
  }
  return {.real = 0, .integer = value};
}

}  // namespace hearth::detail
