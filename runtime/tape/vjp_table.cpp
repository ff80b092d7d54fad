#include "vjp_table.hpp"

namespace hearth {
namespace {

constexpr std::uint8_t kFirst = 1;
constexpr std::uint8_t kSecond = 2;
constexpr std::uint8_t kBoth = 3;

// The gradient needs nothing, the operand, or the result.
constexpr VjpRow from_nothing(VjpFunction emit) {
  return {emit, {}};
}
constexpr VjpRow from_operand(VjpFunction emit) {
  return {emit, {VjpNeeds{.operands = kFirst}}};
}
constexpr VjpRow from_result(VjpFunction emit) {
  return {emit, {VjpNeeds{.outputs = kFirst}}};
}
// The gradient of each of two operands needs the other one.
constexpr VjpRow from_other(VjpFunction emit) {
  return {emit, {VjpNeeds{.operands = kSecond}, VjpNeeds{.operands = kFirst}}};
}

constexpr VjpRow make_row(OpKind kind) {
  switch (kind) {
    case OpKind::cast:
      return from_nothing(vjp::cast);
    case OpKind::neg:
      return from_nothing(vjp::negation);
    case OpKind::abs:
      return from_operand(vjp::absolute);
    case OpKind::exp:
      return from_result(vjp::exponential);
    case OpKind::log:
      return from_operand(vjp::logarithm);
    case OpKind::sqrt:
      return from_result(vjp::square_root);
    case OpKind::rsqrt:
      return from_result(vjp::inverse_square_root);
    case OpKind::square:
      return from_operand(vjp::square);
    case OpKind::sin:
      return from_operand(vjp::sine);
    case OpKind::cos:
      return from_operand(vjp::cosine);
    case OpKind::tanh:
      return from_result(vjp::hyperbolic_tangent);
    case OpKind::erf:
      return from_operand(vjp::error_function);
    case OpKind::sigmoid:
      return from_result(vjp::sigmoid);
    case OpKind::recip:
      return from_result(vjp::reciprocal);
    case OpKind::log1p:
      return from_operand(vjp::logarithm_of_one_more);
    case OpKind::expm1:
      return from_result(vjp::exponential_less_one);
    case OpKind::atan:
      return from_operand(vjp::arc_tangent);
    case OpKind::relu:
      return from_result(vjp::relu);
    case OpKind::relu_backward:
      return {vjp::relu_gradient, {VjpNeeds{.operands = kSecond}}};
    case OpKind::dropout:
      return from_nothing(vjp::dropout);
    case OpKind::add:
      return from_nothing(vjp::addition);
    case OpKind::sub:
      return from_nothing(vjp::subtraction);
    case OpKind::mul:
      return from_other(vjp::multiplication);
    case OpKind::div:
      return {vjp::division,
              {VjpNeeds{.operands = kSecond}, VjpNeeds{.operands = kSecond, .outputs = kFirst}}};
    case OpKind::pow:
      return {vjp::power,
              {VjpNeeds{.operands = kBoth}, VjpNeeds{.operands = kBoth, .outputs = kFirst}}};
    case OpKind::min:
    case OpKind::max:
      return {vjp::extremum, {VjpNeeds{.operands = kBoth}, VjpNeeds{.operands = kBoth}}};
    case OpKind::atan2:
      return {vjp::angle, {VjpNeeds{.operands = kBoth}, VjpNeeds{.operands = kBoth}}};
    case OpKind::where:
      return {vjp::selection,
              {VjpNeeds{}, VjpNeeds{.operands = kFirst}, VjpNeeds{.operands = kFirst}}};
    case OpKind::reshape:
    case OpKind::expand:
    case OpKind::copy:
      return from_nothing(vjp::same_values);
    case OpKind::permute:
      return from_nothing(vjp::permutation);
    case OpKind::slice:
      return from_nothing(vjp::slice);
    case OpKind::slice_scatter:
      return from_nothing(vjp::slice_gradient);
    case OpKind::concat:
      return from_nothing(vjp::concatenation);
    case OpKind::reduce_sum:
      return from_nothing(vjp::summation);
    case OpKind::reduce_mean:
      return from_nothing(vjp::average);
    case OpKind::reduce_max:
    case OpKind::reduce_min:
      return {vjp::reduced_extremum, {VjpNeeds{.operands = kFirst, .outputs = kFirst}}};
    case OpKind::reduce_prod:
      return from_operand(vjp::product);
    case OpKind::matmul:
      return from_other(vjp::matmul);
    case OpKind::conv2d:
      return from_other(vjp::convolution);
    case OpKind::conv2d_backward_input:
      return from_other(vjp::transposed_convolution);
    case OpKind::conv2d_backward_weight:
      return from_other(vjp::weight_gradient);
    case OpKind::max_pool2d:
      return {vjp::max_pool, {VjpNeeds{.outputs = kSecond}}};
    case OpKind::avg_pool2d:
      return from_nothing(vjp::average_pool);
    case OpKind::max_pool2d_backward:
      return {vjp::max_pool_gradient, {VjpNeeds{.operands = kSecond}}};
    case OpKind::avg_pool2d_backward:
      return from_nothing(vjp::average_pool_gradient);
    case OpKind::softmax:
    case OpKind::log_softmax:
      return from_result(vjp::row_softmax);
    case OpKind::softmax_backward:
      return {vjp::softmax_gradient, {VjpNeeds{.operands = kSecond}, VjpNeeds{.operands = kBoth}}};
    case OpKind::log_softmax_backward:
      return {vjp::log_softmax_gradient,
              {VjpNeeds{.operands = kSecond}, VjpNeeds{.operands = kBoth}}};
    case OpKind::cumsum:
      return from_nothing(vjp::running_sum);
    case OpKind::cumprod:
      return from_operand(vjp::running_product);
    case OpKind::cummax:
    case OpKind::cummin:
      return {vjp::running_extremum, {VjpNeeds{.operands = kFirst, .outputs = kFirst}}};
    case OpKind::cross_entropy:
      return {vjp::cross_entropy, {VjpNeeds{.operands = kSecond, .outputs = kSecond}}};
    case OpKind::topk:
      return {vjp::topk, {VjpNeeds{.outputs = kSecond}}};
    case OpKind::attention: {
      constexpr VjpNeeds kAll{.operands = 0x0f, .outputs = kBoth};
      return {vjp::attention, {kAll, kAll, kAll}};
    }
    case OpKind::expression: {
      constexpr VjpNeeds kAll{.operands = 0x0f};
      return {vjp::expression, {kAll, kAll, kAll, kAll}};
    }
    case OpKind::custom: {
      static_assert(kMostCustomInputs == 8 && kMostCustomOutputs <= 8);
      constexpr VjpNeeds kAll{.operands = 0xff, .outputs = 0x0f};
      return {vjp::custom, {kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll}};
    }
    case OpKind::gather:
    case OpKind::index_select:
    case OpKind::scatter_add:
    case OpKind::index_add:
      return {vjp::indexing, {VjpNeeds{.operands = kSecond}}};
    case OpKind::scatter:  // set and add; kJoiningScatter is the row of the other modes
      return {vjp::scattering,
              {VjpNeeds{.operands = kSecond}, VjpNeeds{}, VjpNeeds{.operands = kSecond}}};
    // Tensor::to(device) counts as an upload of its input.
    case OpKind::upload:
      return from_nothing(vjp::transfer);
    default:
      return {};
  }
}

constexpr auto make_rows() {
  std::array<VjpRow, kOpKindCount> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = make_row(static_cast<OpKind>(i));
  }
  return rows;
}

constexpr std::array<VjpRow, kOpKindCount> kRows = make_rows();

constexpr VjpNeeds kAllOfScatter{.operands = 0x07, .outputs = kFirst};
constexpr VjpRow kJoiningScatter{vjp::scattering, {kAllOfScatter, VjpNeeds{}, kAllOfScatter}};

}  // namespace

const VjpRow& vjp_row(OpKind kind, std::span<const std::byte> attributes) noexcept {
  if (kind == OpKind::scatter) [[unlikely]] {
    ScatterAttributes scatter;
    std::memcpy(&scatter, attributes.data(), sizeof scatter);
    if (scatter.mode != ScatterMode::set && scatter.mode != ScatterMode::add) {
      return kJoiningScatter;
    }
  }
  return vjp_row(kind);
}

const VjpRow& vjp_row(OpKind kind) noexcept {
  return kRows[static_cast<std::size_t>(kind)];
}

}  // namespace hearth
