#include <hearth/streams/op_facts.hpp>

#include <cstddef>
#include <iterator>

#include <hearth/streams/op_attributes.hpp>

namespace hearth {
namespace {

using Role = AttributeRole;
using Type = AttributeType;

// ---- the members of each struct in op_attributes.hpp ----

constexpr AttributeField field(
    std::string_view name, std::size_t offset_bytes, Type type, Role role, std::uint8_t count = 1) {
  return {name, static_cast<std::uint16_t>(offset_bytes), count, type, role};
}

constexpr AttributeField kScalar[] = {
    field("real", offsetof(ScalarAttributes, real), Type::f64, Role::scalar),
    field("integer", offsetof(ScalarAttributes, integer), Type::i64, Role::scalar),
};
constexpr AttributeField kArange[] = {
    field("start", offsetof(ArangeAttributes, start), Type::f64, Role::scalar),
    field("step", offsetof(ArangeAttributes, step), Type::f64, Role::scalar),
};
constexpr AttributeField kRandom[] = {
    field("seed", offsetof(RandomAttributes, seed), Type::u64, Role::counter),
    field("counter", offsetof(RandomAttributes, counter), Type::u64, Role::counter),
    field("a", offsetof(RandomAttributes, a), Type::f64, Role::scalar),
    field("b", offsetof(RandomAttributes, b), Type::f64, Role::scalar),
};
constexpr AttributeField kReduce[] = {
    field("axes", offsetof(ReduceAttributes, axes), Type::u32, Role::axis),
    field("keep_dims", offsetof(ReduceAttributes, keep_dims), Type::u32, Role::choice),
};
constexpr AttributeField kAxis[] = {
    field("axis", offsetof(AxisAttributes, axis), Type::i32, Role::axis),
    field("keep_dims", offsetof(AxisAttributes, keep_dims), Type::i32, Role::choice),
};
constexpr AttributeField kScan[] = {
    field("axis", offsetof(ScanAttributes, axis), Type::i32, Role::axis),
    field("reverse", offsetof(ScanAttributes, reverse), Type::i32, Role::choice),
};
constexpr AttributeField kScatter[] = {
    field("axis", offsetof(ScatterAttributes, axis), Type::i32, Role::axis),
    field("mode", offsetof(ScatterAttributes, mode), Type::i32, Role::choice),
};
constexpr AttributeField kTopk[] = {
    field("axis", offsetof(TopkAttributes, axis), Type::i32, Role::axis),
    field("smallest", offsetof(TopkAttributes, smallest), Type::i32, Role::choice),
};
constexpr AttributeField kAttention[] = {
    field("scale", offsetof(AttentionAttributes, scale), Type::f64, Role::scalar),
    field("causal", offsetof(AttentionAttributes, causal), Type::i64, Role::choice),
};
constexpr AttributeField kPermute[] = {
    field("axes", offsetof(PermuteAttributes, axes), Type::u8, Role::axis, 8),
};
constexpr AttributeField kSlice[] = {
    field("start", offsetof(SliceAttributes, start), Type::i64, Role::extent, 8),
    field("step", offsetof(SliceAttributes, step), Type::i64, Role::extent, 8),
};
constexpr AttributeField kConv[] = {
    field("stride", offsetof(ConvAttributes, stride), Type::i64, Role::extent, 2),
    field("padding", offsetof(ConvAttributes, padding), Type::i64, Role::extent, 2),
    field("dilation", offsetof(ConvAttributes, dilation), Type::i64, Role::extent, 2),
    field("groups", offsetof(ConvAttributes, groups), Type::i64, Role::extent),
};
constexpr AttributeField kPool[] = {
    field("kernel", offsetof(PoolAttributes, kernel), Type::i64, Role::extent, 2),
    field("stride", offsetof(PoolAttributes, stride), Type::i64, Role::extent, 2),
    field("padding", offsetof(PoolAttributes, padding), Type::i64, Role::extent, 2),
    field(
        "count_include_pad", offsetof(PoolAttributes, count_include_pad), Type::i64, Role::choice),
};
constexpr AttributeField kSgd[] = {
    field("learning_rate", offsetof(SgdAttributes, learning_rate), Type::f64, Role::scalar),
    field("momentum", offsetof(SgdAttributes, momentum), Type::f64, Role::scalar),
    field("dampening", offsetof(SgdAttributes, dampening), Type::f64, Role::scalar),
    field("weight_decay", offsetof(SgdAttributes, weight_decay), Type::f64, Role::scalar),
    field("nesterov", offsetof(SgdAttributes, nesterov), Type::i64, Role::choice),
    field("first", offsetof(SgdAttributes, first), Type::i64, Role::counter),
};
constexpr AttributeField kAdam[] = {
    field("learning_rate", offsetof(AdamAttributes, learning_rate), Type::f64, Role::scalar),
    field("beta1", offsetof(AdamAttributes, beta1), Type::f64, Role::scalar),
    field("beta2", offsetof(AdamAttributes, beta2), Type::f64, Role::scalar),
    field("epsilon", offsetof(AdamAttributes, epsilon), Type::f64, Role::scalar),
    field("weight_decay", offsetof(AdamAttributes, weight_decay), Type::f64, Role::scalar),
    field("decoupled", offsetof(AdamAttributes, decoupled), Type::i64, Role::choice),
    field("step", offsetof(AdamAttributes, step), Type::i64, Role::counter),
};
constexpr AttributeField kTicket[] = {
    field("ticket", offsetof(TicketAttributes, ticket), Type::pointer, Role::ticket),
    field("offset_bytes", offsetof(TicketAttributes, offset_bytes), Type::u64, Role::ticket),
};
constexpr AttributeField kExpression[] = {
    field("expression", offsetof(ExpressionAttributes, expression), Type::u32, Role::choice),
    field("parameter_count",
          offsetof(ExpressionAttributes, parameter_count),
          Type::u32,
          Role::choice),
    field("flops", offsetof(ExpressionAttributes, flops), Type::u32, Role::choice),
    field("row_axes", offsetof(ExpressionAttributes, row_axes), Type::u32, Role::choice),
};
constexpr AttributeField kCustom[] = {
    field("custom", offsetof(CustomAttributes, custom), Type::u32, Role::choice),
    field("number_count", offsetof(CustomAttributes, number_count), Type::u32, Role::choice),
};
constexpr AttributeField kLimit[] = {
    field("deadline", offsetof(LimitAttributes, deadline), Type::time, Role::ticket),
    field("stop", offsetof(LimitAttributes, stop), Type::pointer, Role::ticket),
};

// ---- the rows ----

constexpr DtypeMask kNever = 0;
constexpr auto kSigned =
    static_cast<DtypeMask>(dtype_bit(DType::i32) | dtype_bit(DType::i64) | dtype_bit(DType::i8));
constexpr auto kIntegers = static_cast<DtypeMask>(kSigned | dtype_bit(DType::u8));
constexpr auto kFloats = static_cast<DtypeMask>(dtype_bit(DType::f32) | dtype_bit(DType::f64) |
                                                dtype_bit(DType::f16) | dtype_bit(DType::bf16));
constexpr auto kNumbers = static_cast<DtypeMask>(kFloats | kIntegers);
constexpr auto kAll = static_cast<DtypeMask>(kNumbers | dtype_bit(DType::boolean));

// Weights, host and gpu: the extra time of a fused f32 chain for each further op of the kind, in
// additions. Measured as the difference between kernels of 16 and of 32 such ops, with AVX-512 and
// on a data-centre GPU; words and products are counted in instructions. See
// streams/decisions/0013-arithmetic-weights.md.
constexpr ArithmeticWeight kNothing{0, 0};
constexpr ArithmeticWeight kSimple{1, 1};
constexpr ArithmeticWeight kRoot{4, 12};
constexpr ArithmeticWeight kQuotient{3.5F, 15};
constexpr ArithmeticWeight kExp{3.5F, 27};
constexpr ArithmeticWeight kLog{7, 44};
constexpr ArithmeticWeight kSine{5.5F, 49};
constexpr ArithmeticWeight kTanh{9, 50};
constexpr ArithmeticWeight kErf{4, 21};
constexpr ArithmeticWeight kSigmoid{6, 43};
constexpr ArithmeticWeight kPower{41, 68};
constexpr ArithmeticWeight kArc{8, 40};        // counted in instructions
constexpr ArithmeticWeight kQuadrant{25, 95};  // counted: three quotients around an arc tangent
constexpr ArithmeticWeight kRandomWord{12, 12};
constexpr ArithmeticWeight kProduct{0.5F,
                                    0.5F};  // a multiplication and an addition are one instruction

// A row under construction: its fusion class and index rule first, then its special properties.
class Row {
 public:
  constexpr Row(OpKind kind, FusionClass fusion, IndexRule rule, ArithmeticWeight weight = kNothing)
      : facts_{.kind = kind,
               .fusion = fusion,
               .index_rule = rule,
               .may_fail = kNever,
               .weight = weight,
               .attributes = {}} {}
  [[nodiscard]] constexpr Row fails(DtypeMask dtypes) const {
    Row row = *this;
    row.facts_.may_fail = dtypes;
    return row;
  }
  [[nodiscard]] constexpr Row fields(std::span<const AttributeField> fields) const {
    Row row = *this;
    row.facts_.attributes = fields;
    return row;
  }
  constexpr operator OpFacts() const { return facts_; }  // NOLINT(google-explicit-constructor)

 private:
  OpFacts facts_;
};

constexpr Row elementwise(OpKind kind, ArithmeticWeight weight) {
  return {kind, FusionClass::elementwise, IndexRule::elementwise, weight};
}
constexpr Row binary(OpKind kind, ArithmeticWeight weight) {
  return elementwise(kind, weight).fields(kScalar);
}
constexpr Row barrier(OpKind kind) {
  return {kind, FusionClass::barrier, IndexRule::none};
}

constexpr OpFacts kRows[kOpKindCount] = {
    Row(OpKind::fill, FusionClass::fill, IndexRule::none).fields(kScalar),
    Row(OpKind::arange, FusionClass::fill, IndexRule::none, kSimple).fields(kArange),
    Row(OpKind::random_uniform, FusionClass::fill, IndexRule::none, kRandomWord).fields(kRandom),
    Row(OpKind::random_normal, FusionClass::fill, IndexRule::none, kPower).fields(kRandom),
    Row(OpKind::random_bernoulli, FusionClass::fill, IndexRule::none, kRandomWord).fields(kRandom),
    elementwise(OpKind::cast, kSimple),
    elementwise(OpKind::neg, kSimple),
    elementwise(OpKind::abs, kSimple),
    elementwise(OpKind::exp, kExp),
    elementwise(OpKind::log, kLog),
    elementwise(OpKind::sqrt, kRoot),
    elementwise(OpKind::rsqrt, kRoot),
    elementwise(OpKind::square, kSimple),
    elementwise(OpKind::sin, kSine),
    elementwise(OpKind::cos, kSine),
    elementwise(OpKind::tanh, kTanh),
    elementwise(OpKind::erf, kErf),
    elementwise(OpKind::sigmoid, kSigmoid),
    elementwise(OpKind::recip, kQuotient),
    elementwise(OpKind::relu, kSimple),
    elementwise(OpKind::dropout, kRandomWord).fields(kRandom),
    binary(OpKind::add, kSimple),
    binary(OpKind::sub, kSimple),
    binary(OpKind::mul, kSimple),
    binary(OpKind::div, kQuotient).fails(kIntegers),
    binary(OpKind::pow, kPower).fails(kSigned),
    binary(OpKind::min, kSimple),
    binary(OpKind::max, kSimple),
    binary(OpKind::equal, kSimple),
    binary(OpKind::not_equal, kSimple),
    binary(OpKind::less, kSimple),
    binary(OpKind::less_equal, kSimple),
    binary(OpKind::greater, kSimple),
    binary(OpKind::greater_equal, kSimple),
    elementwise(OpKind::relu_backward, kSimple),
    elementwise(OpKind::where, kSimple),
    Row(OpKind::reshape, FusionClass::view, IndexRule::row_major),
    Row(OpKind::permute, FusionClass::view, IndexRule::permuted).fields(kPermute),
    Row(OpKind::slice, FusionClass::view, IndexRule::sliced).fields(kSlice),
    Row(OpKind::expand, FusionClass::view, IndexRule::elementwise),
    elementwise(OpKind::copy, kNothing),
    Row(OpKind::concat, FusionClass::gather, IndexRule::concatenated).fields(kAxis),
    Row(OpKind::slice_scatter, FusionClass::gather, IndexRule::scattered).fields(kSlice),
    Row(OpKind::reduce_sum, FusionClass::reduce, IndexRule::reduced, kSimple).fields(kReduce),
    Row(OpKind::reduce_mean, FusionClass::reduce, IndexRule::reduced, kSimple).fields(kReduce),
    Row(OpKind::reduce_max, FusionClass::reduce, IndexRule::reduced, kSimple).fields(kReduce),
    Row(OpKind::argmax, FusionClass::reduce, IndexRule::reduced_axis, kSimple).fields(kAxis),
    Row(OpKind::matmul, FusionClass::contraction, IndexRule::matmul, kProduct),
    Row(OpKind::conv2d, FusionClass::conv, IndexRule::conv2d, kProduct).fields(kConv),
    Row(OpKind::conv2d_backward_input,
        FusionClass::conv,
        IndexRule::conv2d_backward_input,
        kProduct)
        .fields(kConv),
    Row(OpKind::conv2d_backward_weight,
        FusionClass::conv,
        IndexRule::conv2d_backward_weight,
        kProduct)
        .fields(kConv),
    Row(OpKind::max_pool2d, FusionClass::pool, IndexRule::window, kSimple).fields(kPool),
    Row(OpKind::max_pool2d_backward, FusionClass::pool, IndexRule::plane_backward, kSimple)
        .fails(kFloats)
        .fields(kPool),
    Row(OpKind::avg_pool2d, FusionClass::pool, IndexRule::window, kSimple).fields(kPool),
    Row(OpKind::avg_pool2d_backward, FusionClass::pool, IndexRule::window_backward, kSimple)
        .fields(kPool),
    Row(OpKind::softmax, FusionClass::row, IndexRule::row, kRoot).fields(kAxis),
    Row(OpKind::log_softmax, FusionClass::row, IndexRule::row, kRoot).fields(kAxis),
    Row(OpKind::softmax_backward, FusionClass::row, IndexRule::row, kSimple).fields(kAxis),
    Row(OpKind::log_softmax_backward, FusionClass::row, IndexRule::row_of_first, kRoot)
        .fields(kAxis),
    Row(OpKind::cross_entropy, FusionClass::row, IndexRule::class_loss, kRoot).fails(kFloats),
    Row(OpKind::cross_entropy_backward, FusionClass::row, IndexRule::class_loss_backward, kSimple)
        .fails(kFloats),
    elementwise(OpKind::sgd_step, kSimple).fields(kSgd),
    elementwise(OpKind::adam_step, kSimple).fields(kAdam),
    barrier(OpKind::upload).fields(kTicket),
    barrier(OpKind::readback).fields(kTicket),
    barrier(OpKind::lend).fields(kTicket),
    Row(OpKind::drop, FusionClass::none, IndexRule::none),
    barrier(OpKind::publish),
    barrier(OpKind::adopt),
    barrier(OpKind::group_begin),
    barrier(OpKind::group_end),
    barrier(OpKind::sync).fields(kTicket),
    barrier(OpKind::limit).fields(kLimit),
    elementwise(OpKind::expression, kSimple).fields(kExpression).fails(kIntegers),
    Row(OpKind::gather, FusionClass::gather, IndexRule::gathered).fails(kAll).fields(kAxis),
    Row(OpKind::index_select, FusionClass::gather, IndexRule::selected).fails(kAll).fields(kAxis),
    Row(OpKind::scatter_add, FusionClass::gather, IndexRule::gathered_backward, kSimple)
        .fails(kNumbers)
        .fields(kAxis),
    Row(OpKind::index_add, FusionClass::gather, IndexRule::selected_backward, kSimple)
        .fails(kNumbers)
        .fields(kAxis),
    elementwise(OpKind::log1p, kLog),
    elementwise(OpKind::expm1, kTanh),
    Row(OpKind::reduce_min, FusionClass::reduce, IndexRule::reduced, kSimple).fields(kReduce),
    Row(OpKind::reduce_prod, FusionClass::reduce, IndexRule::reduced, kSimple).fields(kReduce),
    Row(OpKind::argmin, FusionClass::reduce, IndexRule::reduced_axis, kSimple).fields(kAxis),
    Row(OpKind::cumsum, FusionClass::scan, IndexRule::scanned, kSimple).fields(kScan),
    Row(OpKind::attention, FusionClass::attention, IndexRule::attention, kProduct)
        .fields(kAttention),
    Row(OpKind::attention_backward, FusionClass::attention, IndexRule::attention_backward, kProduct)
        .fields(kAttention),
    Row(OpKind::topk, FusionClass::gather, IndexRule::top, kSimple).fields(kTopk),
    elementwise(OpKind::floor, kSimple),
    elementwise(OpKind::ceil, kSimple),
    elementwise(OpKind::round, kSimple),
    elementwise(OpKind::trunc, kSimple),
    Row(OpKind::custom, FusionClass::opaque, IndexRule::none, kSimple).fields(kCustom),
    elementwise(OpKind::atan, kArc),
    binary(OpKind::atan2, kQuadrant),
    Row(OpKind::scatter, FusionClass::gather, IndexRule::scattered_updates, kSimple)
        .fails(kAll)
        .fields(kScatter),
    Row(OpKind::cumprod, FusionClass::scan, IndexRule::scanned, kSimple).fields(kScan),
    Row(OpKind::cummax, FusionClass::scan, IndexRule::scanned, kSimple).fields(kScan),
    Row(OpKind::cummin, FusionClass::scan, IndexRule::scanned, kSimple).fields(kScan),
    binary(OpKind::bitwise_and, kSimple),
    binary(OpKind::bitwise_or, kSimple),
    binary(OpKind::bitwise_xor, kSimple),
    binary(OpKind::shift_left, kSimple),
    binary(OpKind::shift_right, kSimple),
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].kind != static_cast<OpKind>(i)) {
      return false;
    }
  }
  return true;
}
static_assert(is_in_order(), "one row for each OpKind, in its order");

}  // namespace

const OpFacts& op_facts(OpKind kind) noexcept {
  return kRows[static_cast<std::size_t>(kind)];
}

}  // namespace hearth
