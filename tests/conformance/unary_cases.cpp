#include "case_families.hpp"

namespace hearth::conformance {
namespace {

using testing::Precision;

OpCase unary(OpKind kind, Precision precision, Values values) {
  OpCase out{.kind = kind, .precision = precision, .calls = {}};
  for (const Shape& shape : odd_shapes()) {
    out.calls.push_back(
        {.inputs = {{.shape = shape, .values = values}}, .outputs = {{.shape = shape}}});
  }
  out.calls.push_back({.inputs = {{.shape = {37}, .values = Values::special}},
                       .outputs = {{.shape = {37}}},
                       .dtypes = kFloatTypes});
  out.calls.push_back({.inputs = {{.shape = {11}, .values = Values::extremes}},
                       .outputs = {{.shape = {11}}},
                       .dtypes = kIntegerTypes});
  return out;
}

OpCase cast_case() {
  OpCase out{.kind = OpKind::cast, .precision = Precision::rounded, .calls = {}};
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto to = static_cast<DType>(i);
    for (const Shape& shape : odd_shapes()) {
      out.calls.push_back({.inputs = {{.shape = shape, .values = Values::quarters}},
                           .outputs = {{.shape = shape, .dtype = to}}});
    }
    out.calls.push_back({.inputs = {{.shape = {19, 7}, .values = Values::apart}},
                         .outputs = {{.shape = {19, 7}, .dtype = to}},
                         .dtypes = is_float(to) ? kFloatTypes : kIntegerTypes});
    out.calls.push_back({.inputs = {{.shape = {37}, .values = Values::special}},
                         .outputs = {{.shape = {37}, .dtype = to}},
                         .dtypes = kFloatTypes});
    out.calls.push_back({.inputs = {{.shape = {37}, .values = Values::extremes}},
                         .outputs = {{.shape = {37}, .dtype = to}},
                         .dtypes = kIntegerTypes});
  }
  return out;
}

OpCase dropout_case() {
  OpCase out{.kind = OpKind::dropout, .precision = Precision::rounded, .calls = {}};
  for (const double p : {0.0, 0.3, 0.5, 1.0}) {
    for (const Shape& shape : odd_shapes()) {
      out.calls.push_back({.inputs = {{.shape = shape}},
                           .outputs = {{.shape = shape}},
                           .attributes = bytes_of(RandomAttributes{
                               .seed = 99, .counter = 0xfffffffdU, .a = p, .b = 0})});
    }
    out.calls.push_back(
        {.inputs = {{.shape = {37}, .values = Values::special}},
         .outputs = {{.shape = {37}}},
         .attributes = bytes_of(RandomAttributes{.seed = 3, .counter = 1, .a = p, .b = 0})});
  }
  return out;
}

}  // namespace

std::vector<OpCase> unary_cases() {
  return {
      cast_case(),
      unary(OpKind::neg, Precision::exact, Values::apart),
      unary(OpKind::abs, Precision::exact, Values::apart),
      unary(OpKind::exp, Precision::function, Values::wide),
      unary(OpKind::log, Precision::function, Values::positive),
      unary(OpKind::sqrt, Precision::rounded, Values::positive),
      unary(OpKind::rsqrt, Precision::function, Values::positive),
      unary(OpKind::square, Precision::rounded, Values::apart),
      unary(OpKind::sin, Precision::function, Values::wide),
      unary(OpKind::cos, Precision::function, Values::wide),
      unary(OpKind::tanh, Precision::function, Values::wide),
      unary(OpKind::erf, Precision::function, Values::wide),
      unary(OpKind::sigmoid, Precision::function, Values::wide),
      unary(OpKind::recip, Precision::rounded, Values::apart),
      unary(OpKind::relu, Precision::exact, Values::apart),
      unary(OpKind::log1p, Precision::function, Values::wide),
      unary(OpKind::expm1, Precision::function, Values::wide),
      unary(OpKind::floor, Precision::exact, Values::quarters),
      unary(OpKind::ceil, Precision::exact, Values::quarters),
      unary(OpKind::round, Precision::exact, Values::quarters),
      unary(OpKind::trunc, Precision::exact, Values::quarters),
      unary(OpKind::atan, Precision::function, Values::wide),
      dropout_case(),
  };
}

}  // namespace hearth::conformance
