#include "case_families.hpp"

#include <optional>

namespace hearth::conformance {
namespace {

using testing::Precision;

struct Operands {
  Values lhs;
  Values rhs;
  double scalar;         ///< The immediate; its integer value is equal.
  bool extremes = true;  ///< Whether both operands may hold the ends of the integer types.
};

struct Broadcast {
  Shape lhs;
  Shape rhs;
  Shape result;
};

const std::vector<Broadcast>& broadcasts() {
  static const std::vector<Broadcast> all{{{4, 5}, {5}, {4, 5}},
                                          {{5}, {4, 5}, {4, 5}},
                                          {{4, 1}, {1, 5}, {4, 5}},
                                          {{4, 5}, {4, 1}, {4, 5}},
                                          {{1}, {3, 1, 2}, {3, 1, 2}},
                                          {{}, {3}, {3}},
                                          {{0, 3}, {3}, {0, 3}},
                                          {{0, 1}, {1, 4}, {0, 4}},
                                          {{2, 3, 1, 5}, {3, 7, 1}, {2, 3, 7, 5}},
                                          {{301, 259}, {259}, {301, 259}},
                                          {{301, 259}, {301, 1}, {301, 259}}};
  return all;
}

OpCase binary(OpKind kind,
              Precision precision,
              Operands operands,
              std::optional<DType> result = {}) {
  OpCase out{.kind = kind, .precision = precision, .calls = {}};
  const auto two = [&](const Shape& lhs, const Shape& rhs, const Shape& shape) {
    out.calls.push_back(
        {.inputs = {{.shape = lhs, .values = operands.lhs}, {.shape = rhs, .values = operands.rhs}},
         .outputs = {{.shape = shape, .dtype = result}}});
  };
  for (const Shape& shape : odd_shapes()) {
    two(shape, shape, shape);
  }
  for (const Broadcast& each : broadcasts()) {
    two(each.lhs, each.rhs, each.result);
  }
  if (op_info(kind).min_inputs == 1) {
    const ScalarAttributes scalar{.real = operands.scalar,
                                  .integer = static_cast<std::int64_t>(operands.scalar)};
    for (const Shape& shape : odd_shapes()) {
      for (const RecordFlag flag : {RecordFlag::scalar_lhs, RecordFlag::scalar_rhs}) {
        const Values values = flag == RecordFlag::scalar_lhs ? operands.rhs : operands.lhs;
        out.calls.push_back({.inputs = {{.shape = shape, .values = values}},
                             .outputs = {{.shape = shape, .dtype = result}},
                             .attributes = bytes_of(scalar),
                             .flags = static_cast<std::uint16_t>(flag)});
      }
    }
  }
  out.calls.push_back({.inputs = {{.shape = {13, 1}, .values = Values::special},
                                  {.shape = {13}, .values = Values::special}},
                       .outputs = {{.shape = {13, 13}, .dtype = result}},
                       .dtypes = kFloatTypes});
  if (operands.extremes) {
    out.calls.push_back({.inputs = {{.shape = {11, 1}, .values = Values::extremes},
                                    {.shape = {11}, .values = Values::extremes}},
                         .outputs = {{.shape = {11, 11}, .dtype = result}},
                         .dtypes = kIntegerTypes});
  }
  return out;
}

OpCase arithmetic(OpKind kind, Operands operands) {
  return binary(kind, Precision::rounded, operands);
}

OpCase comparison(OpKind kind) {
  return binary(kind,
                Precision::exact,
                {.lhs = Values::grid, .rhs = Values::grid, .scalar = 1},
                DType::boolean);
}

OpCase bits(OpKind kind) {
  return binary(kind, Precision::exact, {.lhs = Values::wide, .rhs = Values::apart, .scalar = 1});
}

// By numbers of places from -32 to 32: also beyond the width of narrow types.
OpCase shift(OpKind kind) {
  return binary(kind, Precision::exact, {.lhs = Values::apart, .rhs = Values::wide, .scalar = 3});
}

OpCase pow_case() {
  OpCase out =
      binary(OpKind::pow,
             Precision::function,
             {.lhs = Values::positive, .rhs = Values::exponents, .scalar = 2, .extremes = false});
  out.calls.push_back({.inputs = {{.shape = {9, 1}, .values = Values::apart},
                                  {.shape = {9}, .values = Values::grid}},
                       .outputs = {{.shape = {9, 9}}},
                       .dtypes = kIntegerTypes});
  return out;
}

}  // namespace

std::vector<OpCase> binary_cases() {
  return {
      arithmetic(OpKind::add, {.lhs = Values::apart, .rhs = Values::apart, .scalar = 3}),
      arithmetic(OpKind::sub, {.lhs = Values::apart, .rhs = Values::apart, .scalar = 3}),
      arithmetic(OpKind::mul, {.lhs = Values::apart, .rhs = Values::apart, .scalar = 3}),
      arithmetic(OpKind::div,
                 {.lhs = Values::wide, .rhs = Values::apart, .scalar = 3, .extremes = false}),
      pow_case(),
      binary(
          OpKind::min, Precision::exact, {.lhs = Values::grid, .rhs = Values::apart, .scalar = 1}),
      binary(
          OpKind::max, Precision::exact, {.lhs = Values::grid, .rhs = Values::apart, .scalar = 1}),
      comparison(OpKind::equal),
      comparison(OpKind::not_equal),
      comparison(OpKind::less),
      comparison(OpKind::less_equal),
      comparison(OpKind::greater),
      comparison(OpKind::greater_equal),
      binary(OpKind::relu_backward,
             Precision::exact,
             {.lhs = Values::apart, .rhs = Values::apart, .scalar = 0}),
      binary(OpKind::atan2,
             Precision::function,
             {.lhs = Values::wide, .rhs = Values::wide, .scalar = 3}),
      bits(OpKind::bitwise_and),
      bits(OpKind::bitwise_or),
      bits(OpKind::bitwise_xor),
      shift(OpKind::shift_left),
      shift(OpKind::shift_right),
  };
}

}  // namespace hearth::conformance
