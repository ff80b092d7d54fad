// A program is words, two a step. The first holds operation, target and two operands, a byte each.
// The second is a third operand, a number, or the bits of a value. Registers hold the bits of a
// float, or 0 and 1. A register is reused after the last read of its value.
#include "interpreter.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <hearth/streams/kernel/op_expression.hpp>

#include "backends/gpu/space/strided.hpp"
#include "backends/gpu/text/glsl_library.hpp"
#include "backends/gpu/text/glsl_math.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

constexpr std::size_t kMostOperands = 16;  // inputs, then outputs
constexpr int kMostAxes = 6;
constexpr std::size_t kMostSteps = 160;
constexpr int kRegisters = 32;
constexpr int kInterpreterGroup = static_cast<int>(kInterpreterThreads);
/// Places below this leave room for the overhang of a grid.
constexpr std::int64_t kMostPlaces = (std::int64_t{1} << 31U) - (std::int64_t{1} << 24U);

/// Steps beside the primitives, whose numbers stay below 64.
static_assert(static_cast<int>(Primitive::log_softmax_backward) < 64);
enum Step : std::uint32_t { value = 64, load, store, move, to_f16, to_bf16, to_bool };

struct Program {
  std::array<std::uint32_t, 2 * kMostSteps> words{};
  std::size_t steps = 0;

  [[nodiscard]] bool add(
      std::uint32_t operation, int target, int a = 0, int b = 0, std::uint32_t more = 0) noexcept {
    if (steps == kMostSteps) {
      return false;
    }
    words[2 * steps] = operation | static_cast<std::uint32_t>(target) << 8U |
                       static_cast<std::uint32_t>(a) << 16U | static_cast<std::uint32_t>(b) << 24U;
    words[2 * steps + 1] = more;
    ++steps;
    return true;
  }
};

bool is_known(DType type) noexcept {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 || type == DType::boolean;
}

std::uint32_t scalar_bits(DType type, const ScalarAttributes& scalar) noexcept {
  switch (type) {
    case DType::f16:
      return std::bit_cast<std::uint32_t>(static_cast<float>(f16(sticky_f32(scalar.real))));
    case DType::bf16:
      return std::bit_cast<std::uint32_t>(static_cast<float>(bf16(sticky_f32(scalar.real))));
    case DType::f32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(scalar.real));
    default:
      return scalar.integer != 0 ? 1U : 0U;
  }
}

class Writer {
 public:
  Writer(const KernelIR& kernel, std::span<const ScalarAttributes> parameters)
      : kernel_(kernel),
        parameters_(parameters),
        registers_(kernel.body.size(), -1),
        last_uses_(kernel.body.size(), -1) {}

  // Phases: the last use of each value; a step a node; the results.
  std::optional<Program> write() {
    for (std::int32_t place = 0; place < kernel_.node_count(); ++place) {
      for (const std::int32_t operand : kernel_.node(place).operands) {
        if (operand != kNoNode) {
          last_uses_[static_cast<std::size_t>(operand)] = place;
        }
      }
    }
    for (const KernelOutput& output : kernel_.outputs) {
      last_uses_[static_cast<std::size_t>(output.value)] = kernel_.node_count();
    }
    for (int i = kRegisters - 1; i >= 0; --i) {
      free_.push_back(i);
    }
    for (std::int32_t place = 0; place < kernel_.node_count(); ++place) {
      if (!write_node(place)) {
        return std::nullopt;
      }
    }
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const KernelOutput& output = kernel_.outputs[i];
      if (!is_known(output.dtype) ||
          !program_.add(Step::store,
                        0,
                        registers_[static_cast<std::size_t>(output.value)],
                        0,
                        static_cast<std::uint32_t>(kernel_.inputs.size() + i))) {
        return std::nullopt;
      }
    }
    return program_;
  }

 private:
  [[nodiscard]] int register_of(const KernelNode& node, std::size_t operand) const noexcept {
    return node.operands[operand] == kNoNode
               ? 0
               : registers_[static_cast<std::size_t>(node.operands[operand])];
  }
  [[nodiscard]] DType type_of(const KernelNode& node, std::size_t operand) const noexcept {
    return kernel_.node(node.operands[operand]).type;
  }

  // The result may take an operand's register.
  [[nodiscard]] bool write_node(std::int32_t place) {
    const auto at = static_cast<std::size_t>(place);
    const KernelNode& node = kernel_.node(place);
    if (!is_known(node.type) || last_uses_[at] < 0) {
      return last_uses_[at] < 0;
    }
    const std::array<int, 3> from{register_of(node, 0), register_of(node, 1), register_of(node, 2)};
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const std::int32_t operand = node.operands[i];
      const bool is_first =
          std::find(node.operands.begin(),
                    node.operands.begin() + static_cast<std::ptrdiff_t>(i),
                    operand) == node.operands.begin() + static_cast<std::ptrdiff_t>(i);
      if (operand != kNoNode && is_first &&
          last_uses_[static_cast<std::size_t>(operand)] == place) {
        free_.push_back(from[i]);
      }
    }
    if (free_.empty()) {
      return false;
    }
    const int target = free_.back();
    free_.pop_back();
    registers_[at] = target;
    return add(node, target, from);
  }

  [[nodiscard]] bool add(const KernelNode& node, int target, const std::array<int, 3>& from) {
    const auto operation = static_cast<std::uint32_t>(node.primitive);
    const bool is_f32 = node.type == DType::f32;
    switch (node.primitive) {
      case Primitive::input:
        return program_.add(Step::load, target, 0, 0, static_cast<std::uint32_t>(node.number));
      case Primitive::parameter: {
        const auto number = static_cast<std::size_t>(node.number);
        return program_.add(Step::value, target, 0, 0, scalar_bits(node.type, parameters_[number]));
      }
      case Primitive::constant: {
        const ScalarAttributes scalar{.real = std::bit_cast<double>(node.bits),
                                      .integer = std::bit_cast<std::int64_t>(node.bits)};
        return program_.add(Step::value, target, 0, 0, scalar_bits(node.type, scalar));
      }
      case Primitive::convert:
        return add_conversion(type_of(node, 0), node.type, target, from[0]);
      case Primitive::neg:
      case Primitive::abs:
      case Primitive::sqrt:
      case Primitive::exp:
      case Primitive::log:
      case Primitive::sin:
      case Primitive::cos:
      case Primitive::tanh:
      case Primitive::erf:
      case Primitive::add:
      case Primitive::sub:
      case Primitive::mul:
      case Primitive::div:
      case Primitive::pow:
      case Primitive::min:
      case Primitive::max:
        return is_f32 && program_.add(operation, target, from[0], from[1]);
      case Primitive::equal:
      case Primitive::less:
      case Primitive::less_equal:
        return type_of(node, 0) == DType::f32 && program_.add(operation, target, from[0], from[1]);
      case Primitive::logical_not:
      case Primitive::logical_and:
      case Primitive::logical_or:
        return program_.add(operation, target, from[0], from[1]);
      case Primitive::select:
        return program_.add(
            operation, target, from[0], from[1], static_cast<std::uint32_t>(from[2]));
      default:
        return false;
    }
  }

  [[nodiscard]] bool add_conversion(DType from, DType to, int target, int operand) {
    if (from == DType::boolean && to != DType::boolean) {
      // 1.0f is 1 times this number, as bits.
      return program_.add(Step::to_bool, target, operand, 1);
    }
    if (to == DType::boolean) {
      return from == DType::boolean ? program_.add(Step::move, target, operand)
                                    : program_.add(Step::to_bool, target, operand, 0);
    }
    const Step step = to == DType::f16    ? Step::to_f16
                      : to == DType::bf16 ? Step::to_bf16
                                          : Step::move;
    return program_.add(step, target, operand);
  }

  const KernelIR& kernel_;
  std::span<const ScalarAttributes> parameters_;
  Program program_;
  std::vector<int> registers_;
  std::vector<std::int32_t> last_uses_;
  std::vector<int> free_;
};

// ---- the shader ----

// {0}: the numbers of the types, f32, f16, bf16 and bool.
constexpr std::string_view kInterpreterMain = R"(
FN float load_real(uint number, int at) {{
  switch (p.type[number]) {{
    case {0}u: return load_f32(p.address[number], at);
    case {1}u: return load_f16(p.address[number], at);
    default: return load_bf16(p.address[number], at);
  }}
}}
FN void store_real(uint number, int at, float x) {{
  switch (p.type[number]) {{
    case {0}u: store_f32(p.address[number], at, x); break;
    case {1}u: store_f16(p.address[number], at, x); break;
    default: store_bf16(p.address[number], at, x); break;
  }}
}}
FN int place_of(uint number, uint i) {{
  uint rest = i;
  int at = 0;
  for (int axis = p.rank - 1; axis >= 0; --axis) {{
    const uint next = rest / p.size[axis];
    at += int(rest - next * p.size[axis]) * p.stride[int(number) * MOST_AXES + axis];
    rest = next;
  }}
  return at;
}}
FN void main() {{
  const uint i = GROUP * 256u + THREAD;
  if (i >= uint(p.n)) {{
    return;
  }}
  uint r[REGISTERS];
  for (int step_number = 0; step_number < p.steps; ++step_number) {{
    const uint code = p.code[2 * step_number];
    const uint more = p.code[2 * step_number + 1];
    const uint a = r[code >> 16 & 255u];
    const uint b = r[code >> 24];
    const float x = uintBitsToFloat(a);
    const float y = uintBitsToFloat(b);
    precise float real = 0.0f;
    uint bits = 0u;
    bool is_real = true;
    switch (code & 255u) {{
)";

struct Case {
  std::uint32_t operation;
  std::string_view text;
};
constexpr std::uint32_t number(Primitive primitive) noexcept {
  return static_cast<std::uint32_t>(primitive);
}
constexpr Case kCases[] = {
    {number(Primitive::neg), "real = -x;"},
    {number(Primitive::abs), "real = abs(x);"},
    {number(Primitive::sqrt), "real = m_sqrt(x);"},
    {number(Primitive::exp), "real = m_exp(x);"},
    {number(Primitive::log), "real = m_log(x);"},
    {number(Primitive::sin), "real = m_sin(x);"},
    {number(Primitive::cos), "real = m_cos(x);"},
    {number(Primitive::tanh), "real = m_tanh(x);"},
    {number(Primitive::erf), "real = m_erf(x);"},
    {number(Primitive::add), "real = x + y;"},
    {number(Primitive::sub), "real = x - y;"},
    {number(Primitive::mul), "real = x * y;"},
    {number(Primitive::div), "real = m_div(x, y);"},
    {number(Primitive::pow), "real = m_pow(x, y);"},
    {number(Primitive::min), "real = min_f32(x, y);"},
    {number(Primitive::max), "real = max_f32(x, y);"},
    {Step::to_f16, "real = f16_of_f32(x);"},
    {Step::to_bf16, "real = bf16_of_f32(x);"},
    {number(Primitive::logical_not), "is_real = false; bits = 1u - a;"},
    {number(Primitive::logical_and), "is_real = false; bits = a & b;"},
    {number(Primitive::logical_or), "is_real = false; bits = a | b;"},
    {number(Primitive::equal), "is_real = false; bits = x == y ? 1u : 0u;"},
    {number(Primitive::less), "is_real = false; bits = x < y ? 1u : 0u;"},
    {number(Primitive::less_equal), "is_real = false; bits = x <= y ? 1u : 0u;"},
    {number(Primitive::select), "is_real = false; bits = a != 0u ? b : r[more];"},
    {Step::value, "is_real = false; bits = more;"},
    {Step::move, "is_real = false; bits = a;"},
    // to_bool: of a float whether it is not zero, of a bool its number as a float.
    {Step::to_bool,
     "is_real = false; bits = (code >> 24) == 1u ? a * 0x3f800000u : bool_of_f32(x) ? 1u : 0u;"},
    {Step::load,
     "is_real = p.type[more] != BOOL; "
     "if (is_real) { real = load_real(more, place_of(more, i)); } "
     "else { bits = load_bool(p.address[more], place_of(more, i)) ? 1u : 0u; }"},
    {Step::store,
     "if (p.type[more] == BOOL) { store_bool(p.address[more], int(i), a != 0u); } "
     "else { store_real(more, int(i), x); } continue;"},
};

std::string interpreter_text() {
  std::string main = fmt::format(
      fmt::runtime(kInterpreterMain), static_cast<int>(DType::f32), static_cast<int>(DType::f16));
  for (const Case& each : kCases) {
    main += fmt::format("      case {}u: {{ {} break; }}\n", each.operation, each.text);
  }
  main += "    }\n    r[code >> 8 & 255u] = is_real ? floatBitsToUint(real) : bits;\n  }\n}\n";
  MathUse math;
  for (const MathFunction function : {MathFunction::basic,
                                      MathFunction::div,
                                      MathFunction::sqrt,
                                      MathFunction::exp,
                                      MathFunction::log,
                                      MathFunction::sine,
                                      MathFunction::tanh,
                                      MathFunction::erf,
                                      MathFunction::pow}) {
    math.add(function, false);
  }
  return fmt::format(
      "{}#define REGISTERS {}\n#define MOST_AXES {}\n#define BOOL {}u\n{}{}{}{}",
      glsl_prelude({.threads = kInterpreterGroup}),
      kRegisters,
      kMostAxes,
      static_cast<int>(DType::boolean),
      glsl_parameters(
          fmt::format("uint64_t address[{0}]; int n; int steps; int rank; uint type[{0}]; uint "
                      "size[{1}]; int stride[{2}]; uint code[{3}];",
                      kMostOperands,
                      kMostAxes,
                      kMostAxes * static_cast<int>(kMostOperands),
                      2 * kMostSteps),
          kPushBytes + 1),
      glsl_math(math),
      glsl_library(main),
      main);
}

// In the order of the members that interpreter_text() declares.
ParameterBlock interpreter_block(const KernelCall& call,
                                 const StridedSpace<kMostExpressionInputs>& space,
                                 const Program& program) {
  const std::size_t inputs = call.inputs.size();
  const std::size_t operands = inputs + call.outputs.size();
  ParameterBlock block;
  const auto view_of = [&](std::size_t i) -> const TensorView& {
    return i < inputs ? call.inputs[i] : call.outputs[i - inputs];
  };
  for (std::size_t i = 0; i < kMostOperands; ++i) {
    block.add(i < operands ? std::uint64_t{reinterpret_cast<std::uintptr_t>(  // NOLINT: an address
                                 view_of(i).data)}
                           : 0);
  }
  block.add(static_cast<std::int32_t>(call.outputs[0].element_count()))
      .add(static_cast<std::int32_t>(program.steps))
      .add(static_cast<std::int32_t>(space.rank));
  for (std::size_t i = 0; i < kMostOperands; ++i) {
    block.add(i < operands ? static_cast<std::uint32_t>(view_of(i).dtype) : 0U);
  }
  for (int axis = 0; axis < kMostAxes; ++axis) {
    block.add(axis < space.rank
                  ? static_cast<std::uint32_t>(space.size[static_cast<std::size_t>(axis)])
                  : 1U);
  }
  for (std::size_t i = 0; i < kMostOperands; ++i) {
    for (int axis = 0; axis < kMostAxes; ++axis) {
      const bool is_walked = i < inputs && axis < space.rank;
      block.add(is_walked
                    ? static_cast<std::int32_t>(space.stride[i][static_cast<std::size_t>(axis)])
                    : 0);
    }
  }
  for (std::size_t i = 0; i < 2 * program.steps; ++i) {
    block.add(program.words[i]);
  }
  return block;
}

}  // namespace

Result<bool> interpret(const KernelCall& call,
                       const KernelIR& kernel,
                       std::span<const ScalarAttributes> parameters,
                       KernelEncoder& encoder) {
  const std::size_t inputs = call.inputs.size();
  const std::size_t operands = inputs + call.outputs.size();
  const std::int64_t count = call.outputs[0].element_count();
  const auto is_new = [](const TensorView& view) { return !is_known(view.dtype); };
  if (operands > kMostOperands || count >= kMostPlaces || encoder.guard() != 0 ||
      std::ranges::any_of(call.inputs, is_new) || std::ranges::any_of(call.outputs, is_new)) {
    return false;
  }
  StridedSpace<kMostExpressionInputs> space(call.outputs[0].shape());
  for (const TensorView& view : call.inputs) {
    space.add(view);
  }
  space.merge();
  bool is_near = space.rank <= kMostAxes;
  for (std::size_t i = 0; i < inputs; ++i) {
    is_near = is_near && space.reach_from_first(i) < kMostPlaces;
  }
  const std::optional<Program> program =
      is_near ? Writer(kernel, parameters).write() : std::nullopt;
  if (!program) {
    return false;
  }
  const ParameterBlock block = interpreter_block(call, space, *program);
  const auto make_text = [] { return interpreter_text(); };
  return encoder.dispatch_made(KernelKey(KernelFamily::interpreter),
                               make_text,
                               block,
                               encoder.linear((count + kInterpreterGroup - 1) / kInterpreterGroup));
}

}  // namespace hearth::gpu
