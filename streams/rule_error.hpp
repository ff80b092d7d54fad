// Texts of broken rules: "op: what is wrong: the operands". Private to the shape rules. Values, any
// thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <hearth/runtime/base/error.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::rules::detail {

/// A named operand of a message; borrows the spec.
struct Named {
  std::string_view name;
  const TensorSpec* spec = nullptr;  ///< nullptr: left out.
};

/// Returns "lhs f32[4, 8], rhs f32[9, 3]".
[[nodiscard]] inline std::string operand_list(std::initializer_list<Named> operands) {
  std::string out;
  for (const Named& operand : operands) {
    if (operand.spec != nullptr) {
      out += out.empty() ? "" : ", ";
      out += operand.name;
      out += " ";
      out += hearth::describe(operand.spec->dtype, operand.spec->shape);
    }
  }
  return out;
}

[[nodiscard]] inline Error broken(ErrorCode code, OpKind kind, std::string_view what) {
  Error error{.code = code, .text = std::string(name(kind)), .op = std::string(name(kind))};
  error.text += ": ";
  error.text += what;
  return error;
}

[[nodiscard]] inline Error broken(ErrorCode code,
                                  OpKind kind,
                                  std::string_view what,
                                  std::initializer_list<Named> operands) {
  Error error = broken(code, kind, what);
  error.text += ": ";
  error.text += operand_list(operands);
  return error;
}

/// Makes the shape of an op's result. A result that is too large is the op's error.
[[nodiscard]] inline Result<Shape> result_shape(OpKind kind, std::span<const std::int64_t> dims) {
  Result<Shape> shape = make_shape(dims);
  if (!shape.has_value()) {
    return broken(
        ErrorCode::shape_mismatch, kind, "the result is too large: " + shape.error().text);
  }
  return shape;
}

}  // namespace hearth::rules::detail
