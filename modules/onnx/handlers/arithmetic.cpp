// Arithmetic of two or more operands.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/host/host_arithmetic.hpp"

namespace hearth::onnx {
namespace arithmetic_ops {
namespace {

using Binary = Tensor (*)(Arg, Arg);

template <Binary kOp>
void binary(Call& call) {
  require_one_type(call);
  const OnnxType type = call.type(0);
  Tensor second = operand(call, 1);
  call.give_wrapped(kOp(call.take(0), std::move(second)), type);
}

// The result has the base's type, whatever the exponent's is.
void power(Call& call) {
  const OnnxType type = call.type(0);
  Tensor exponent = operand(call, 1);
  call.give_wrapped(pow(call.take(0), std::move(exponent)), type);
}

void modulo(Call& call) {
  const OnnxType type = call.type(0);
  if (call.node().integer("fmod", 0) == 0) {
    if (is_float(type)) {
      call.refuse("floats need the attribute fmod = 1");
    }
    call.give_wrapped(remainder(call.take(0), call.take(1)), type);
    return;
  }
  // The sign of the dividend, as C's fmod.
  const Tensor a = call.take(0);
  const Tensor rest = remainder(abs(a), abs(call.take(1)));
  call.give_wrapped(where(less(a, 0), neg(rest), rest), type);
}

template <Binary kOp>
Tensor folded(Call& call) {
  require_one_type(call);
  Tensor result = call.take(0);
  for (std::size_t i = 1; i < call.count(); ++i) {
    result = kOp(std::move(result), call.take(i));
  }
  return result;
}

template <Binary kOp>
void fold(Call& call) {
  const OnnxType type = call.type(0);
  call.give_wrapped(folded<kOp>(call), type);
}

void mean_of_inputs(Call& call) {
  const OnnxType type = call.type(0);
  const auto count = static_cast<double>(call.count());
  call.give(div(folded<add>(call), count), type);
}

std::string check_shift(const NodeInfo& node) {
  const std::string direction = node.text("direction", "");
  return direction == "LEFT" || direction == "RIGHT"
             ? std::string{}
             : fmt::format("attribute direction is '{}', neither LEFT nor RIGHT", direction);
}

// The device holds u64 as i64, whose sign a shift right moves in: those bits are removed.
Tensor shifted_right(OnnxType type, const Tensor& x, const Tensor& places) {
  Tensor moved = shift_right(x, places);
  if (type != OnnxType::u64) {
    return moved;
  }
  const Tensor upper = shift_left(-1, sub(64, places));
  moved = bitwise_and(std::move(moved), bitwise_not(upper));
  return where(logical_and(greater_equal(places, 0), less(places, 64)), std::move(moved), 0);
}

void bit_shift(Call& call) {
  require_one_type(call);
  const OnnxType type = call.type(0);
  const Tensor x = call.take(0);
  const Tensor places = call.take(1);
  const bool is_left = call.node().text("direction", "") == "LEFT";
  call.give_wrapped(is_left ? shift_left(x, places) : shifted_right(type, x, places), type);
}

void invert_bits(Call& call) {
  const OnnxType type = call.type(0);
  call.give_wrapped(bitwise_not(call.take(0)), type);
}

constexpr OpRow kRows[] = {
    {.op = "Add", .run = binary<add>, .on_host = add_on_host},
    {.op = "Sub", .run = binary<sub>, .on_host = sub_on_host},
    {.op = "Mul", .run = binary<mul>, .on_host = mul_on_host},
    {.op = "Div", .run = binary<div>, .on_host = div_on_host},
    {.op = "Pow", .run = power, .on_host = pow_on_host},
    {.op = "Mod", .since = 10, .run = modulo, .on_host = mod_on_host},
    {.op = "Max", .run = fold<maximum>, .on_host = max_on_host},
    {.op = "Min", .run = fold<minimum>, .on_host = min_on_host},
    {.op = "Sum", .run = fold<add>},
    {.op = "Mean", .run = mean_of_inputs},
    {.op = "BitShift", .since = 11, .run = bit_shift, .check = check_shift},
    {.op = "BitwiseAnd", .since = 18, .run = binary<bitwise_and>},
    {.op = "BitwiseOr", .since = 18, .run = binary<bitwise_or>},
    {.op = "BitwiseXor", .since = 18, .run = binary<bitwise_xor>},
    {.op = "BitwiseNot", .since = 18, .run = invert_bits},
};

}  // namespace
}  // namespace arithmetic_ops

std::span<const OpRow> arithmetic_rows() {
  return arithmetic_ops::kRows;
}

}  // namespace hearth::onnx
