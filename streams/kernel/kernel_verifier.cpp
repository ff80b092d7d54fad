#include <hearth/streams/kernel/kernel_verifier.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace hearth {
namespace {

Error broken(std::string_view place, std::string_view rule, std::string_view values) {
  return {.code = ErrorCode::invalid_argument,
          .text = fmt::format("kernel: {}: {}: {}", place, rule, values)};
}

bool is_known(DType dtype) {
  return static_cast<int>(dtype) < kDTypeCount;
}
// Types that can be computed with. The 16-bit ones are only loaded, stored, moved and converted.
bool is_arithmetic(DType dtype) {
  return is_integer(dtype) || dtype == DType::f32 || dtype == DType::f64;
}

// Returns whether a constant's bits are a value of its type.
bool is_value_of(const KernelNode& node) {
  if (!is_float(node.type)) {
    return fits(std::bit_cast<std::int64_t>(node.bits), node.type);
  }
  const auto value = std::bit_cast<double>(node.bits);
  return node.type == DType::f64 || std::isnan(value) ||
         (node.type == DType::f32 && static_cast<double>(static_cast<float>(value)) == value);
}

class Verifier {
 public:
  explicit Verifier(const KernelIR& kernel)
      : kernel_(kernel),
        is_used_(static_cast<std::size_t>(kernel.node_count())),
        is_input_used_(kernel.inputs.size()),
        is_parameter_used_(kernel.parameters.size()) {}

  Status run() {
    HEARTH_TRY_STATUS(check_space());
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      HEARTH_TRY_STATUS(check_input(i));
    }
    for (std::size_t i = 0; i < kernel_.parameters.size(); ++i) {
      if (!is_known(kernel_.parameters[i])) {
        return broken(fmt::format("parameter {}", i), "a known type", "none");
      }
    }
    for (std::int32_t place = 0; place < kernel_.node_count(); ++place) {
      HEARTH_TRY_STATUS(check_node(place));
      stays_.push_back(stays_along_rows(kernel_, kernel_.node(place), stays_));
    }
    HEARTH_TRY_STATUS(check_outputs());
    HEARTH_TRY_STATUS(check_uses());
    return check_schedule();
  }

 private:
  // ---- the space and the operands ----

  Status check_space() const {
    if (kernel_.version != kKernelVersion) {
      return broken(
          "version", fmt::format("{}", kKernelVersion), fmt::format("{}", kernel_.version));
    }
    if (kernel_.axis_count() > kMaxRank) {
      return broken("space",
                    fmt::format("at most {} axes", kMaxRank),
                    fmt::format("{}", kernel_.axis_count()));
    }
    std::int32_t next = 0;
    for (const std::int32_t symbol : kernel_.extents) {
      if (symbol < 0 || symbol > next) {
        return broken("space",
                      "symbols count from 0 in the order of the axes",
                      fmt::format("s{} where s{} is next", symbol, next));
      }
      next = std::max(next, symbol + 1);
    }
    if ((kernel_.folded >> static_cast<unsigned>(kernel_.axis_count())) != 0) {
      return broken("space",
                    fmt::format("folded axes among its {}", kernel_.axis_count()),
                    fmt::format("mask {:#x}", kernel_.folded));
    }
    return {};
  }

  [[nodiscard]] Status check_map(const std::string& place,
                                 const std::vector<AffineIndex>& map) const {
    if (map.size() > static_cast<std::size_t>(kMaxRank)) {
      return broken(place, fmt::format("at most {} axes", kMaxRank), fmt::format("{}", map.size()));
    }
    for (const AffineIndex& index : map) {
      int last = -1;
      for (const IndexTerm& term : index.terms) {
        if (term.axis < 0 || term.axis >= kernel_.axis_count()) {
          return broken(place, "an axis of the space", fmt::format("i{}", term.axis));
        }
        if (term.axis < last) {
          return broken(place,
                        "terms in the order of the axes",
                        fmt::format("i{} behind i{}", term.axis, last));
        }
        last = term.axis;
        if (term.step == 0 || term.divisor < 1 || term.modulus < 0 || term.modulus == 1) {
          return broken(
              place,
              "a step that is not 0, a divisor from 1, a modulus from 2 (or 0 for none)",
              fmt::format(
                  "step {}, divisor {}, modulus {}", term.step, term.divisor, term.modulus));
        }
      }
    }
    return {};
  }

  [[nodiscard]] Status check_input(std::size_t i) const {
    const std::string place = fmt::format("input {}", i);
    if (!is_known(kernel_.inputs[i].dtype)) {
      return broken(place, "a known type", "none");
    }
    return check_map(place, kernel_.inputs[i].map);
  }

  // ---- nodes ----

  [[nodiscard]] std::string place_of(std::int32_t place) const {
    return fmt::format("node %{} {}", place, name(kernel_.node(place).primitive));
  }
  [[nodiscard]] Status types_differ(std::int32_t place, DType a, DType b) const {
    return broken(
        place_of(place), "operands of one type", fmt::format("{} and {}", name(a), name(b)));
  }
  [[nodiscard]] Status wrong_type(std::int32_t place, std::string_view rule, DType got) const {
    return broken(place_of(place), rule, name(got));
  }
  [[nodiscard]] DType type_of(const KernelNode& node, std::size_t operand) const {
    return kernel_.node(node.operands[operand]).type;
  }

  Status check_node(std::int32_t place) {
    const KernelNode& node = kernel_.node(place);
    if (operand_count(node.primitive) < 0) {
      return broken(place_of(place),
                    "a known primitive",
                    fmt::format("{}", static_cast<int>(node.primitive)));
    }
    if (!is_known(node.type)) {
      return broken(place_of(place), "a known type", "none");
    }
    HEARTH_TRY_STATUS(check_operands(place));
    return operand_count(node.primitive) == 0 ? check_leaf(place) : check_types(place);
  }

  // Requires as many operands as the primitive takes, each an earlier node.
  Status check_operands(std::int32_t place) {
    const KernelNode& node = kernel_.node(place);
    const auto count = static_cast<std::size_t>(operand_count(node.primitive));
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const std::int32_t operand = node.operands[i];
      if ((operand != kNoNode) != (i < count)) {
        return broken(place_of(place),
                      fmt::format("{} operands", count),
                      fmt::format("operand {} is {}", i, operand));
      }
      if (i < count && (operand < 0 || operand >= place)) {
        return broken(place_of(place), "operands stand before it", fmt::format("%{}", operand));
      }
      if (i < count) {
        is_used_[static_cast<std::size_t>(operand)] = true;
      }
    }
    const bool has_number = node.primitive == Primitive::input ||
                            node.primitive == Primitive::parameter ||
                            node.primitive == Primitive::index || node.primitive == Primitive::fold;
    if ((node.number != 0 && !has_number) ||
        (node.bits != 0 && node.primitive != Primitive::constant)) {
      return broken(place_of(place),
                    "what it does not need is 0",
                    fmt::format("number {}, bits {:#x}", node.number, node.bits));
    }
    return {};
  }

  Status check_leaf(std::int32_t place) {
    const KernelNode& node = kernel_.node(place);
    switch (node.primitive) {
      case Primitive::input:
        return check_input_leaf(place);
      case Primitive::parameter:
        HEARTH_TRY_STATUS(check_number(place, kernel_.parameters.size(), "parameters"));
        is_parameter_used_[static_cast<std::size_t>(node.number)] = true;
        return require_type(place, kernel_.parameters[static_cast<std::size_t>(node.number)]);
      case Primitive::constant:
        if (!is_value_of(node)) {
          return broken(place_of(place),
                        fmt::format("a value of {}", name(node.type)),
                        fmt::format("bits {:#x}", node.bits));
        }
        return {};
      case Primitive::index:
        HEARTH_TRY_STATUS(check_number(place, kernel_.extents.size(), "axes"));
        return require_type(place, DType::i64);
      default:  // position
        return require_type(place, DType::i64);
    }
  }

  Status check_input_leaf(std::int32_t place) {
    HEARTH_TRY_STATUS(check_number(place, kernel_.inputs.size(), "inputs"));
    const auto number = static_cast<std::size_t>(kernel_.node(place).number);
    const KernelInput& input = kernel_.inputs[number];
    is_input_used_[number] = true;
    return require_type(place, input.dtype);
  }

  [[nodiscard]] Status check_number(std::int32_t place,
                                    std::size_t count,
                                    std::string_view what) const {
    const std::int32_t number = kernel_.node(place).number;
    if (number >= 0 && static_cast<std::size_t>(number) < count) {
      return {};
    }
    return broken(
        place_of(place), fmt::format("one of {} {}", count, what), fmt::format("{}", number));
  }
  [[nodiscard]] Status require_type(std::int32_t place, DType type) const {
    const DType got = kernel_.node(place).type;
    return got == type ? Status()
                       : wrong_type(place, fmt::format("its type is {}", name(type)), got);
  }

  [[nodiscard]] Status check_types(std::int32_t place) const {
    const KernelNode& node = kernel_.node(place);
    const DType first = type_of(node, 0);
    switch (node.primitive) {
      case Primitive::convert:
        return first != node.type ? Status()
                                  : wrong_type(place, "a type that is not the operand's", first);
      case Primitive::logical_not:
      case Primitive::logical_and:
      case Primitive::logical_or:
        return check_same(
            place, 0, [](DType type) { return type == DType::boolean; }, "bool", first);
      case Primitive::sqrt:
      case Primitive::exp:
      case Primitive::log:
      case Primitive::sin:
      case Primitive::cos:
      case Primitive::tanh:
      case Primitive::erf:
      case Primitive::atan:
        return check_same(
            place,
            0,
            [](DType type) { return type == DType::f32 || type == DType::f64; },
            "f32 or f64",
            first);
      case Primitive::equal:
        return check_same(
            place,
            0,
            [](DType type) { return is_arithmetic(type) || type == DType::boolean; },
            "bool or a type that is computed with",
            DType::boolean);
      case Primitive::less:
      case Primitive::less_equal:
        return check_same(place, 0, is_arithmetic, "a type that is computed with", DType::boolean);
      case Primitive::bit_and:
      case Primitive::bit_or:
      case Primitive::bit_xor:
      case Primitive::shift_left:
      case Primitive::shift_right:
        return check_same(place, 0, is_integer, "an integer type", first);
      case Primitive::select:
        if (first != DType::boolean) {
          return wrong_type(place, "the condition is bool", first);
        }
        return check_same(place, 1, is_known, "a known type", type_of(node, 1));
      case Primitive::philox:
        return check_same(
            place, 0, [](DType type) { return type == DType::i64; }, "i64", DType::i64);
      case Primitive::fold:
      case Primitive::softmax:
      case Primitive::log_softmax:
      case Primitive::softmax_backward:
      case Primitive::log_softmax_backward:
        return check_row(place);
      default:
        return check_same(place, 0, is_arithmetic, "a type that is computed with", first);
    }
  }

  // Checks a primitive that reads rows: folded axes exist, and each operand has an element at each
  // of their positions.
  [[nodiscard]] Status check_row(std::int32_t place) const {
    const KernelNode& node = kernel_.node(place);
    if (kernel_.folded == 0) {
      return broken(place_of(place), "an axis that is folded", "none");
    }
    for (const std::int32_t operand : node.operands) {
      if (operand != kNoNode && stays_[static_cast<std::size_t>(operand)]) {
        return broken(place_of(place),
                      "operands with an element at each place of a row",
                      fmt::format("%{} has one", operand));
      }
    }
    const DType type = type_of(node, 0);
    if (node.primitive != Primitive::fold) {
      return check_same(
          place,
          0,
          [](DType each) { return each == DType::f32 || each == DType::f64; },
          "f32 or f64",
          type);
    }
    if (node.number < 0 || node.number >= kFoldOpCount) {
      return broken(place_of(place), "a known fold", fmt::format("{}", node.number));
    }
    if (static_cast<FoldOp>(node.number) == FoldOp::mean && !is_float(type)) {
      return wrong_type(place, "a mean is of floats", type);
    }
    return check_same(place, 0, is_arithmetic, "a type that is computed with", type);
  }

  // Requires that the operands from `from` on have one type that `accepts` takes, and that the node
  // has the type `result`.
  template <class Accepts>
  [[nodiscard]] Status check_same(std::int32_t place,
                                  std::size_t from,
                                  const Accepts& accepts,
                                  std::string_view accepted,
                                  DType result) const {
    const KernelNode& node = kernel_.node(place);
    const auto count = static_cast<std::size_t>(operand_count(node.primitive));
    const DType type = type_of(node, from);
    for (std::size_t i = from + 1; i < count; ++i) {
      if (type_of(node, i) != type) {
        return types_differ(place, type, type_of(node, i));
      }
    }
    if (!accepts(type)) {
      return wrong_type(place, fmt::format("operands are {}", accepted), type);
    }
    return require_type(place, result);
  }

  // ---- the outputs, the rest ----

  Status check_outputs() {
    if (kernel_.outputs.empty()) {
      return broken("outputs", "at least one", "none");
    }
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const KernelOutput& output = kernel_.outputs[i];
      const std::string place = fmt::format("output {}", i);
      HEARTH_TRY_STATUS(check_map(place, output.map));
      if (output.value < 0 || output.value >= kernel_.node_count()) {
        return broken(place, "a value of the body", fmt::format("%{}", output.value));
      }
      HEARTH_TRY_STATUS(check_output_map(place, output));
      const DType type = kernel_.node(output.value).type;
      if (type != output.dtype) {
        return broken(place,
                      "the type of its value",
                      fmt::format("{}, the value is {}", name(output.dtype), name(type)));
      }
      is_used_[static_cast<std::size_t>(output.value)] = true;
    }
    return {};
  }

  // Requires that every position is written once: each axis of the value is in the map once, as a
  // plain index.
  [[nodiscard]] Status check_output_map(const std::string& place,
                                        const KernelOutput& output) const {
    const bool stays = stays_[static_cast<std::size_t>(output.value)];
    const auto is_left_out = [&](int axis) { return stays && kernel_.is_folded(axis); };
    std::uint32_t seen = 0;
    for (const AffineIndex& index : output.map) {
      if (!index.is_plain() || is_left_out(index.terms[0].axis) ||
          (seen >> static_cast<unsigned>(index.terms[0].axis) & 1U) != 0) {
        return broken(place,
                      "each axis of its value once, as it is",
                      fmt::format("axis {}", &index - output.map.data()));
      }
      seen |= 1U << static_cast<unsigned>(index.terms[0].axis);
    }
    for (int axis = 0; axis < kernel_.axis_count(); ++axis) {
      if (!is_left_out(axis) && (seen >> static_cast<unsigned>(axis) & 1U) == 0) {
        return broken(
            place, "each axis of its value once, as it is", fmt::format("without i{}", axis));
      }
    }
    return {};
  }

  [[nodiscard]] Status check_uses() const {
    for (std::int32_t place = 0; place < kernel_.node_count(); ++place) {
      if (!is_used_[static_cast<std::size_t>(place)]) {
        return broken(place_of(place), "its value is used", "by nothing");
      }
    }
    HEARTH_TRY_STATUS(check_all_used("input", is_input_used_));
    return check_all_used("parameter", is_parameter_used_);
  }
  static Status check_all_used(std::string_view what, const std::vector<bool>& is_used) {
    const auto unused = std::find(is_used.begin(), is_used.end(), false);
    return unused == is_used.end() ? Status()
                                   : broken(fmt::format("{} {}", what, unused - is_used.begin()),
                                            "a node reads it",
                                            "none");
  }

  [[nodiscard]] Status check_schedule() const {
    const KernelSchedule& schedule = kernel_.schedule;
    if (schedule.vector != 0 && !std::has_single_bit(schedule.vector)) {
      return broken("schedule", "a vector of 2^n elements", fmt::format("{}", schedule.vector));
    }
    return {};
  }

  const KernelIR& kernel_;
  std::vector<bool> is_used_;
  std::vector<bool> is_input_used_;
  std::vector<bool> is_parameter_used_;
  std::vector<bool> stays_ = {};  ///< For the nodes so far.
};

}  // namespace

Status verify(const KernelIR& kernel) {
  return Verifier(kernel).run();
}

}  // namespace hearth
