#include "expression_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include <fmt/format.h>

#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/kernel/op_expression.hpp>

#include "nearest_name.hpp"

namespace hearth::bench {
namespace {

using Values = std::span<const KernelValue>;

struct Function {
  std::string_view name;
  std::size_t count;  ///< Arguments.
  KernelValue (*make)(Values);
};

KernelValue sigmoid(KernelValue x) {
  return 1.0 / (1.0 + exp(-x));
}

constexpr std::array kFunctions = {
    Function{"abs", 1, [](Values v) { return abs(v[0]); }},
    Function{"cos", 1, [](Values v) { return cos(v[0]); }},
    Function{"erf", 1, [](Values v) { return erf(v[0]); }},
    Function{"exp", 1, [](Values v) { return exp(v[0]); }},
    Function{"gelu", 1, [](Values v) { return v[0] * (erf(v[0] / std::sqrt(2.0)) + 1.0) / 2.0; }},
    Function{"log", 1, [](Values v) { return log(v[0]); }},
    Function{"max", 2, [](Values v) { return max(v[0], v[1]); }},
    Function{"min", 2, [](Values v) { return min(v[0], v[1]); }},
    Function{"pow", 2, [](Values v) { return pow(v[0], v[1]); }},
    Function{"relu", 1, [](Values v) { return max(v[0], v[0].builder->constant(0.0, v[0].type)); }},
    Function{"sigmoid", 1, [](Values v) { return sigmoid(v[0]); }},
    Function{"silu", 1, [](Values v) { return v[0] * sigmoid(v[0]); }},
    Function{"sin", 1, [](Values v) { return sin(v[0]); }},
    Function{"sqrt", 1, [](Values v) { return sqrt(v[0]); }},
    Function{"tanh", 1, [](Values v) { return tanh(v[0]); }},
};

/// Recursive descent, one function a level of the grammar.
class Parser final {
 public:
  Parser(std::string_view text, DType dtype)
      : text_(text), dtype_(dtype), type_(compute_type(dtype)), builder_({0}) {}

  Result<NamedExpression> parse() {
    HEARTH_TRY(const KernelValue value, sum());
    if (peek() != '\0') {
      return wrong("an operator or the end");
    }
    if (names_.empty()) {
      return Error{.code = ErrorCode::invalid_argument,
                   .text = fmt::format("expression '{}' has no input", text_)};
    }
    builder_.output(builder_.convert(value, dtype_));
    HEARTH_TRY(ExpressionRef expression, make_expression(std::string(text_), builder_.take()));
    return NamedExpression{.expression = std::move(expression), .inputs = std::move(names_)};
  }

 private:
  char peek() {
    while (place_ < text_.size() && text_[place_] == ' ') {
      ++place_;
    }
    return place_ < text_.size() ? text_[place_] : '\0';
  }
  bool take(char sign) {
    if (peek() != sign) {
      return false;
    }
    ++place_;
    return true;
  }
  [[nodiscard]] Error wrong(std::string_view expected) const {
    return {.code = ErrorCode::invalid_argument,
            .text = fmt::format(
                "expression '{}': {} expected at character {}", text_, expected, place_ + 1)};
  }

  Result<KernelValue> sum() {
    HEARTH_TRY(KernelValue left, product());
    for (;;) {
      if (take('+')) {
        HEARTH_TRY(const KernelValue right, product());
        left = left + right;
      } else if (take('-')) {
        HEARTH_TRY(const KernelValue right, product());
        left = left + -right;
      } else {
        return left;
      }
    }
  }
  Result<KernelValue> product() {
    HEARTH_TRY(KernelValue left, factor());
    for (;;) {
      if (take('*')) {
        HEARTH_TRY(const KernelValue right, factor());
        left = left * right;
      } else if (take('/')) {
        HEARTH_TRY(const KernelValue right, factor());
        left = left / right;
      } else {
        return left;
      }
    }
  }
  Result<KernelValue> factor() {
    if (take('-')) {
      HEARTH_TRY(const KernelValue value, factor());
      return -value;
    }
    if (take('(')) {
      HEARTH_TRY(const KernelValue value, sum());
      return take(')') ? Result<KernelValue>(value) : Result<KernelValue>(wrong("')'"));
    }
    const char next = peek();
    if (std::isdigit(static_cast<unsigned char>(next)) != 0 || next == '.') {
      return number();
    }
    if (std::isalpha(static_cast<unsigned char>(next)) != 0 || next == '_') {
      return name();
    }
    return wrong("a number, a name or '('");
  }
  Result<KernelValue> number() {
    double value = 0;
    const char* const begin = text_.data() + place_;
    const auto [end, problem] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (problem != std::errc()) {
      return wrong("a number");
    }
    place_ += static_cast<std::size_t>(end - begin);
    return builder_.constant(value, type_);
  }
  Result<KernelValue> name() {
    const std::size_t begin = place_;
    while (place_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[place_])) != 0 || text_[place_] == '_')) {
      ++place_;
    }
    const std::string_view word = text_.substr(begin, place_ - begin);
    return take('(') ? call(word) : input(word);
  }
  Result<KernelValue> call(std::string_view word) {
    const auto function = std::ranges::find(kFunctions, word, &Function::name);
    if (function == kFunctions.end()) {
      return Error{.code = ErrorCode::invalid_argument,
                   .text = fmt::format("expression '{}': no function '{}'{}; there are {}",
                                       text_,
                                       word,
                                       did_you_mean(word, names_of(kFunctions, &Function::name)),
                                       expression_functions())};
    }
    std::vector<KernelValue> arguments;
    do {
      HEARTH_TRY(const KernelValue argument, sum());
      arguments.push_back(argument);
    } while (take(','));
    if (!take(')')) {
      return wrong("')'");
    }
    if (arguments.size() != function->count) {
      return Error{.code = ErrorCode::invalid_argument,
                   .text = fmt::format("expression '{}': {} has {} arguments, not {}",
                                       text_,
                                       word,
                                       function->count,
                                       arguments.size())};
    }
    return function->make(arguments);
  }
  KernelValue input(std::string_view word) {
    const auto known = std::ranges::find(names_, word);
    if (known != names_.end()) {
      return values_[static_cast<std::size_t>(known - names_.begin())];
    }
    names_.emplace_back(word);
    const KernelValue read = builder_.input(dtype_, {AffineIndex{.terms = {IndexTerm{.axis = 0}}}});
    values_.push_back(builder_.convert(read, type_));
    return values_.back();
  }

  std::string_view text_;
  DType dtype_;
  DType type_;
  KernelBuilder builder_;
  std::size_t place_ = 0;
  std::vector<std::string> names_ = {};
  std::vector<KernelValue> values_ = {};
};

}  // namespace

Result<NamedExpression> parse_expression(std::string_view text, DType dtype) {
  return Parser(text, dtype).parse();
}

std::string expression_functions() {
  std::string all;
  for (const Function& each : kFunctions) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", each.name);
  }
  return all;
}

}  // namespace hearth::bench
