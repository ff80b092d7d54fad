// Comparisons, logic, and selection by a condition.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/host/host_arithmetic.hpp"

namespace hearth::onnx {
namespace comparison_ops {
namespace {

using Binary = Tensor (*)(Arg, Arg);

template <Binary kOp>
void compare(Call& call) {
  require_one_type(call);
  Tensor second = operand(call, 1);
  call.give(kOp(call.take(0), std::move(second)));
}

void negate(Call& call) {
  call.give(logical_not(call.take(0)));
}

void select(Call& call) {
  require_one_type(call, 1);
  const OnnxType type = call.type(1);
  Tensor condition = call.take(0);
  Tensor yes = call.take(1);
  call.give(where(std::move(condition), std::move(yes), call.take(2)), type);
}

constexpr OpRow kRows[] = {
    {.op = "Equal", .run = compare<equal>, .on_host = equal_on_host},
    {.op = "Greater", .run = compare<greater>, .on_host = greater_on_host},
    {.op = "GreaterOrEqual",
     .since = 12,
     .run = compare<greater_equal>,
     .on_host = greater_or_equal_on_host},
    {.op = "Less", .run = compare<less>, .on_host = less_on_host},
    {.op = "LessOrEqual",
     .since = 12,
     .run = compare<less_equal>,
     .on_host = less_or_equal_on_host},
    {.op = "And", .run = compare<logical_and>, .on_host = and_on_host},
    {.op = "Or", .run = compare<logical_or>, .on_host = or_on_host},
    {.op = "Xor", .run = compare<logical_xor>, .on_host = xor_on_host},
    {.op = "Not", .run = negate, .on_host = not_on_host},
    {.op = "Where", .since = 9, .run = select, .on_host = where_on_host},
};

}  // namespace
}  // namespace comparison_ops

std::span<const OpRow> comparison_rows() {
  return comparison_ops::kRows;
}

}  // namespace hearth::onnx
