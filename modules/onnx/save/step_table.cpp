#include "step_table.hpp"

#include <algorithm>

#include <hearth/streams/op_table.hpp>

namespace hearth::onnx {
namespace {

void refuse_kind(StepCall& call) {
  switch (call.kind()) {
    case OpKind::random_uniform:
    case OpKind::random_normal:
    case OpKind::random_bernoulli:
    case OpKind::dropout:
      call.refuse("the op draws random numbers, and a runtime of the file would draw others",
                  "evaluate with Mode::eval, or make the numbers an input");
      return;
    case OpKind::expression:
      call.refuse("ONNX has no node for a captured function", "call its ops one by one");
      return;
    case OpKind::custom:
      call.refuse("ONNX has no node for a kernel of the program",
                  "compute the value with the library's ops");
      return;
    default:
      call.refuse("no rule writes this op", "use other ops in the forward pass");
  }
}

}  // namespace

void write_step(StepCall& call) {
  if (write_norm(call)) {
    return;
  }
  for (const auto& rows : {element_steps(), shape_steps(), sum_steps(), product_steps()}) {
    const auto row = std::ranges::find(rows, call.kind(), &StepRow::kind);
    if (row != rows.end()) {
      row->write(call);
      return;
    }
  }
  refuse_kind(call);
}

}  // namespace hearth::onnx
