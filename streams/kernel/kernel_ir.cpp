#include <hearth/streams/kernel/kernel_ir.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/float_environment.hpp>

namespace hearth {
namespace {

struct PrimitiveRow {
  Primitive primitive;
  std::string_view name;
  int operands;
};
constexpr PrimitiveRow kPrimitives[] = {
    {Primitive::input, "input", 0},
    {Primitive::parameter, "parameter", 0},
    {Primitive::constant, "constant", 0},
    {Primitive::index, "index", 0},
    {Primitive::position, "position", 0},
    {Primitive::convert, "convert", 1},
    {Primitive::neg, "neg", 1},
    {Primitive::abs, "abs", 1},
    {Primitive::sqrt, "sqrt", 1},
    {Primitive::exp, "exp", 1},
    {Primitive::log, "log", 1},
    {Primitive::sin, "sin", 1},
    {Primitive::cos, "cos", 1},
    {Primitive::tanh, "tanh", 1},
    {Primitive::erf, "erf", 1},
    {Primitive::logical_not, "not", 1},
    {Primitive::atan, "atan", 1},
    {Primitive::add, "add", 2},
    {Primitive::sub, "sub", 2},
    {Primitive::mul, "mul", 2},
    {Primitive::div, "div", 2},
    {Primitive::pow, "pow", 2},
    {Primitive::min, "min", 2},
    {Primitive::max, "max", 2},
    {Primitive::equal, "equal", 2},
    {Primitive::less, "less", 2},
    {Primitive::less_equal, "less_equal", 2},
    {Primitive::logical_and, "and", 2},
    {Primitive::logical_or, "or", 2},
    {Primitive::bit_and, "bit_and", 2},
    {Primitive::bit_or, "bit_or", 2},
    {Primitive::bit_xor, "bit_xor", 2},
    {Primitive::shift_left, "shift_left", 2},
    {Primitive::shift_right, "shift_right", 2},
    {Primitive::select, "select", 3},
    {Primitive::philox, "philox", 3},
    {Primitive::fold, "fold", 1},
    {Primitive::softmax, "softmax", 1},
    {Primitive::log_softmax, "log_softmax", 1},
    {Primitive::softmax_backward, "softmax_backward", 2},
    {Primitive::log_softmax_backward, "log_softmax_backward", 2},
};

const PrimitiveRow* row_of(Primitive primitive) noexcept {
  for (const PrimitiveRow& row : kPrimitives) {
    if (row.primitive == primitive) {
      return &row;
    }
  }
  return nullptr;
}

// ---- text ----

std::string term_text(const IndexTerm& term) {
  std::string text = fmt::format("i{}", term.axis);
  if (term.divisor != 1) {
    text += fmt::format("/{}", term.divisor);
  }
  if (term.modulus != 0) {
    text += fmt::format("%{}", term.modulus);
  }
  return term.step == 1 ? text : fmt::format("{}*{}", term.step, text);
}

std::string index_text(const AffineIndex& index) {
  std::string text;
  for (const IndexTerm& term : index.terms) {
    text += text.empty() ? "" : " + ";
    text += term_text(term);
  }
  if (index.start != 0 || text.empty()) {
    text += text.empty() ? "" : " + ";
    text += fmt::format("{}", index.start);
  }
  return text;
}

std::string map_text(const std::vector<AffineIndex>& map) {
  std::string text = "[";
  for (const AffineIndex& index : map) {
    text += text.size() == 1 ? "" : ", ";
    text += index_text(index);
  }
  return text + "]";
}

// A NaN shows its bits, because there are many NaNs.
std::string constant_text(const KernelNode& node) {
  if (!is_float(node.type)) {
    return fmt::format("{}", std::bit_cast<std::int64_t>(node.bits));
  }
  const auto value = std::bit_cast<double>(node.bits);
  return std::isnan(value) ? fmt::format("nan:{:016x}", node.bits) : fmt::format("{}", value);
}

std::string node_text(const KernelNode& node, std::size_t place) {
  std::string text = fmt::format("  %{} {} = {}", place, name(node.type), name(node.primitive));
  switch (node.primitive) {
    case Primitive::input:
    case Primitive::parameter:
    case Primitive::index:
      return text + fmt::format(" {}\n", node.number);
    case Primitive::constant:
      return text + " " + constant_text(node) + "\n";
    default:
      break;
  }
  if (node.primitive == Primitive::fold) {
    text += fmt::format(" {}", name(static_cast<FoldOp>(node.number)));
  }
  for (const std::int32_t operand : node.operands) {
    if (operand != kNoNode) {
      text += fmt::format(" %{}", operand);
    }
  }
  return text + "\n";
}

std::string schedule_text(const KernelSchedule& schedule) {
  if (schedule == KernelSchedule{}) {
    return "";
  }
  return fmt::format("schedule tile {} threads {} items {} vector {}\n",
                     schedule.tile,
                     schedule.threads,
                     schedule.items,
                     schedule.vector);
}

}  // namespace

std::string_view name(Primitive primitive) noexcept {
  const PrimitiveRow* row = row_of(primitive);
  return row == nullptr ? "no primitive" : row->name;
}

int operand_count(Primitive primitive) noexcept {
  const PrimitiveRow* row = row_of(primitive);
  return row == nullptr ? -1 : row->operands;
}

std::string_view name(FoldOp op) noexcept {
  switch (op) {
    case FoldOp::sum:
      return "sum";
    case FoldOp::max:
      return "max";
    case FoldOp::min:
      return "min";
    case FoldOp::mean:
      return "mean";
    case FoldOp::prod:
      return "prod";
  }
  return "no fold";
}

bool stays_along_rows(const KernelIR& kernel,
                      const KernelNode& node,
                      const std::vector<bool>& stays) noexcept {
  const auto number = static_cast<std::size_t>(node.number);
  const auto names_folded = [&](const AffineIndex& index) {
    return std::ranges::any_of(index.terms,
                               [&](const IndexTerm& term) { return kernel.is_folded(term.axis); });
  };
  switch (node.primitive) {
    case Primitive::input:
      return std::ranges::none_of(kernel.inputs[number].map, names_folded);
    case Primitive::parameter:
    case Primitive::constant:
    case Primitive::fold:
      return true;
    case Primitive::index:
      return !kernel.is_folded(node.number);
    case Primitive::position:
      return kernel.folded == 0;
    default:
      break;
  }
  return !is_row_function(node.primitive) &&
         std::ranges::all_of(node.operands, [&](std::int32_t operand) {
           return operand == kNoNode || stays[static_cast<std::size_t>(operand)];
         });
}

std::vector<bool> staying_nodes(const KernelIR& kernel) {
  std::vector<bool> stays;
  stays.reserve(kernel.body.size());
  for (const KernelNode& node : kernel.body) {
    stays.push_back(stays_along_rows(kernel, node, stays));
  }
  return stays;
}

std::string to_string(const KernelIR& kernel) {
  std::string text = fmt::format("kernel {}\nspace", kernel.version);
  for (std::size_t axis = 0; axis < kernel.extents.size(); ++axis) {
    text += fmt::format(" i{}:s{}", axis, kernel.extents[axis]);
  }
  text += kernel.folded == 0 ? "" : " folded";
  for (int axis = 0; axis < kernel.axis_count(); ++axis) {
    text += kernel.is_folded(axis) ? fmt::format(" i{}", axis) : "";
  }
  text += "\n";
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const KernelInput& input = kernel.inputs[i];
    text += fmt::format("input {} {} {}\n", i, name(input.dtype), map_text(input.map));
  }
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    text += fmt::format("parameter {} {}\n", i, name(kernel.parameters[i]));
  }
  text += "body\n";
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    text += node_text(kernel.body[i], i);
  }
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    const KernelOutput& output = kernel.outputs[i];
    text += fmt::format(
        "output {} {} {} = %{}\n", i, name(output.dtype), map_text(output.map), output.value);
  }
  return text + schedule_text(kernel.schedule);
}

std::uint64_t hash(const KernelIR& kernel) {
  const std::string text = to_string(kernel);
  return xxh64(std::as_bytes(std::span(text.data(), text.size())));
}

std::uint64_t constant_bits(double value, DType type) noexcept {
  if (type == DType::f32) {
    const hearth::detail::VectorEnvironment environment;  // a program's expression may call
    value = hearth::detail::pinned(
        static_cast<double>(static_cast<float>(hearth::detail::pinned(value))));
  }
  return is_float(type) ? std::bit_cast<std::uint64_t>(value)
                        : static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

}  // namespace hearth
