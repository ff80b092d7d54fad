#include "problem.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/shape_rules.hpp>

#include "expression_text.hpp"
#include "nearest_name.hpp"

namespace hearth::bench {
namespace {

using testing::Precision;

Error mistake(std::string text) {
  return {.code = ErrorCode::invalid_argument, .text = std::move(text)};
}

/// The words of one problem, with the initial values of those that the text lacks.
class Words final {
 public:
  explicit Words(std::map<std::string, std::string, std::less<>> values)
      : values_(std::move(values)) {}

  [[nodiscard]] const std::string& text(std::string_view name) const {
    return values_.find(name)->second;
  }
  [[nodiscard]] bool is(std::string_view name, std::string_view value) const {
    return text(name) == value;
  }
  [[nodiscard]] Result<std::int64_t> size(std::string_view name) const {
    HEARTH_TRY(const double value, parse_number(name, text(name)));
    if (value < 0 || value > 1e12 || value != static_cast<double>(std::int64_t(value))) {
      return mistake(fmt::format("{}={} is no size", name, text(name)));
    }
    return static_cast<std::int64_t>(value);
  }
  [[nodiscard]] Result<DType> dtype() const { return parse_dtype(text("dtype")); }
  [[nodiscard]] Result<Shape> shape() const { return parse_sizes(text("shape")); }
  [[nodiscard]] Result<bool> flag(std::string_view name) const {
    if (!is(name, "0") && !is(name, "1")) {
      return mistake(fmt::format("{}={} is neither 0 nor 1", name, text(name)));
    }
    return is(name, "1");
  }
  [[nodiscard]] Result<bool> is_transposed(std::string_view name) const {
    if (!is(name, "plain") && !is(name, "transposed")) {
      return mistake(fmt::format("{}={} is neither plain nor transposed", name, text(name)));
    }
    return is(name, "transposed");
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

TensorSpec spec_of(const OperandSpec& operand) {
  return {.dtype = operand.dtype, .shape = operand.shape};
}
OperandSpec operand_of(const TensorSpec& spec) {
  return {.dtype = spec.dtype, .shape = spec.shape};
}

template <class Attributes>
std::vector<std::byte> bytes_of(const Attributes& attributes) {
  std::vector<std::byte> bytes(sizeof attributes);
  std::memcpy(bytes.data(), &attributes, sizeof attributes);
  return bytes;
}

using Make = Status (*)(const Words&, Problem&);

// Inputs beyond the first are vectors along the last axis of the result.
Status set_epilogue(const Words& words, Problem& problem) {
  const std::string& text = words.text("epilogue");
  if (text.empty()) {
    return {};
  }
  const OperandSpec& result = problem.outputs[0];
  HEARTH_TRY(NamedExpression parsed, parse_expression(text, result.dtype));
  problem.epilogue = std::move(parsed.expression);
  for (std::size_t i = 1; i < parsed.inputs.size(); ++i) {
    problem.epilogue_inputs.push_back({.dtype = result.dtype, .shape = Shape{result.shape[-1]}});
  }
  return {};
}

Status make_matmul(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const std::int64_t m, words.size("m"));
  HEARTH_TRY(const std::int64_t n, words.size("n"));
  HEARTH_TRY(const std::int64_t k, words.size("k"));
  HEARTH_TRY(const std::int64_t batch, words.size("batch"));
  HEARTH_TRY(const bool is_a_transposed, words.is_transposed("a"));
  HEARTH_TRY(const bool is_b_transposed, words.is_transposed("b"));
  HEARTH_TRY(const bool has_bias, words.flag("bias"));
  problem.inputs = {{.dtype = dtype,
                     .shape = batch == 1 ? Shape{m, k} : Shape{batch, m, k},
                     .is_transposed = is_a_transposed},
                    {.dtype = dtype,
                     .shape = batch == 1 ? Shape{k, n} : Shape{batch, k, n},
                     .is_transposed = is_b_transposed}};
  const TensorSpec bias{.dtype = dtype, .shape = Shape{n}};
  if (has_bias) {
    problem.inputs.push_back(operand_of(bias));
  }
  HEARTH_TRY(
      const TensorSpec result,
      rules::matmul(
          spec_of(problem.inputs[0]), spec_of(problem.inputs[1]), has_bias ? &bias : nullptr));
  HEARTH_TRY_STATUS(
      rules::result_dtype(problem.kind,
                          std::array{spec_of(problem.inputs[0]), spec_of(problem.inputs[1])})
          .status());
  problem.outputs = {operand_of(result)};
  problem.precision = Precision::sum;
  problem.length = static_cast<double>(k);
  return set_epilogue(words, problem);
}

Status make_conv(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const std::int64_t batch, words.size("batch"));
  HEARTH_TRY(const std::int64_t c, words.size("c"));
  HEARTH_TRY(const std::int64_t size, words.size("size"));
  HEARTH_TRY(const std::int64_t o, words.size("o"));
  HEARTH_TRY(const std::int64_t kernel, words.size("kernel"));
  HEARTH_TRY(const std::int64_t stride, words.size("stride"));
  HEARTH_TRY(const std::int64_t padding, words.size("padding"));
  HEARTH_TRY(const std::int64_t groups, words.size("groups"));
  HEARTH_TRY(const bool has_bias, words.flag("bias"));
  if (groups == 0 || c % groups != 0 || o % groups != 0) {
    return mistake(fmt::format("groups={} divides neither c={} nor o={}", groups, c, o));
  }
  const ConvAttributes attributes{
      .stride = {stride, stride}, .padding = {padding, padding}, .groups = groups};
  const TensorSpec x{.dtype = dtype, .shape = Shape{batch, c, size, size}};
  const TensorSpec weight{.dtype = dtype, .shape = Shape{o, c / groups, kernel, kernel}};
  const TensorSpec bias{.dtype = dtype, .shape = Shape{o}};
  HEARTH_TRY(const TensorSpec y, rules::conv2d(x, weight, has_bias ? &bias : nullptr, attributes));
  const double taps = static_cast<double>(kernel * kernel);
  if (problem.kind == OpKind::conv2d) {
    problem.inputs = {operand_of(x), operand_of(weight)};
    if (has_bias) {
      problem.inputs.push_back(operand_of(bias));
    }
    problem.outputs = {operand_of(y)};
    problem.length = static_cast<double>(c / groups) * taps;
  } else if (problem.kind == OpKind::conv2d_backward_input) {
    problem.inputs = {operand_of(y), operand_of(weight)};
    problem.outputs = {operand_of(x)};
    problem.length = static_cast<double>(o / groups) * taps;
  } else {
    problem.inputs = {operand_of(x), operand_of(y)};
    problem.outputs = {operand_of(weight)};
    problem.length = static_cast<double>(batch * y.shape[2] * y.shape[3]);
  }
  problem.precision = Precision::sum;
  problem.attributes = bytes_of(attributes);
  return {};
}

Status make_pool(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const std::int64_t batch, words.size("batch"));
  HEARTH_TRY(const std::int64_t c, words.size("c"));
  HEARTH_TRY(const std::int64_t size, words.size("size"));
  HEARTH_TRY(const std::int64_t kernel, words.size("kernel"));
  HEARTH_TRY(const std::int64_t stride, words.size("stride"));
  HEARTH_TRY(const std::int64_t padding, words.size("padding"));
  const PoolAttributes attributes{
      .kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}};
  const TensorSpec x{.dtype = dtype, .shape = Shape{batch, c, size, size}};
  HEARTH_TRY(const TensorSpec y, rules::pool2d(problem.kind, x, attributes));
  problem.inputs = {operand_of(x)};
  problem.outputs = {operand_of(y)};
  problem.attributes = bytes_of(attributes);
  problem.precision = problem.kind == OpKind::max_pool2d ? Precision::exact : Precision::sum;
  problem.length = static_cast<double>(kernel * kernel);
  return {};
}

/// Softmax and its kin, and scans.
Status make_rows(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const Shape shape, words.shape());
  HEARTH_TRY(const double wanted, parse_number("axis", words.text("axis")));
  HEARTH_TRY(const int axis,
             normalize_axis(name(problem.kind), static_cast<int>(wanted), shape.rank()));
  const bool is_backward = op_info(problem.kind).min_inputs == 2;
  problem.inputs.assign(is_backward ? 2 : 1, {.dtype = dtype, .shape = shape});
  problem.outputs = {{.dtype = dtype, .shape = shape}};
  problem.precision = Precision::sum;
  problem.length = static_cast<double>(shape[axis]);
  problem.attributes = problem.kind == OpKind::cumsum ? bytes_of(ScanAttributes{.axis = axis})
                                                      : bytes_of(AxisAttributes{.axis = axis});
  return {};
}

Status make_reduction(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const Shape shape, words.shape());
  std::vector<int> axes;
  if (!words.is("axis", "all")) {
    HEARTH_TRY(const double axis, parse_number("axis", words.text("axis")));
    axes.push_back(static_cast<int>(axis));
  }
  ReduceAttributes attributes;
  HEARTH_TRY(const Shape result, rules::reduce(problem.kind, shape, axes, false, &attributes));
  problem.inputs = {{.dtype = dtype, .shape = shape}};
  problem.outputs = {{.dtype = dtype, .shape = result}};
  problem.attributes = bytes_of(attributes);
  const bool is_exact = problem.kind == OpKind::reduce_max || problem.kind == OpKind::reduce_min;
  problem.precision = is_exact ? Precision::exact : Precision::sum;
  problem.length = static_cast<double>(shape.element_count()) /
                   static_cast<double>(std::max<std::int64_t>(result.element_count(), 1));
  return {};
}

Status make_position(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const Shape shape, words.shape());
  HEARTH_TRY(const double wanted, parse_number("axis", words.text("axis")));
  HEARTH_TRY(const int axis,
             normalize_axis(name(problem.kind), static_cast<int>(wanted), shape.rank()));
  HEARTH_TRY(const Shape result, rules::position(problem.kind, shape, axis, false));
  problem.inputs = {{.dtype = dtype, .shape = shape}};
  problem.outputs = {{.dtype = DType::i64, .shape = result}};
  problem.attributes = bytes_of(AxisAttributes{.axis = axis});
  return {};
}

/// One input, or none.
Status make_elementwise(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const Shape shape, words.shape());
  if (!accepts(problem.kind, dtype)) {
    return mistake(fmt::format("{} takes {}, not {}",
                               name(problem.kind),
                               describe(op_info(problem.kind).dtypes),
                               name(dtype)));
  }
  const OpClass group = op_info(problem.kind).op_class;
  if (group != OpClass::creation) {
    problem.inputs = {{.dtype = dtype, .shape = shape}};
    problem.precision = Precision::function;
  } else if (problem.kind == OpKind::fill) {
    problem.attributes = bytes_of(ScalarAttributes{.real = 0.5, .integer = 1});
  } else {
    problem.attributes = bytes_of(RandomAttributes{.seed = 1, .a = 0.25, .b = 1});
    problem.precision =
        problem.kind == OpKind::random_normal ? Precision::normal : Precision::rounded;
  }
  problem.outputs = {{.dtype = dtype, .shape = shape}};
  return {};
}

Status make_binary(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const Shape shape, words.shape());
  problem.inputs.assign(2, {.dtype = dtype, .shape = shape});
  if (!words.text("scalar").empty()) {
    HEARTH_TRY(const double scalar, parse_number("scalar", words.text("scalar")));
    problem.inputs.pop_back();
    problem.flags = static_cast<std::uint16_t>(RecordFlag::scalar_rhs);
    problem.attributes =
        bytes_of(ScalarAttributes{.real = scalar, .integer = static_cast<std::int64_t>(scalar)});
  }
  HEARTH_TRY(
      const DType result,
      rules::result_dtype(problem.kind,
                          std::array{spec_of(problem.inputs[0]), spec_of(problem.inputs.back())}));
  problem.outputs = {{.dtype = result, .shape = shape}};
  problem.precision = Precision::function;
  return {};
}

/// Copies a view whose last two axes lie in memory in the other order.
Status make_copy(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const Shape shape, words.shape());
  HEARTH_TRY(const bool is_transposed, words.is_transposed("a"));
  problem.inputs = {{.dtype = dtype, .shape = shape, .is_transposed = is_transposed}};
  problem.outputs = {{.dtype = dtype, .shape = shape}};
  return {};
}

/// Rows of a table by index: an embedding.
Status make_select(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const std::int64_t rows, words.size("rows"));
  HEARTH_TRY(const std::int64_t columns, words.size("columns"));
  HEARTH_TRY(const std::int64_t count, words.size("count"));
  problem.inputs = {{.dtype = dtype, .shape = Shape{rows, columns}},
                    {.dtype = DType::i64, .shape = Shape{count}, .most = rows}};
  problem.outputs = {{.dtype = dtype, .shape = Shape{count, columns}}};
  problem.attributes = bytes_of(AxisAttributes{.axis = 0});
  return {};
}

Status make_attention(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const std::int64_t batch, words.size("batch"));
  HEARTH_TRY(const std::int64_t heads, words.size("heads"));
  HEARTH_TRY(const std::int64_t queries, words.size("queries"));
  HEARTH_TRY(const std::int64_t keys, words.size("keys"));
  HEARTH_TRY(const std::int64_t dim, words.size("dim"));
  HEARTH_TRY(const bool is_causal, words.flag("causal"));
  const OperandSpec query{.dtype = dtype, .shape = Shape{batch, heads, queries, dim}};
  const OperandSpec key{.dtype = dtype, .shape = Shape{batch, heads, keys, dim}};
  HEARTH_TRY(const TensorSpec result,
             rules::attention(problem.kind, spec_of(query), spec_of(key), spec_of(key), nullptr));
  problem.inputs = {query, key, key};
  problem.outputs = {operand_of(result)};
  problem.attributes = bytes_of(AttentionAttributes{.scale = 0.125, .causal = is_causal ? 1 : 0});
  problem.precision = Precision::sum;
  problem.length = static_cast<double>(keys + dim);
  return {};
}

Status make_expression_problem(const Words& words, Problem& problem) {
  HEARTH_TRY(const DType dtype, words.dtype());
  HEARTH_TRY(const Shape shape, words.shape());
  HEARTH_TRY(NamedExpression parsed, parse_expression(words.text("text"), dtype));
  problem.inputs.assign(parsed.inputs.size(), {.dtype = dtype, .shape = shape});
  problem.outputs = {{.dtype = dtype, .shape = shape}};
  problem.attributes = bytes_of(ExpressionAttributes{.flops = parsed.expression->flops});
  problem.expression = std::move(parsed.expression);
  problem.precision = Precision::function;
  return {};
}

constexpr ProblemWord kDtype{"dtype", "f32", "element type: f32, f64, f16, bf16, ..."};
constexpr ProblemWord kShape{"shape", "", "sizes, as 32x512x1024"};
constexpr ProblemWord kBatch{"batch", "1", "number of images or products"};
constexpr ProblemWord kMatmul[] = {{"m", "", "rows of the result"},
                                   {"n", "", "columns of the result"},
                                   {"k", "", "depth"},
                                   kBatch,
                                   {"a", "plain", "plain or transposed memory of a"},
                                   {"b", "plain", "plain or transposed memory of b"},
                                   {"bias", "0", "1: adds a vector"},
                                   {"epilogue", " ", "function of the result, as relu(x+bias)"},
                                   kDtype};
constexpr ProblemWord kConv[] = {kBatch,
                                 {"c", "", "input channels"},
                                 {"size", "", "height and width of the input"},
                                 {"o", "", "output channels"},
                                 {"kernel", "", "height and width of the window"},
                                 {"stride", "1", "step of the window"},
                                 {"padding", "0", "zeros at each side"},
                                 {"groups", "1", "groups of channels"},
                                 {"bias", "0", "1: adds a vector"},
                                 kDtype};
constexpr ProblemWord kPool[] = {kBatch,
                                 {"c", "", "channels"},
                                 {"size", "", "height and width of the input"},
                                 {"kernel", "2", "height and width of the window"},
                                 {"stride", "2", "step of the window"},
                                 {"padding", "0", "padding at each side"},
                                 kDtype};
constexpr ProblemWord kRows[] = {kShape, {"axis", "-1", "axis of the rows"}, kDtype};
constexpr ProblemWord kReduction[] = {kShape, {"axis", "-1", "axis, or all"}, kDtype};
constexpr ProblemWord kElementwise[] = {kShape, kDtype};
constexpr ProblemWord kBinary[] = {kShape, {"scalar", " ", "a number as second operand"}, kDtype};
constexpr ProblemWord kCopy[] = {
    kShape, {"a", "transposed", "plain or transposed memory of the input"}, kDtype};
constexpr ProblemWord kSelect[] = {{"rows", "", "rows of the table"},
                                   {"columns", "", "columns of the table"},
                                   {"count", "", "rows to read"},
                                   kDtype};
constexpr ProblemWord kAttention[] = {kBatch,
                                      {"heads", "1", "heads"},
                                      {"queries", "", "queries"},
                                      {"keys", "", "keys"},
                                      {"dim", "64", "size of a head"},
                                      {"causal", "0", "1: no later key"},
                                      kDtype};
constexpr ProblemWord kExpression[] = {
    {"text", "", "function of its inputs, as x*sigmoid(x)"}, kShape, kDtype};

struct Family {
  std::span<const ProblemWord> words;
  Make make;
};

std::optional<Family> family_of(OpKind kind) {
  switch (kind) {
    case OpKind::matmul:
      return Family{kMatmul, make_matmul};
    case OpKind::conv2d:
    case OpKind::conv2d_backward_input:
    case OpKind::conv2d_backward_weight:
      return Family{kConv, make_conv};
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
      return Family{kPool, make_pool};
    case OpKind::softmax:
    case OpKind::log_softmax:
    case OpKind::softmax_backward:
    case OpKind::log_softmax_backward:
    case OpKind::cumsum:
      return Family{kRows, make_rows};
    case OpKind::argmax:
    case OpKind::argmin:
      return Family{kRows, make_position};
    case OpKind::copy:
      return Family{kCopy, make_copy};
    case OpKind::index_select:
      return Family{kSelect, make_select};
    case OpKind::attention:
      return Family{kAttention, make_attention};
    case OpKind::expression:
      return Family{kExpression, make_expression_problem};
    case OpKind::cast:
    case OpKind::dropout:
    case OpKind::arange:
      return {};
    default:
      break;
  }
  switch (op_info(kind).op_class) {
    case OpClass::creation:
    case OpClass::unary:
      return Family{kElementwise, make_elementwise};
    case OpClass::binary:
      return Family{kBinary, make_binary};
    case OpClass::reduction:
      return Family{kReduction, make_reduction};
    default:
      return {};
  }
}

Result<OpKind> kind_of(std::string_view wanted) {
  for (const OpInfo& row : op_table()) {
    if (row.name == wanted && family_of(row.kind)) {
      return row.kind;
    }
  }
  std::string all;
  for (const std::string& each : problem_kinds()) {
    all += (all.empty() ? "" : ", ") + each;
  }
  return mistake(fmt::format(
      "no kind '{}'{}; there are {}", wanted, did_you_mean(wanted, problem_kinds()), all));
}

/// Splits "1..64*2,4096" into "1", "2", ..., "4096".
Result<std::vector<std::string>> values_of(std::string_view name, std::string_view text) {
  std::vector<std::string> values;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const std::size_t dots = part.find("..");
    const std::size_t star = part.find('*', dots == std::string_view::npos ? 0 : dots);
    if (dots == std::string_view::npos || star == std::string_view::npos) {
      values.emplace_back(part);
      continue;
    }
    HEARTH_TRY(double value, parse_number(name, part.substr(0, dots)));
    HEARTH_TRY(const double last, parse_number(name, part.substr(dots + 2, star - dots - 2)));
    HEARTH_TRY(const double factor, parse_number(name, part.substr(star + 1)));
    if (value <= 0 || factor <= 1) {
      return mistake(fmt::format("{}={} does not grow", name, part));
    }
    for (; value <= last; value *= factor) {
      values.push_back(fmt::format("{:.0f}", value));
    }
  }
  return values;
}

Result<Problem> make_problem(OpKind kind, Make make, const Words& words, std::string text) {
  Problem problem{.kind = kind, .text = std::move(text)};
  HEARTH_TRY_STATUS(make(words, problem));
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  for (const OperandSpec& each : problem.inputs) {
    inputs.push_back(spec_of(each));
  }
  for (const OperandSpec& each : problem.outputs) {
    outputs.push_back(spec_of(each));
  }
  const OpRecord record = problem.record();
  const std::vector<std::byte> blob = problem.blob();
  problem.cost = op_cost(OpView(record, blob.data()), inputs, outputs);
  if (problem.epilogue) {
    problem.cost.flops += static_cast<double>(outputs[0].shape.element_count()) *
                          static_cast<double>(problem.epilogue->flops);
  }
  return problem;
}

}  // namespace

// Phases: the kind; the words of the text; one problem for each combination of their values.
Result<std::vector<Problem>> parse_problems(std::string_view text) {
  const std::string_view kind_name = text.substr(0, text.find(' '));
  HEARTH_TRY(const OpKind kind, kind_of(kind_name));
  const Family family = *family_of(kind);
  std::vector<std::pair<std::string, std::vector<std::string>>> given;
  std::string_view rest = text.substr(kind_name.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find(' '));
    rest.remove_prefix(part.size());
    if (part.empty()) {
      continue;
    }
    const std::string_view key = part.substr(0, part.find('='));
    const std::vector<std::string> names = names_of(family.words, &ProblemWord::name);
    if (std::ranges::find(names, key) == names.end()) {
      return mistake(fmt::format("{} has no option '{}'{}; it has {}",
                                 kind_name,
                                 key,
                                 did_you_mean(key, names),
                                 fmt::join(names, ", ")));
    }
    if (key.size() == part.size()) {
      return mistake(fmt::format("{}: '{}' has no value", kind_name, key));
    }
    const std::string_view value = part.substr(key.size() + 1);
    if (key == "text" || key == "epilogue") {  // they may have commas
      given.push_back({std::string(key), {std::string(value)}});
    } else {
      HEARTH_TRY(std::vector<std::string> values, values_of(key, value));
      given.push_back({std::string(key), std::move(values)});
    }
  }
  std::map<std::string, std::string, std::less<>> words;
  for (const ProblemWord& word : family.words) {
    const bool is_given =
        std::ranges::any_of(given, [&](const auto& each) { return each.first == word.name; });
    if (!is_given && word.initial.empty()) {
      return mistake(fmt::format("{} needs '{}': {}", kind_name, word.name, word.meaning));
    }
    words[std::string(word.name)] = word.initial == " " ? "" : word.initial;
  }
  std::vector<Problem> problems;
  std::vector<std::size_t> places(given.size(), 0);
  for (;;) {
    std::string own(kind_name);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const std::string& value = given[i].second[places[i]];
      words[given[i].first] = value;
      own += fmt::format(" {}={}", given[i].first, value);
    }
    HEARTH_TRY(Problem problem, make_problem(kind, family.make, Words(words), std::move(own)));
    problems.push_back(std::move(problem));
    std::size_t i = given.size();
    while (i > 0 && ++places[i - 1] == given[i - 1].second.size()) {
      places[--i] = 0;
    }
    if (i == 0) {
      return problems;
    }
  }
}

std::vector<std::string> problem_kinds() {
  std::vector<std::string> kinds;
  for (const OpInfo& row : op_table()) {
    if (family_of(row.kind)) {
      kinds.emplace_back(row.name);
    }
  }
  std::ranges::sort(kinds);
  return kinds;
}

Result<std::vector<ProblemWord>> problem_words(std::string_view kind) {
  HEARTH_TRY(const OpKind found, kind_of(kind));
  const std::span<const ProblemWord> words = family_of(found)->words;
  return std::vector<ProblemWord>(words.begin(), words.end());
}

}  // namespace hearth::bench
