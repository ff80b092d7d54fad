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

// Shifts of unsigned numbers are products and quotients by powers of 2.
void bit_shift(Call& call) {
  const OnnxType type = call.type(0);
  const int bits = stored_bits(type);
  const Tensor shift = call.take(1);
  const Tensor is_inside = less(shift, bits == 64 ? 63 : bits);
  const Tensor x = cast(call.take(0), DType::i64);
  const Tensor near = where(is_inside, cast(shift, DType::i64), 0);
  const Tensor factor = pow(add(zeros_like(near), 2), near);
  Tensor moved =
      call.node().text("direction", "") == "LEFT" ? mul(x, factor) : floor_divide(x, factor);
  moved = where(is_inside, std::move(moved), 0);
  call.give_wrapped(std::move(moved), type);
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
};

}  // namespace
}  // namespace arithmetic_ops

std::span<const OpRow> arithmetic_rows() {
  return arithmetic_ops::kRows;
}

}  // namespace hearth::onnx
