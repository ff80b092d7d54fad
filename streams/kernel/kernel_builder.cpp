#include <hearth/streams/kernel/kernel_builder.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <hearth/runtime/base/assert.hpp>

namespace hearth {

KernelBuilder::KernelBuilder(std::vector<std::int32_t> extents, std::uint32_t folded) {
  kernel_.extents = std::move(extents);
  kernel_.folded = folded;
}

// Reuses an existing equal node.
KernelValue KernelBuilder::add(KernelNode node) {
  std::vector<KernelNode>& nodes = kernel_.body;
  const auto found = std::find(nodes.begin(), nodes.end(), node);
  const auto place = found - nodes.begin();
  if (found == nodes.end()) {
    nodes.push_back(node);
  }
  return {this, static_cast<std::int32_t>(place), node.type};
}

KernelValue KernelBuilder::input(DType dtype, std::vector<AffineIndex> map) {
  kernel_.inputs.push_back({dtype, std::move(map)});
  return add({.primitive = Primitive::input,
              .type = dtype,
              .number = static_cast<std::int32_t>(kernel_.inputs.size() - 1)});
}

KernelValue KernelBuilder::parameter(DType type) {
  kernel_.parameters.push_back(type);
  return add({.primitive = Primitive::parameter,
              .type = type,
              .number = static_cast<std::int32_t>(kernel_.parameters.size() - 1)});
}

KernelValue KernelBuilder::constant(double value, DType type) {
  return add({.primitive = Primitive::constant, .type = type, .bits = constant_bits(value, type)});
}

KernelValue KernelBuilder::index(int axis) {
  return add({.primitive = Primitive::index, .type = DType::i64, .number = axis});
}

KernelValue KernelBuilder::position() {
  return add({.primitive = Primitive::position, .type = DType::i64});
}

KernelValue KernelBuilder::apply(Primitive primitive,
                                 DType type,
                                 std::span<const KernelValue> operands) {
  HEARTH_ASSERT(operands.size() == static_cast<std::size_t>(operand_count(primitive)),
                "a primitive with another number of operands");
  KernelNode node{.primitive = primitive, .type = type};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    HEARTH_ASSERT(operands[i].builder == this, "a value of another kernel");
    node.operands[i] = operands[i].node;
  }
  return add(node);
}

KernelValue KernelBuilder::convert(KernelValue value, DType type) {
  return value.type == type ? value : apply(Primitive::convert, type, std::array{value});
}

std::vector<KernelValue> KernelBuilder::splice(const KernelIR& kernel,
                                               std::span<const KernelValue> inputs,
                                               std::span<const KernelValue> parameters) {
  std::vector<KernelValue> values;
  values.reserve(kernel.body.size());
  for (const KernelNode& node : kernel.body) {
    if (node.primitive == Primitive::input) {
      values.push_back(inputs[static_cast<std::size_t>(node.number)]);
      continue;
    }
    if (node.primitive == Primitive::parameter) {
      values.push_back(parameters[static_cast<std::size_t>(node.number)]);
      continue;
    }
    KernelNode spliced = node;
    for (std::int32_t& operand : spliced.operands) {
      operand = operand == kNoNode ? kNoNode : values[static_cast<std::size_t>(operand)].node;
    }
    values.push_back(add(spliced));
  }
  std::vector<KernelValue> results;
  results.reserve(kernel.outputs.size());
  for (const KernelOutput& output : kernel.outputs) {
    results.push_back(values[static_cast<std::size_t>(output.value)]);
  }
  return results;
}

KernelValue KernelBuilder::fold(FoldOp op, KernelValue value) {
  HEARTH_ASSERT(value.builder == this, "a value of another kernel");
  return add({.primitive = Primitive::fold,
              .type = value.type,
              .operands = {value.node, kNoNode, kNoNode},
              .number = static_cast<std::int32_t>(op)});
}

void KernelBuilder::output(KernelValue value) {
  KernelOutput output{.dtype = value.type, .value = value.node};
  const bool stays = staying_nodes(kernel_)[static_cast<std::size_t>(value.node)];
  for (int axis = 0; axis < kernel_.axis_count(); ++axis) {
    if (!kernel_.is_folded(axis) || !stays) {
      output.map.push_back({.terms = {{.axis = axis}}});
    }
  }
  kernel_.outputs.push_back(std::move(output));
}

namespace {

// Copies the needed nodes, each after its operands, depth first from the left. So the order does
// not depend on the order in which a compiler evaluates operands.
class Collector {
 public:
  explicit Collector(const std::vector<KernelNode>& nodes)
      : nodes_(nodes), renamed_(nodes.size(), kNoNode) {}

  /// Returns the new number of a node.
  std::int32_t collect(std::int32_t old) {
    const auto i = static_cast<std::size_t>(old);
    if (renamed_[i] == kNoNode) {
      KernelNode node = nodes_[i];
      for (std::int32_t& operand : node.operands) {
        operand = operand == kNoNode ? kNoNode : collect(operand);
      }
      renamed_[i] = static_cast<std::int32_t>(kept_.size());
      kept_.push_back(node);
    }
    return renamed_[i];
  }
  [[nodiscard]] std::vector<KernelNode> take() { return std::move(kept_); }

 private:
  const std::vector<KernelNode>& nodes_;
  std::vector<KernelNode> kept_ = {};
  std::vector<std::int32_t> renamed_;  ///< Indexed by position in nodes_.
};

}  // namespace

KernelIR KernelBuilder::take() {
  KernelIR kernel = std::exchange(kernel_, {});
  const std::vector<KernelNode> body = std::move(kernel.body);
  Collector collector(body);
  for (KernelOutput& output : kernel.outputs) {
    output.value = collector.collect(output.value);
  }
  kernel.body = collector.take();
  return kernel;
}

namespace {

KernelValue unary(Primitive primitive, KernelValue a) {
  return a.builder->apply(primitive, a.type, std::array{a});
}
KernelValue binary(Primitive primitive, KernelValue a, KernelValue b) {
  return a.builder->apply(primitive, a.type, std::array{a, b});
}
KernelValue truth(Primitive primitive, KernelValue a, KernelValue b) {
  return a.builder->apply(primitive, DType::boolean, std::array{a, b});
}
// A number in the type of the other operand.
KernelValue number(double value, KernelValue like) {
  return like.builder->constant(value, like.type);
}

}  // namespace

KernelValue operator-(KernelValue a) {
  return unary(Primitive::neg, a);
}
KernelValue operator+(KernelValue a, KernelValue b) {
  return binary(Primitive::add, a, b);
}
KernelValue operator-(KernelValue a, KernelValue b) {
  return binary(Primitive::sub, a, b);
}
KernelValue operator*(KernelValue a, KernelValue b) {
  return binary(Primitive::mul, a, b);
}
KernelValue operator/(KernelValue a, KernelValue b) {
  return binary(Primitive::div, a, b);
}
KernelValue operator+(KernelValue a, double b) {
  return a + number(b, a);
}
KernelValue operator*(KernelValue a, double b) {
  return a * number(b, a);
}
KernelValue operator/(KernelValue a, double b) {
  return a / number(b, a);
}
KernelValue operator/(double a, KernelValue b) {
  return number(a, b) / b;
}
KernelValue operator+(double a, KernelValue b) {
  return number(a, b) + b;
}
KernelValue operator-(double a, KernelValue b) {
  return number(a, b) - b;
}
KernelValue abs(KernelValue a) {
  return unary(Primitive::abs, a);
}
KernelValue sqrt(KernelValue a) {
  return unary(Primitive::sqrt, a);
}
KernelValue exp(KernelValue a) {
  return unary(Primitive::exp, a);
}
KernelValue log(KernelValue a) {
  return unary(Primitive::log, a);
}
KernelValue sin(KernelValue a) {
  return unary(Primitive::sin, a);
}
KernelValue cos(KernelValue a) {
  return unary(Primitive::cos, a);
}
KernelValue tanh(KernelValue a) {
  return unary(Primitive::tanh, a);
}
KernelValue erf(KernelValue a) {
  return unary(Primitive::erf, a);
}
KernelValue atan(KernelValue a) {
  return unary(Primitive::atan, a);
}
KernelValue pow(KernelValue a, KernelValue b) {
  return binary(Primitive::pow, a, b);
}
KernelValue min(KernelValue a, KernelValue b) {
  return binary(Primitive::min, a, b);
}
KernelValue max(KernelValue a, KernelValue b) {
  return binary(Primitive::max, a, b);
}
KernelValue equal(KernelValue a, KernelValue b) {
  return truth(Primitive::equal, a, b);
}
KernelValue less(KernelValue a, KernelValue b) {
  return truth(Primitive::less, a, b);
}
KernelValue less(KernelValue a, double b) {
  return less(a, number(b, a));
}
KernelValue less(double a, KernelValue b) {
  return less(number(a, b), b);
}
KernelValue less_equal(KernelValue a, KernelValue b) {
  return truth(Primitive::less_equal, a, b);
}
KernelValue logical_not(KernelValue a) {
  return unary(Primitive::logical_not, a);
}
KernelValue logical_and(KernelValue a, KernelValue b) {
  return binary(Primitive::logical_and, a, b);
}
KernelValue logical_or(KernelValue a, KernelValue b) {
  return binary(Primitive::logical_or, a, b);
}
KernelValue bit_and(KernelValue a, KernelValue b) {
  return binary(Primitive::bit_and, a, b);
}
KernelValue bit_or(KernelValue a, KernelValue b) {
  return binary(Primitive::bit_or, a, b);
}
KernelValue bit_xor(KernelValue a, KernelValue b) {
  return binary(Primitive::bit_xor, a, b);
}
KernelValue shift_left(KernelValue a, KernelValue b) {
  return binary(Primitive::shift_left, a, b);
}
KernelValue shift_right(KernelValue a, KernelValue b) {
  return binary(Primitive::shift_right, a, b);
}
KernelValue select(KernelValue condition, KernelValue a, KernelValue b) {
  return a.builder->apply(Primitive::select, a.type, std::array{condition, a, b});
}
KernelValue select(KernelValue condition, double a, KernelValue b) {
  return select(condition, number(a, b), b);
}
KernelValue select(KernelValue condition, KernelValue a, double b) {
  return select(condition, a, number(b, a));
}
KernelValue random_word(KernelValue seed, KernelValue counter, KernelValue place) {
  return seed.builder->apply(Primitive::philox, DType::i64, std::array{seed, counter, place});
}

}  // namespace hearth
