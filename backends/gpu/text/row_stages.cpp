#include "row_stages.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>

#include <hearth/streams/kernel/kernel_builder.hpp>

namespace hearth::gpu {
namespace {

KernelValue softmax_of(KernelBuilder& b, KernelValue x, bool is_log) {
  const KernelValue shifted = x - b.fold(FoldOp::max, x);
  const KernelValue power = exp(shifted);
  const KernelValue sum = b.fold(FoldOp::sum, power);
  return is_log ? shifted - log(sum) : power * (1.0 / sum);
}

KernelValue softmax_gradient_of(KernelBuilder& b, KernelValue grad, KernelValue y, bool is_log) {
  return is_log ? grad - exp(y) * b.fold(FoldOp::sum, grad)
                : y * (grad - b.fold(FoldOp::sum, grad * y));
}

// Copies a leaf or an op into another builder.
KernelValue copied(KernelBuilder& b,
                   const KernelNode& node,
                   std::span<const KernelValue> operands,
                   std::span<const KernelValue> inputs,
                   std::span<const KernelValue> parameters) {
  switch (node.primitive) {
    case Primitive::input:
      return inputs[static_cast<std::size_t>(node.number)];
    case Primitive::parameter:
      return parameters[static_cast<std::size_t>(node.number)];
    case Primitive::constant:
      return b.constant(is_float(node.type)
                            ? std::bit_cast<double>(node.bits)
                            : static_cast<double>(std::bit_cast<std::int64_t>(node.bits)),
                        node.type);
    case Primitive::index:
      return b.index(node.number);
    case Primitive::position:
      return b.position();
    case Primitive::fold:
      return b.fold(static_cast<FoldOp>(node.number), operands[0]);
    case Primitive::softmax:
    case Primitive::log_softmax:
      return softmax_of(b, operands[0], node.primitive == Primitive::log_softmax);
    case Primitive::softmax_backward:
    case Primitive::log_softmax_backward:
      return softmax_gradient_of(
          b, operands[0], operands[1], node.primitive == Primitive::log_softmax_backward);
    default:
      return b.apply(node.primitive, node.type, operands);
  }
}

}  // namespace

KernelIR spell_out_row_functions(const KernelIR& rows) {
  KernelBuilder builder(rows.extents, rows.folded);
  std::vector<KernelValue> inputs;
  std::vector<KernelValue> parameters;
  std::vector<KernelValue> values;
  for (const KernelInput& input : rows.inputs) {
    inputs.push_back(builder.input(input.dtype, input.map));
  }
  for (const DType type : rows.parameters) {
    parameters.push_back(builder.parameter(type));
  }
  for (const KernelNode& node : rows.body) {
    std::array<KernelValue, 3> operands;
    std::size_t count = 0;
    for (const std::int32_t operand : node.operands) {
      if (operand != kNoNode) {
        operands[count++] = values[static_cast<std::size_t>(operand)];
      }
    }
    values.push_back(copied(builder, node, std::span(operands).first(count), inputs, parameters));
  }
  for (const KernelOutput& output : rows.outputs) {
    builder.output(values[static_cast<std::size_t>(output.value)]);
  }
  return builder.take();
}

// Phases: the forward pass finds the first stage that can compute a value; the backward pass finds,
// for element values, the first stage that needs it.
RowStages::RowStages(const KernelIR& kernel)
    : stage(kernel.body.size()), is_of_rows(staying_nodes(kernel)), is_kept(kernel.body.size()) {
  const auto at = [](std::int32_t place) { return static_cast<std::size_t>(place); };
  for (std::int32_t place = 0; place < kernel.node_count(); ++place) {
    const KernelNode& node = kernel.node(place);
    for (const std::int32_t operand : node.operands) {
      if (operand != kNoNode) {
        const int after = node.primitive == Primitive::fold ? 1 : 0;
        stage[at(place)] = std::max(stage[at(place)], stage[at(operand)] + after);
      }
    }
    count = std::max(count, stage[at(place)] + 1);
  }
  std::vector<int> needed(kernel.body.size(), std::numeric_limits<int>::max());
  std::vector<int> last(kernel.body.size(), 0);
  const auto need = [&](std::int32_t place, int when) {
    needed[at(place)] = std::min(needed[at(place)], when);
    last[at(place)] = std::max(last[at(place)], when);
  };
  for (const KernelOutput& output : kernel.outputs) {
    need(output.value, count - 1);
  }
  for (std::int32_t place = kernel.node_count() - 1; place >= 0; --place) {
    const KernelNode& node = kernel.node(place);
    if (!is_of_rows[at(place)]) {
      stage[at(place)] = std::max(stage[at(place)], needed[at(place)]);
      is_kept[at(place)] = last[at(place)] > stage[at(place)];
    }
    for (const std::int32_t operand : node.operands) {
      if (operand != kNoNode) {
        // A fold runs in the first stage that computes its operand.
        need(operand, node.primitive == Primitive::fold ? stage[at(operand)] : stage[at(place)]);
      }
    }
  }
}

std::vector<std::int32_t> RowStages::elements_of(const KernelIR& kernel,
                                                 int number,
                                                 bool keeps) const {
  std::vector<std::int32_t> places;
  if (keeps) {
    for (std::int32_t place = 0; place < kernel.node_count(); ++place) {
      const auto at = static_cast<std::size_t>(place);
      if (!is_of_rows[at] && stage[at] == number) {
        places.push_back(place);
      }
    }
    return places;
  }
  std::vector<bool> is_needed(kernel.body.size());
  for (const std::int32_t fold : folds_of(kernel, number)) {
    is_needed[static_cast<std::size_t>(kernel.node(fold).operands[0])] = true;
  }
  for (const KernelOutput& output : kernel.outputs) {
    const auto at = static_cast<std::size_t>(output.value);
    is_needed[at] = is_needed[at] || (number == count - 1 && !is_of_rows[at]);
  }
  for (std::int32_t place = kernel.node_count() - 1; place >= 0; --place) {
    const auto at = static_cast<std::size_t>(place);
    if (!is_needed[at] || is_of_rows[at]) {
      continue;
    }
    places.push_back(place);
    for (const std::int32_t operand : kernel.node(place).operands) {
      if (operand != kNoNode) {
        is_needed[static_cast<std::size_t>(operand)] = true;
      }
    }
  }
  std::ranges::reverse(places);
  return places;
}

std::vector<std::int32_t> RowStages::folds_of(const KernelIR& kernel, int number) const {
  std::vector<std::int32_t> places;
  for (std::int32_t place = 0; place < kernel.node_count(); ++place) {
    const KernelNode& node = kernel.node(place);
    if (node.primitive == Primitive::fold && stage[static_cast<std::size_t>(place)] == number + 1) {
      places.push_back(place);
    }
  }
  return places;
}

}  // namespace hearth::gpu
