// Functions of one operand, element by element, and casts.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/host/host_arithmetic.hpp"
#include "modules/onnx/host/host_layout.hpp"

#include <limits>

namespace hearth::onnx {
namespace unary_ops {
namespace {

using Unary = Tensor (*)(Arg);

template <Unary kOp>
void apply(Call& call) {
  const OnnxType type = call.type(0);
  call.give_wrapped(kOp(call.take(0)), type);
}

void is_nan(Call& call) {
  call.give(isnan(call.take(0)));
}

void is_infinite(Call& call) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor x = call.take(0);
  const bool is_positive = call.node().integer("detect_positive", 1) != 0;
  const bool is_negative = call.node().integer("detect_negative", 1) != 0;
  if (is_positive && is_negative) {
    call.give(isinf(x));
  } else if (is_positive || is_negative) {
    call.give(equal(x, is_positive ? kInfinity : -kInfinity));
  } else {
    call.give(zeros(call.device(), x.shape(), DType::boolean));
  }
}

// Integers that the device holds in wider types wrap like the narrow ones.
void cast_to(Call& call, OnnxType type) {
  const std::optional<DType> dtype = device_type(type);
  if (!dtype) {
    if (type == OnnxType::string) {
      call.give(cast_host(call.host(0), type));
      return;
    }
    call.refuse("element type {} is not supported", name(type));
  }
  if (!call.value(0).has_tensor() && call.type(0) == OnnxType::string) {
    call.give(cast_host(call.host(0), type));
    return;
  }
  call.give_wrapped(cast(call.take(0), *dtype), type);
}

void convert(Call& call) {
  const std::string by_name = call.node().text("to", "");  // before opset 6
  const auto* const number = call.node().attribute<std::int64_t>("to");
  if (number != nullptr) {
    cast_to(call, onnx_type_of(*number));
    return;
  }
  constexpr std::array<std::pair<std::string_view, OnnxType>, 12> kNames{{
      {"FLOAT", OnnxType::f32},
      {"UINT8", OnnxType::u8},
      {"INT8", OnnxType::i8},
      {"UINT16", OnnxType::u16},
      {"INT16", OnnxType::i16},
      {"INT32", OnnxType::i32},
      {"INT64", OnnxType::i64},
      {"BOOL", OnnxType::boolean},
      {"FLOAT16", OnnxType::f16},
      {"DOUBLE", OnnxType::f64},
      {"UINT32", OnnxType::u32},
      {"UINT64", OnnxType::u64},
  }};
  for (const auto& [text, type] : kNames) {
    if (text == by_name) {
      cast_to(call, type);
      return;
    }
  }
  call.refuse("element type '{}' is unknown", by_name);
}

bool convert_on_host(Call& call) {
  return call.node().attribute<std::int64_t>("to") != nullptr && cast_on_host(call);
}

void convert_like(Call& call) {
  cast_to(call, call.type(1));
}

std::string check_cast(const NodeInfo& node) {
  const auto* const number = node.attribute<std::int64_t>("to");
  if (number == nullptr) {
    return node.opset < 6 && node.has("to") ? std::string{} : "attribute to is missing";
  }
  const OnnxType type = onnx_type_of(*number);
  return type == OnnxType::string || device_type(type)
             ? std::string{}
             : fmt::format("element type {} ({}) is not supported", name(type), *number);
}

void pass(Call& call) {
  call.give(OnnxValue(call.value(0)));
}

constexpr OpRow kRows[] = {
    {.op = "Abs", .run = apply<abs>, .on_host = abs_on_host},
    {.op = "Neg", .run = apply<neg>, .on_host = neg_on_host},
    {.op = "Ceil", .run = apply<ceil>, .on_host = ceil_on_host},
    {.op = "Floor", .run = apply<floor>, .on_host = floor_on_host},
    {.op = "Round", .since = 11, .run = apply<round>, .on_host = round_on_host},
    {.op = "Sqrt", .run = apply<sqrt>, .on_host = sqrt_on_host},
    {.op = "Exp", .run = apply<exp>, .on_host = exp_on_host},
    {.op = "Log", .run = apply<log>, .on_host = log_on_host},
    {.op = "Sign", .since = 9, .run = apply<sign>, .on_host = sign_on_host},
    {.op = "Reciprocal", .run = apply<recip>, .on_host = reciprocal_on_host},
    {.op = "Sin", .since = 7, .run = apply<sin>},
    {.op = "Cos", .since = 7, .run = apply<cos>},
    {.op = "Tan", .since = 7, .run = apply<tan>},
    {.op = "Asin", .since = 7, .run = apply<asin>},
    {.op = "Acos", .since = 7, .run = apply<acos>},
    {.op = "Atan", .since = 7, .run = apply<atan>},
    {.op = "Tanh", .run = apply<tanh>},
    {.op = "Sinh", .since = 9, .run = apply<sinh>},
    {.op = "Cosh", .since = 9, .run = apply<cosh>},
    {.op = "Asinh", .since = 9, .run = apply<asinh>},
    {.op = "Acosh", .since = 9, .run = apply<acosh>},
    {.op = "Atanh", .since = 9, .run = apply<atanh>},
    {.op = "Erf", .since = 9, .run = apply<erf>},
    {.op = "Sigmoid", .run = apply<sigmoid>},
    {.op = "IsNaN", .since = 9, .run = is_nan},
    {.op = "IsInf", .since = 10, .run = is_infinite},
    {.op = "Cast", .run = convert, .on_host = convert_on_host, .check = check_cast},
    {.op = "CastLike", .since = 15, .run = convert_like, .on_host = cast_like_on_host},
    {.op = "Identity", .run = pass, .on_host = identity_on_host},
};

}  // namespace
}  // namespace unary_ops

std::span<const OpRow> unary_rows() {
  return unary_ops::kRows;
}

}  // namespace hearth::onnx
