#include "kernel_printer.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>

namespace hearth::gpu {
namespace {

bool is_half(DType type) noexcept {
  return type == DType::f16 || type == DType::bf16;
}
// True if values of the type are computed as double, else as float.
bool is_double(DType type) noexcept {
  return type == DType::f64;
}

struct NamedFunction {
  Primitive primitive;
  MathFunction function;
  std::string_view name;
  bool has_quick;  ///< Has a q_ form, for results that are rounded to 16 bits.
};
constexpr NamedFunction kFunctions[] = {{Primitive::sqrt, MathFunction::sqrt, "sqrt", true},
                                        {Primitive::exp, MathFunction::exp, "exp", true},
                                        {Primitive::log, MathFunction::log, "log", false},
                                        {Primitive::sin, MathFunction::sine, "sin", false},
                                        {Primitive::cos, MathFunction::sine, "cos", false},
                                        {Primitive::tanh, MathFunction::tanh, "tanh", true},
                                        {Primitive::erf, MathFunction::erf, "erf", true},
                                        {Primitive::atan, MathFunction::atan, "atan", false},
                                        {Primitive::pow, MathFunction::pow, "pow", false},
                                        {Primitive::div, MathFunction::div, "div", true}};

const NamedFunction* function_of(Primitive primitive) noexcept {
  for (const NamedFunction& each : kFunctions) {
    if (each.primitive == primitive) {
      return &each;
    }
  }
  return nullptr;
}

// Smooth float arithmetic: a small error of an operand gives a small error of the result.
bool is_smooth(const KernelNode& node) noexcept {
  switch (node.primitive) {
    case Primitive::neg:
    case Primitive::abs:
    case Primitive::add:
    case Primitive::sub:
    case Primitive::mul:
    case Primitive::min:
    case Primitive::max:
      return true;
    case Primitive::fold:
      return static_cast<FoldOp>(node.number) != FoldOp::prod;
    default:
      return function_of(node.primitive) != nullptr;
  }
}

bool is_zero(const KernelNode& node) noexcept {
  return node.primitive == Primitive::constant && is_float(node.type) &&
         std::bit_cast<double>(node.bits) == 0;
}

std::string_view sign_of(Primitive primitive) noexcept {
  switch (primitive) {
    case Primitive::add:
      return "+";
    case Primitive::sub:
      return "-";
    case Primitive::mul:
      return "*";
    case Primitive::equal:
      return "==";
    case Primitive::less:
      return "<";
    case Primitive::less_equal:
      return "<=";
    case Primitive::logical_and:
      return "&&";
    case Primitive::bit_and:
      return "&";
    case Primitive::bit_or:
      return "|";
    case Primitive::bit_xor:
      return "^";
    default:
      return "||";
  }
}

// u8 and i8 are computed in 32 bits, and wrap.
std::string narrowed(DType type, const std::string& value) {
  return type == DType::u8   ? fmt::format("({}) & 255u", value)
         : type == DType::i8 ? fmt::format("(({}) << 24) >> 24", value)
                             : value;
}

}  // namespace

BodyPrinter::BodyPrinter(const KernelIR& kernel, const Spelling& spelling)
    : kernel_(kernel),
      spelling_(spelling),
      names_(kernel.body.size()),
      is_kept_(kernel.body.size()),
      is_stored_only_(kernel.body.size()),
      is_narrow_(kernel.body.size()),
      is_whole_(kernel.body.size()) {
  find_uses();
  for (std::int32_t place = 0; place < kernel.node_count(); ++place) {
    const KernelNode& node = kernel.node(place);
    names_[static_cast<std::size_t>(place)] =
        is_inline(node) ? leaf(node) : fmt::format("v{}", place);
  }
}

// Phases: the backward pass finds the use of each value; the forward pass finds the numbers that
// are never negative.
void BodyPrinter::find_uses() {
  std::vector<bool> is_stored(kernel_.body.size());
  std::vector<bool> is_read(kernel_.body.size());
  std::vector<bool> is_exact(kernel_.body.size());  // some use depends on all its bits
  for (const KernelOutput& output : kernel_.outputs) {
    is_stored[static_cast<std::size_t>(output.value)] = true;
    is_exact[static_cast<std::size_t>(output.value)] = true;
  }
  for (std::int32_t place = kernel_.node_count() - 1; place >= 0; --place) {
    const auto at = static_cast<std::size_t>(place);
    const KernelNode& node = kernel_.node(place);
    is_stored_only_[at] = is_stored[at] && !is_read[at];
    is_narrow_[at] = !is_exact[at];
    const bool rounds = node.primitive == Primitive::convert && is_half(node.type);
    const bool passes_on = is_smooth(node) && node.type == DType::f32 && !is_exact[at];
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] == kNoNode) {
        continue;
      }
      const auto operand_at = static_cast<std::size_t>(node.operands[i]);
      const bool is_moved = node.primitive == Primitive::select && i > 0 && !is_exact[at];
      is_read[operand_at] = true;
      is_exact[operand_at] = is_exact[operand_at] || !(rounds || passes_on || is_moved);
    }
  }
  for (std::int32_t place = 0; place < kernel_.node_count(); ++place) {
    const KernelNode& node = kernel_.node(place);
    const auto is_whole = [&](std::size_t i) {
      const KernelNode& from = kernel_.node(node.operands[i]);
      return is_whole_[static_cast<std::size_t>(node.operands[i])] ||
             (from.primitive == Primitive::constant && from.type == DType::i64 &&
              std::bit_cast<std::int64_t>(from.bits) > 0 && from.bits < (1U << 20U));
    };
    const bool is_leaf = node.primitive == Primitive::position ||
                         node.primitive == Primitive::index || node.primitive == Primitive::philox;
    is_whole_[static_cast<std::size_t>(place)] =
        is_leaf ||
        (node.primitive == Primitive::div && node.type == DType::i64 && is_whole(0) && is_whole(1));
  }
}

std::string_view BodyPrinter::type(std::int32_t place) const noexcept {
  return spelling_.types[static_cast<std::size_t>(kernel_.node(place).type)];
}

void BodyPrinter::keep_in(std::int32_t place, std::string name) {
  names_[static_cast<std::size_t>(place)] = std::move(name);
  is_kept_[static_cast<std::size_t>(place)] = true;
}

bool BodyPrinter::is_inline(const KernelNode& node) const noexcept {
  return operand_count(node.primitive) == 0;
}

std::string BodyPrinter::leaf(const KernelNode& node) const {
  switch (node.primitive) {
    case Primitive::input:
      return fmt::format("x{}", node.number);
    case Primitive::parameter:
      return node.type == DType::boolean ? fmt::format("(p.s{} != 0)", node.number)
                                         : fmt::format("p.s{}", node.number);
    case Primitive::constant:
      return spelling_.literal(node.type, node.bits);
    case Primitive::index:
      return fmt::format("index{}", node.number);
    default:
      return "place";
  }
}

void BodyPrinter::print_all(std::string& to) {
  for (std::int32_t place = 0; place < kernel_.node_count(); ++place) {
    print(place, to);
  }
}

void BodyPrinter::print(std::int32_t place, std::string& to) {
  const KernelNode& node = kernel_.node(place);
  const auto at = static_cast<std::size_t>(place);
  if (is_inline(node)) {
    if (is_kept_[at]) {
      to += fmt::format("{} = {};\n", names_[at], leaf(node));
    }
    return;
  }
  std::string before;
  const std::string text = expression(place, before);
  to += before;
  if (is_kept_[at]) {
    to += fmt::format("{} = {};\n", names_[at], text);
    return;
  }
  to += fmt::format("{} {} {} = {};\n",
                    is_float(node.type) ? spelling_.real_value : spelling_.other_value,
                    type(place),
                    names_[at],
                    text);
}

std::string BodyPrinter::expression(std::int32_t place, std::string& before) {
  const KernelNode& node = kernel_.node(place);
  const std::string& a = operand(node, 0);
  const DType of = operand_type(node, 0);
  switch (node.primitive) {
    case Primitive::convert:
      return conversion(place);
    case Primitive::neg:
      return of == DType::u8   ? fmt::format("(0u - {}) & 255u", a)
             : of == DType::i8 ? fmt::format("(-{} << 24) >> 24", a)
                               : fmt::format("-{}", a);
    case Primitive::abs:
      return is_float(of)      ? fmt::format("abs({})", a)
             : of == DType::u8 ? a
             : of == DType::i8 ? fmt::format("(abs({}) << 24) >> 24", a)  // abs(-128) wraps
                               : fmt::format("{0} < 0 ? -{0} : {0}", a);
    case Primitive::logical_not:
      return fmt::format("!{}", a);
    case Primitive::div:
      return division(place, before);
    case Primitive::pow:
      return power(place, before);
    case Primitive::min:
    case Primitive::max:
      return fmt::format("{}_{}({}, {})", name(node.primitive), name(of), a, operand(node, 1));
    case Primitive::add:
    case Primitive::sub:
    case Primitive::mul:
      return narrowed(of, fmt::format("{} {} {}", a, sign_of(node.primitive), operand(node, 1)));
    case Primitive::less:
      if (of == DType::f32 && is_zero(kernel_.node(node.operands[1]))) {
        // Tests bits: NVIDIA's driver compiles x < 0 ? 0 : x to a maximum, which drops NaN.
        return fmt::format("floatBitsToUint({}) - 0x80000001u < 0x7f800000u", a);
      }
      return fmt::format("{} < {}", a, operand(node, 1));
    case Primitive::equal:
    case Primitive::less_equal:
    case Primitive::logical_and:
    case Primitive::logical_or:
      return fmt::format("{} {} {}", a, sign_of(node.primitive), operand(node, 1));
    case Primitive::bit_and:
    case Primitive::bit_or:
    case Primitive::bit_xor:
      return fmt::format("{} {} {}", a, sign_of(node.primitive), operand(node, 1));
    case Primitive::shift_left:
    case Primitive::shift_right:
      return fmt::format("{}_{}({}, {})", name(node.primitive), name(of), a, operand(node, 1));
    case Primitive::select:
      return fmt::format("{} ? {} : {}", a, operand(node, 1), operand(node, 2));
    case Primitive::philox:
      return random_word(node);
    default:
      return function(place);
  }
}

// True if the value is the same for all elements.
bool BodyPrinter::is_number(std::int32_t place) const noexcept {
  const KernelNode* node = &kernel_.node(place);
  while (node->primitive == Primitive::convert) {
    node = &kernel_.node(node->operands[0]);
  }
  return node->primitive == Primitive::parameter || node->primitive == Primitive::constant;
}

std::string BodyPrinter::divisor(const std::string& number) {
  auto found = std::ranges::find(divisors_, number);
  if (found == divisors_.end()) {
    found = divisors_.insert(found, number);
  }
  return fmt::format("DIVISOR(by{}, {})", found - divisors_.begin(), number);
}

std::string BodyPrinter::function(std::int32_t place) {
  const KernelNode& node = kernel_.node(place);
  const NamedFunction* const found = function_of(node.primitive);
  HEARTH_ASSERT(found != nullptr, "the printer has no text for this primitive");
  const NamedFunction& row = found != nullptr ? *found : kFunctions[0];
  const bool is_quick =
      row.has_quick && node.type == DType::f32 && is_narrow_[static_cast<std::size_t>(place)];
  if (!is_quick) {
    math_.add(row.function, is_double(node.type));
  } else {
    math_.add(MathFunction::basic, false);
  }
  const char prefix = is_quick ? 'q' : 'm';
  if (row.primitive == Primitive::div && node.type == DType::f32 && is_number(node.operands[1])) {
    const std::string& number = operand(node, 1);
    if (is_inline(kernel_.node(node.operands[1]))) {
      return fmt::format("{}_div_by({}, {})", prefix, operand(node, 0), divisor(number));
    }
    if (is_quick) {
      return fmt::format("q_div_by({}, {})", operand(node, 0), number);
    }
  }
  std::string text = fmt::format("{}_{}({}", prefix, row.name, operand(node, 0));
  if (operand_count(node.primitive) == 2) {
    text += fmt::format(", {}", operand(node, 1));
  }
  return text + ")";
}

std::string BodyPrinter::division(std::int32_t place, std::string& before) {
  const KernelNode& node = kernel_.node(place);
  if (is_float(node.type)) {
    return function(place);
  }
  const std::string& a = operand(node, 0);
  const std::string& b = operand(node, 1);
  const KernelNode& divisor = kernel_.node(node.operands[1]);
  if (divisor.primitive == Primitive::constant && divisor.bits != 0) {
    const bool is_shift = node.type == DType::i64 && std::has_single_bit(divisor.bits) &&
                          is_whole_[static_cast<std::size_t>(node.operands[0])];
    if (is_shift) {
      return fmt::format("{} >> {}", a, std::countr_zero(divisor.bits));
    }
  } else {
    before += fmt::format("if ({} == {}) {{\nundefined({}u, place);\n}}\n",
                          b,
                          spelling_.literal(node.type, 0),
                          kDivisionByZero);
  }
  return fmt::format("div_{}({}, {})", name(node.type), a, b);
}

std::string BodyPrinter::power(std::int32_t place, std::string& before) {
  const KernelNode& node = kernel_.node(place);
  if (is_float(node.type)) {
    return function(place);
  }
  const std::string& a = operand(node, 0);
  const std::string& b = operand(node, 1);
  if (node.type != DType::u8) {
    before += fmt::format("if ({0} == {2} && {1} < {2}) {{\nundefined({3}u, place);\n}}\n",
                          a,
                          b,
                          spelling_.literal(node.type, 0),
                          kZeroToNegative);
  }
  return fmt::format("pow_{}({}, {})", name(node.type), a, b);
}

std::string BodyPrinter::conversion(std::int32_t place) const {
  const KernelNode& node = kernel_.node(place);
  const std::string& a = operand(node, 0);
  const DType from = operand_type(node, 0);
  const DType to = node.type;
  if (is_half(to)) {
    // The store rounds. Values that f32 cannot hold are rounded to odd first (sticky_of). Integers
    // beyond f32 are infinite as f16.
    const bool is_unrounded = is_stored_only_[static_cast<std::size_t>(place)];
    const bool is_wide =
        from == DType::f64 || (to == DType::bf16 && (from == DType::i64 || from == DType::i32));
    const std::string near = is_wide          ? fmt::format("sticky_of_{}({})", name(from), a)
                             : is_float(from) ? a
                             : from == DType::boolean ? fmt::format("({} ? 1.0f : 0.0f)", a)
                                                      : fmt::format("float({})", a);
    return is_unrounded ? near : fmt::format("{}_of_f32({})", name(to), near);
  }
  const DType held = is_half(from) ? DType::f32 : from;
  if (held == to) {
    return a;
  }
  if (to == DType::boolean) {
    return is_float(held) ? fmt::format("bool_of_{}({})", name(held), a)
                          : fmt::format("{} != {}", a, spelling_.literal(held, 0));
  }
  if (is_float(held) && !is_float(to)) {
    return fmt::format("{}_of_{}({})", name(to), name(held), a);
  }
  if (held == DType::boolean) {
    const std::uint64_t one = is_float(to) ? std::bit_cast<std::uint64_t>(1.0) : 1U;
    return fmt::format("{} ? {} : {}", a, spelling_.literal(to, one), spelling_.literal(to, 0));
  }
  const std::string plain = fmt::format("{}({})", spelling_.types[static_cast<std::size_t>(to)], a);
  return narrowed(to, plain);
}

// A Philox block has four words, which neighbours share. Each stream of words caches its last
// block.
std::string BodyPrinter::random_word(const KernelNode& node) {
  std::size_t i = 0;
  while (i < streams_.size() &&
         (streams_[i].seed != node.operands[0] || streams_[i].counter != node.operands[1])) {
    ++i;
  }
  if (i == streams_.size()) {
    streams_.push_back({node.operands[0], node.operands[1]});
  }
  const std::string_view wide = spelling_.types[static_cast<std::size_t>(DType::i64)];
  return fmt::format("{}(philox_word(words{}, {}, {}, {}))",
                     wide,
                     i,
                     operand(node, 0),
                     operand(node, 1),
                     operand(node, 2));
}

}  // namespace hearth::gpu
