#include <hearth/runtime/custom_op.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/interner.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "runtime/client/tensor_impl.hpp"
#include "runtime/ops/capture.hpp"
#include "runtime/ops/expression_op.hpp"
#include "runtime/ops/op_operand.hpp"
#include "runtime/tape/tape.hpp"

namespace hearth {
namespace {

constexpr std::size_t kMostOperands = 4;

/// The element types of a call's operands, one byte each; numbers have the kNumber bit.
using Signature = std::array<std::uint8_t, kMostOperands>;
constexpr std::uint8_t kNumber = 0x80;
constexpr std::uint8_t kNone = 0xff;

/// The captured op for operands of one signature.
struct Variant {
  Signature signature{};
  ExpressionRef expression;
  std::string without_gradient;  ///< Why it has no gradient: the op without one, and its line.
};

struct VariantPolicy {
  using Id = hearth::detail::Id<struct VariantTag>;
  using Key = Variant;
  using Entry = Variant;
  static std::uint64_t hash(const Variant& variant) noexcept {
    std::uint64_t bits = 0;
    for (const std::uint8_t type : variant.signature) {
      bits = bits << 8U | type;
    }
    return bits * 0x9e3779b97f4a7c15U;
  }
  static bool equal(const Variant& entry, const Variant& variant) noexcept {
    return entry.signature == variant.signature;
  }
  static Variant make(const Variant& variant) { return variant; }
  static Error full(std::uint32_t cap) {
    return Error{.code = ErrorCode::out_of_memory,
                 .text = fmt::format("custom op: {} combinations of element types", cap)};
  }
};

bool is_number(std::uint8_t type) noexcept {
  return (type & kNumber) != 0;
}

[[noreturn]] void refuse(const std::string& op, ErrorCode code, std::string what, SourceLoc loc) {
  throw_error(Error{.code = code, .text = op + ": " + std::move(what), .op = op, .location = loc});
}

}  // namespace

struct CustomOp::State {
  std::string name;
  std::size_t operand_count;
  Function function;
  detail::Interner<VariantPolicy> variants{1024};

  /// The first tensor among the operands; numbers take its type. Errors: ArgumentError if there is
  /// none, or if one is empty.
  [[nodiscard]] const TensorImpl& first_tensor(std::span<const Arg> operands) const;
  [[nodiscard]] Signature signature_of(std::span<const Arg> operands, DType first) const;
  [[nodiscard]] const Variant& variant(const Signature& signature, SourceLoc loc);
  [[nodiscard]] Variant capture(const Signature& signature, SourceLoc loc) const;
  [[nodiscard]] ExpressionGradient gradient(const Signature& signature,
                                            std::size_t input,
                                            DType result,
                                            SourceLoc loc) const;
  /// Calls the function with the operands in their order, taken from a capture's tensors and
  /// numbers.
  [[nodiscard]] Tensor run(const Signature& signature,
                           std::span<const Tensor> tensors,
                           std::span<const Tensor> numbers) const;
  [[nodiscard]] Tensor run_inline(std::span<const Arg> operands, const Signature& signature) const;
};

const TensorImpl& CustomOp::State::first_tensor(std::span<const Arg> operands) const {
  const SourceLoc loc = operands[0].location();
  if (operands.size() != operand_count) {
    refuse(name,
           ErrorCode::invalid_argument,
           fmt::format("takes {} operands, was given {}", operand_count, operands.size()),
           loc);
  }
  const auto first =
      std::ranges::find_if(operands, [](const Arg& each) { return !each.is_scalar(); });
  if (first == operands.end()) {
    refuse(name, ErrorCode::invalid_argument, "all operands are numbers", loc);
  }
  const auto is_empty = [](const Arg& each) {
    return !each.is_scalar() && !each.tensor().is_valid();
  };
  if (std::ranges::any_of(operands, is_empty)) {
    refuse(name, ErrorCode::invalid_argument, "an operand is an empty tensor", loc);
  }
  return *detail::TensorAccess::impl(first->tensor());
}

Signature CustomOp::State::signature_of(std::span<const Arg> operands, DType first) const {
  Signature signature{kNone, kNone, kNone, kNone};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_scalar = operands[i].is_scalar();
    const DType dtype = is_scalar ? first : detail::TensorAccess::impl(operands[i].tensor())->dtype;
    signature[i] =
        static_cast<std::uint8_t>(static_cast<unsigned>(dtype) | (is_scalar ? kNumber : 0U));
  }
  return signature;
}

Tensor CustomOp::State::run(const Signature& signature,
                            std::span<const Tensor> tensors,
                            std::span<const Tensor> numbers) const {
  std::vector<Tensor> operands;
  std::size_t next_tensor = 0;
  std::size_t next_number = 0;
  for (std::size_t i = 0; i < operand_count; ++i) {
    operands.push_back(is_number(signature[i]) ? numbers[next_number++] : tensors[next_tensor++]);
  }
  return function(operands);
}

// Inside a captured function the op becomes part of that capture.
Tensor CustomOp::State::run_inline(std::span<const Arg> operands,
                                   const Signature& signature) const {
  std::vector<Tensor> tensors;
  std::vector<Tensor> numbers;
  for (const Arg& operand : operands) {
    if (!operand.is_scalar()) {
      tensors.push_back(operand.tensor());
    }
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Arg& operand = operands[i];
    if (operand.is_scalar()) {
      const Device device = tensors[0].device();
      const auto dtype = static_cast<DType>(signature[i] & ~unsigned{kNumber});
      numbers.push_back(
          is_float(dtype)
              ? full(device, {}, operand.real(), dtype, operand.location())
              : detail::full_integer(device, {}, operand.integer(), dtype, operand.location()));
    }
  }
  return run(signature, tensors, numbers);
}

// Captures without the table's lock, since the function is the program's: two threads may both
// capture.
const Variant& CustomOp::State::variant(const Signature& signature, SourceLoc loc) {
  Variant wanted{.signature = signature, .expression = nullptr, .without_gradient = {}};
  if (const auto known = variants.find(wanted)) {
    return variants[*known];
  }
  wanted = capture(signature, loc);
  const auto made = variants.intern(wanted);
  if (!made.has_value()) {
    throw_error(made.error());
  }
  return variants[made.value()];
}

namespace {

struct Types {
  std::vector<DType> tensors;
  std::vector<DType> numbers;
};

Types types_of(const Signature& signature) {
  Types types;
  for (const std::uint8_t type : signature) {
    if (type != kNone) {
      const auto dtype = static_cast<DType>(type & ~unsigned{kNumber});
      (is_number(type) ? types.numbers : types.tensors).push_back(dtype);
    }
  }
  return types;
}

}  // namespace

// Phases: capture the op; capture the gradient of each float operand, if the result is a float.
Variant CustomOp::State::capture(const Signature& signature, SourceLoc loc) const {
  const Types types = types_of(signature);
  const detail::CaptureForm form{
      .name = name, .tensors = types.tensors, .scalars = types.numbers, .location = loc};
  const detail::Captured captured =
      detail::capture_checked(form, [&](std::span<Tensor> tensors, std::span<Tensor> numbers) {
        return std::vector<Tensor>{run(signature, tensors, numbers)};
      });
  detail::require_all(form, captured);
  const DType result = captured.kernel.outputs[0].dtype;
  std::vector<ExpressionGradient> gradients;
  if (is_float(result)) {
    for (std::size_t i = 0; i < types.tensors.size(); ++i) {
      gradients.push_back(is_float(types.tensors[i]) ? gradient(signature, i, result, loc)
                                                     : ExpressionGradient{});
    }
  }
  const bool has_any = std::ranges::any_of(
      gradients, [](const ExpressionGradient& each) { return each.expression != nullptr; });
  if (!has_any) {
    gradients.clear();
  }
  return Variant{.signature = signature,
                 .expression = detail::expression_of(form, captured, std::move(gradients)),
                 .without_gradient = captured.without_gradient};
}

// Tapes the function while it is captured, so that the capture contains the ops of the sweep.
ExpressionGradient CustomOp::State::gradient(const Signature& signature,
                                             std::size_t input,
                                             DType result,
                                             SourceLoc loc) const {
  Types types = types_of(signature);
  types.tensors.push_back(result);
  const detail::CaptureForm form{.name = name + " (gradient)",
                                 .tensors = types.tensors,
                                 .scalars = types.numbers,
                                 .location = loc};
  const auto taped = [&](std::span<Tensor> tensors, std::span<Tensor> numbers) {
    detail::TapeScope scope;
    std::vector<Tensor> tracked;
    for (const Tensor& tensor : tensors.first(tensors.size() - 1)) {
      tracked.push_back(scope.track(tensor, name, loc));
    }
    const Tensor value = run(signature, tracked, numbers);
    std::vector<Tensor> gradients;
    if (value.is_tracked()) {
      gradients = scope.sweep(mul(Arg(value, loc), Arg(tensors.back(), loc)), {}, loc);
      const std::vector<Tensor> unreached = scope.take_unreached();
      const bool is_reached = unreached.empty() || !unreached[input].is_valid();
      gradients =
          is_reached ? std::vector<Tensor>{gradients[input].detach()} : std::vector<Tensor>{};
    }
    return gradients;
  };
  detail::Captured captured = detail::capture(form, taped);
  if (captured.tensors.empty()) {
    return {};
  }
  return {.expression = detail::expression_of(form, captured),
          .inputs = std::move(captured.tensors),
          .scalars = std::move(captured.scalars)};
}

CustomOp::CustomOp(std::string name, int operand_count, Function function, SourceLoc loc)
    : state_(std::make_shared<State>()) {
  if (name.empty() || !function) {
    refuse("custom_op", ErrorCode::invalid_argument, "it needs a name and a function", loc);
  }
  if (operand_count < 1 || operand_count > static_cast<int>(kMostOperands)) {
    refuse(name,
           ErrorCode::invalid_argument,
           fmt::format("{} operands; 1 to {} are possible", operand_count, kMostOperands),
           loc);
  }
  state_->name = std::move(name);
  state_->operand_count = static_cast<std::size_t>(operand_count);
  state_->function = std::move(function);
}

Tensor CustomOp::operator()(Arg a) const {
  return call({&a, 1});
}
Tensor CustomOp::operator()(Arg a, Arg b) const {
  return call(std::array{a, b});
}
Tensor CustomOp::operator()(Arg a, Arg b, Arg c) const {
  return call(std::array{a, b, c});
}
Tensor CustomOp::operator()(Arg a, Arg b, Arg c, Arg d) const {
  return call(std::array{a, b, c, d});
}

// Phases: numbers take the type of the first tensor; the operands' types select the variant; a
// tracked operand requires its gradient; submit the op.
Tensor CustomOp::call(std::span<const Arg> operands) const {
  const SourceLoc loc = operands[0].location();
  const TensorImpl& first = state_->first_tensor(operands);
  const Signature signature = state_->signature_of(operands, first.dtype);
  std::vector<Arg> inputs;
  std::vector<ScalarAttributes> numbers;
  bool is_tracked = false;
  bool is_inline = false;
  for (const Arg& operand : operands) {
    if (operand.is_scalar()) {
      numbers.push_back(detail::scalar_of(state_->name, operand, first, first.dtype));
      continue;
    }
    inputs.push_back(operand);
    is_tracked = is_tracked || operand.tensor().is_tracked();
    // An expression's gradients have none of their own; plain ops do.
    is_inline = is_inline || detail::is_captured(operand.tensor()) ||
                detail::has_nested_tape(operand.tensor());
  }
  if (is_inline) {
    return state_->run_inline(operands, signature);
  }
  const Variant& variant = state_->variant(signature, loc);
  const Expression& expression = *variant.expression;
  if (is_tracked && is_float(expression.kernel.outputs[0].dtype) && expression.gradients.empty()) {
    refuse(state_->name,
           ErrorCode::invalid_argument,
           fmt::format("it has no gradient, because {} has none; detach() its operands",
                       variant.without_gradient),
           loc);
  }
  Tensor result;
  detail::submit({.expression = variant.expression,
                  .inputs = inputs,
                  .parameters = detail::ParameterBits(expression, numbers),
                  .location = loc},
                 {&result, 1});
  return result;
}

}  // namespace hearth
