#include <hearth/streams/kernel/op_expression.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

#include <fmt/format.h>

#include <hearth/runtime/base/philox.hpp>
#include <hearth/streams/index_map.hpp>

namespace hearth {
namespace {

using Value = KernelValue;
using Values = std::vector<Value>;
using Parameters = std::vector<KernelParameter>;

// Arguments of an op's expression. `x` has the inputs, with a scalar immediate at its position, in
// the computing type unless the row is raw.
struct Operands {
  KernelBuilder& builder;
  OpView op;
  std::span<const Value> x;
  std::span<const Value> p;  ///< Parameters, except an immediate.
  DType out;                 ///< The element type of the first result.
};

struct Row {
  OpKind kind = OpKind::add;
  Values (*make)(const Operands&) = nullptr;
  Parameters (*parameters)(const OpView&, DType) = nullptr;
  bool is_raw = false;  ///< Moves or converts values: reads them in their element types.
};

// ---- scalars from attributes ----

KernelParameter real(double value, DType dtype) {
  return {compute_type(dtype), {.real = value}};
}
KernelParameter integer(std::uint64_t value) {
  return {DType::i64, {.integer = static_cast<std::int64_t>(value)}};
}

// Rounded once here: a kernel with an f64 parameter would have to round it for each element.
Parameters fill_parameters(const OpView& op, DType dtype) {
  const auto value = op.attributes<ScalarAttributes>();
  if (!is_float(dtype)) {
    return {{DType::i64, value}};
  }
  return {
      real(compute_type(dtype) != dtype ? static_cast<double>(sticky_f32(value.real)) : value.real,
           dtype)};
}

// Floats are computed in f64, integers in i64, like in the reference: a sum of steps would drift.
Parameters arange_parameters(const OpView& op, DType dtype) {
  const auto range = op.attributes<ArangeAttributes>();
  if (is_float(dtype)) {
    return {{DType::f64, {.real = range.start}}, {DType::f64, {.real = range.step}}};
  }
  return {{DType::i64, {.integer = static_cast<std::int64_t>(range.start)}},
          {DType::i64, {.integer = static_cast<std::int64_t>(range.step)}}};
}

// low + (high - low) * u may cancel, so it is computed in f64, like in the reference.
Parameters uniform_parameters(const OpView& op, DType dtype) {
  const auto random = op.attributes<RandomAttributes>();
  const auto range = philox::uniform_range(random.a, random.b, dtype);
  return {integer(random.seed),
          integer(random.counter),
          real(random.a, DType::f64),
          real(random.b - random.a, DType::f64),
          real(range.first, DType::f64),
          real(range.last, DType::f64)};
}
Parameters normal_parameters(const OpView& op, DType dtype) {
  const auto random = op.attributes<RandomAttributes>();
  return {
      integer(random.seed), integer(random.counter), real(random.a, dtype), real(random.b, dtype)};
}
Parameters bernoulli_parameters(const OpView& op, DType) {
  const auto random = op.attributes<RandomAttributes>();
  return {integer(random.seed), integer(random.counter), integer(philox::threshold(random.a))};
}
Parameters dropout_parameters(const OpView& op, DType dtype) {
  Parameters parameters = bernoulli_parameters(op, dtype);
  parameters.push_back(real(1.0 / (1.0 - op.attributes<RandomAttributes>().a), dtype));
  return parameters;
}

Parameters sgd_parameters(const OpView& op, DType dtype) {
  const auto a = op.attributes<SgdAttributes>();
  Parameters parameters{real(a.learning_rate, dtype), real(a.weight_decay, dtype)};
  if (op.record().input_count > 2) {
    parameters.push_back(real(a.momentum, dtype));
    parameters.push_back(real(1.0 - a.dampening, dtype));
    parameters.push_back({DType::boolean, {.integer = a.first}});
  }
  return parameters;
}
Parameters adam_parameters(const OpView& op, DType dtype) {
  const auto a = op.attributes<AdamAttributes>();
  const auto step = static_cast<double>(a.step);
  const bool is_decoupled = a.decoupled != 0;
  return {real(is_decoupled ? 1.0 - a.learning_rate * a.weight_decay : a.weight_decay, dtype),
          real(a.beta1, dtype),
          real(1.0 - a.beta1, dtype),
          real(a.beta2, dtype),
          real(1.0 - a.beta2, dtype),
          real(a.learning_rate / (1.0 - std::pow(a.beta1, step)), dtype),
          real(1.0 / std::sqrt(1.0 - std::pow(a.beta2, step)), dtype),
          real(a.epsilon, dtype)};
}

// ---- random numbers: runtime/base/values/philox.hpp lists the words of an element ----

// The upper bits of a word, as a number in [0, 1).
Value unit(Value word, DType type, int bits) {
  const Value kept = word / std::ldexp(1.0, 32 - bits);
  return word.builder->convert(kept, type) * std::ldexp(1.0, -bits);
}
Value unit_f64(Value high, Value low) {
  KernelBuilder& b = *high.builder;
  const Value upper = b.convert(high / 0x1p5, DType::f64) * 0x1p26;
  return (upper + b.convert(low / 0x1p6, DType::f64)) * 0x1p-53;
}
// An f64 element needs two words, 2*position and the next.
Value uniform_unit(const Operands& o) {
  const Value place = o.builder.position();
  if (o.out == DType::f64) {
    const Value first = place * 2;
    return unit_f64(random_word(o.p[0], o.p[1], first), random_word(o.p[0], o.p[1], first + 1));
  }
  const int bits = o.out == DType::f16 ? 11 : o.out == DType::bf16 ? 8 : 24;
  return unit(random_word(o.p[0], o.p[1], place), DType::f32, bits);
}
Value uniform(const Operands& o) {
  const Value u = o.builder.convert(uniform_unit(o), DType::f64);
  return min(max(o.p[2] + o.p[3] * u, o.p[4]), o.p[5]);
}
// Box-Muller: a pair of elements shares radius and angle; the even one takes the cosine.
Value normal(const Operands& o) {
  const Value place = o.builder.position();
  const Value pair = place / 2;
  const bool is_wide = o.out == DType::f64;
  const auto word = [&](int i) {
    const Value first = pair * (is_wide ? 4 : 2);
    return random_word(o.p[0], o.p[1], i == 0 ? first : first + static_cast<double>(i));
  };
  const Value radius = is_wide ? unit_f64(word(0), word(1)) : unit(word(0), DType::f32, 24);
  const Value turn = is_wide ? unit_f64(word(2), word(3)) : unit(word(1), DType::f32, 24);
  const Value length = sqrt(log(radius + (is_wide ? 0x1p-53 : 0x1p-24)) * -2.0);
  const Value angle = turn * 6.283185307179586476925286766559;
  const Value wave = select(equal(place, pair * 2), cos(angle), sin(angle));
  return o.p[2] + o.p[3] * (length * wave);
}
Value is_hit(const Operands& o) {
  return less(random_word(o.p[0], o.p[1], o.builder.position()) / 256, o.p[2]);
}

Value arange(const Operands& o) {
  const Value i = o.builder.convert(o.builder.position(), o.p[0].type);
  return o.builder.convert(o.p[0] + i * o.p[1], o.out);
}

// ---- updates ----

Values sgd(const Operands& o) {
  const Value p = o.x[0];
  const Value g = o.x[1] + o.p[1] * p;
  if (o.x.size() == 2) {
    return {p - o.p[0] * g};
  }
  // In the first step the old momentum is undefined.
  const Value m = select(o.p[4], g, o.p[2] * o.x[2] + o.p[3] * g);
  const bool is_nesterov = o.op.attributes<SgdAttributes>().nesterov != 0;
  return {p - o.p[0] * (is_nesterov ? g + o.p[2] * m : m), m};
}

Values adam(const Operands& o) {
  const bool is_decoupled = o.op.attributes<AdamAttributes>().decoupled != 0;
  const Value g = is_decoupled ? o.x[1] : o.x[1] + o.p[0] * o.x[0];
  const Value p = is_decoupled ? o.p[0] * o.x[0] : o.x[0];
  const Value m = o.p[1] * o.x[2] + o.p[2] * g;
  const Value v = o.p[3] * o.x[3] + o.p[4] * g * g;
  return {p - o.p[5] * m / (sqrt(v) * o.p[6] + o.p[7]), m, v};
}

// ---- the table ----

// One result from one or two inputs.
template <Value (*function)(Value)>
Values unary(const Operands& o) {
  return {function(o.x[0])};
}
template <Value (*function)(Value, Value)>
Values binary(const Operands& o) {
  return {function(o.x[0], o.x[1])};
}
template <Value (*function)(const Operands&)>
Values one(const Operands& o) {
  return {function(o)};
}

Value neg(Value x) {
  return -x;
}
Value sub(Value a, Value b) {
  return a - b;
}
Value rsqrt(Value x) {
  return 1 / sqrt(x);
}
Value square(Value x) {
  return x * x;
}
Value sigmoid(Value x) {
  return 1 / (1 + exp(-x));
}
// Kahan's correction: 1 + x loses bits of x. The rounded logarithm belongs to u - 1 instead of x,
// and the quotient corrects for that. Without a loss the quotient is left out, because of
// infinities.
Value log1p(Value x) {
  const Value u = 1 + x;
  const Value kept = u + -1.0;
  const Value whole = log(u);
  const Value corrected = select(equal(kept, x), whole, whole * (x / kept));
  return select(equal(u, x.builder->constant(1, x.type)), x, corrected);
}
// The hyperbolic tangent is exact near 0, and a sum of positive numbers does not cancel: exp(x) - 1
// = tanh(x/2) * (exp(x) + 1).
Value expm1(Value x) {
  return tanh(x * 0.5) * (exp(x) + 1.0);
}
// Rounds a non-negative number, halves to even, by the adder's rounding: from 2^23 on (2^52 in f64)
// a float has no fraction bits. Larger numbers are whole.
Value nearest(Value x) {
  const double whole = x.type == DType::f64 ? 0x1p52 : 0x1p23;
  return select(less(x, whole), (x + whole) + -whole, x);
}
// Returns `whole` with the sign of x; x itself if nothing changed, which keeps -0.
Value with_sign_of(Value x, Value whole) {
  return select(equal(whole, abs(x)), x, select(less(x, 0.0), -whole, whole));
}
Value round(Value x) {
  return with_sign_of(x, nearest(abs(x)));
}
Value floor(Value x) {
  const Value near = round(x);
  return select(less(x, near), near + -1.0, near);
}
Value ceil(Value x) {
  return -floor(-x);
}
Value trunc(Value x) {
  const Value size = abs(x);
  const Value near = nearest(size);
  return with_sign_of(x, select(less(size, near), near + -1.0, near));
}
// Also true for -0, whose reciprocal is -infinity.
Value is_negative(Value x) {
  return logical_or(less(x, 0.0), less(1 / x, 0.0));
}
// The arc tangent of the smaller side by the larger one, at most pi/4, is reflected into the
// octant. The quotient of two zeros is 0 and that of two infinities 1.
Value atan2(Value y, Value x) {
  const Value width = abs(x);
  const Value height = abs(y);
  const Value shorter = min(width, height);
  const Value longer = max(width, height);
  const Value zero = x.builder->constant(0, x.type);
  const Value of_equal = select(equal(longer, zero), longer, 1.0);
  Value angle = atan(select(equal(shorter, longer), of_equal, shorter / longer));
  angle = select(less(width, height), std::numbers::pi / 2 - angle, angle);
  angle = select(is_negative(x), std::numbers::pi - angle, angle);
  return select(is_negative(y), -angle, angle);
}
Value not_equal(Value a, Value b) {
  return logical_not(equal(a, b));
}
Value bitwise_and(Value a, Value b) {
  return a.type == DType::boolean ? logical_and(a, b) : bit_and(a, b);
}
Value bitwise_or(Value a, Value b) {
  return a.type == DType::boolean ? logical_or(a, b) : bit_or(a, b);
}
Value bitwise_xor(Value a, Value b) {
  return a.type == DType::boolean ? not_equal(a, b) : bit_xor(a, b);
}
Value recip(Value x) {
  return 1 / x;
}
Value relu(Value x) {  // NaN is not below 0 and stays
  return select(less(x, 0.0), 0.0, x);
}
Value relu_backward(Value grad, Value y) {
  const Value zero = y.builder->constant(0, y.type);
  return select(less_equal(y, zero), zero, grad);  // NaN is not below 0 and passes on
}
Value smaller(Value a, Value b) {
  return a.type == DType::boolean ? logical_and(a, b) : min(a, b);
}
Value larger(Value a, Value b) {
  return a.type == DType::boolean ? logical_or(a, b) : max(a, b);
}
Value greater(Value a, Value b) {
  return less(b, a);
}
Value greater_equal(Value a, Value b) {
  return less_equal(b, a);
}
Value fill(const Operands& o) {
  return o.builder.convert(o.p[0], o.out);
}
Value bernoulli(const Operands& o) {
  return o.builder.convert(is_hit(o), o.out);
}
Value cast(const Operands& o) {
  return o.builder.convert(o.x[0], o.out);
}
Value dropout(const Operands& o) {  // a select, not a product: a dropped infinity is 0 too
  return select(is_hit(o), 0.0, o.x[0] * o.p[3]);
}
Value where(const Operands& o) {
  return select(o.x[0], o.x[1], o.x[2]);
}
Value copy(const Operands& o) {
  return o.x[0];
}

constexpr Row kRows[] = {{OpKind::fill, one<fill>, fill_parameters},
                         {OpKind::arange, one<arange>, arange_parameters},
                         {OpKind::random_uniform, one<uniform>, uniform_parameters},
                         {OpKind::random_normal, one<normal>, normal_parameters},
                         {OpKind::random_bernoulli, one<bernoulli>, bernoulli_parameters},
                         {OpKind::cast, one<cast>, nullptr, true},
                         {OpKind::neg, unary<neg>},
                         {OpKind::abs, unary<abs>},
                         {OpKind::exp, unary<exp>},
                         {OpKind::log, unary<log>},
                         {OpKind::sqrt, unary<sqrt>},
                         {OpKind::rsqrt, unary<rsqrt>},
                         {OpKind::square, unary<square>},
                         {OpKind::sin, unary<sin>},
                         {OpKind::cos, unary<cos>},
                         {OpKind::tanh, unary<tanh>},
                         {OpKind::erf, unary<erf>},
                         {OpKind::sigmoid, unary<sigmoid>},
                         {OpKind::recip, unary<recip>},
                         {OpKind::relu, unary<relu>},
                         {OpKind::dropout, one<dropout>, dropout_parameters},
                         {OpKind::add, binary < operator+> },
                          {OpKind::sub, binary<sub>},
                          {OpKind::mul, binary < operator*> },
                           {
                               OpKind::div,
                               binary < operator/> },
                               {OpKind::pow, binary<pow>},
                               {OpKind::min, binary<smaller>},
                               {OpKind::max, binary<larger>},
                               {OpKind::equal, binary<equal>},
                               {OpKind::not_equal, binary<not_equal>},
                               {OpKind::less, binary<less>},
                               {OpKind::less_equal, binary<less_equal>},
                               {OpKind::greater, binary<greater>},
                               {OpKind::greater_equal, binary<greater_equal>},
                               {OpKind::relu_backward, binary<relu_backward>},
                               {OpKind::where, one<where>, nullptr, true},
                               {OpKind::copy, one<copy>, nullptr, true},
                               {OpKind::sgd_step, sgd, sgd_parameters},
                               {OpKind::adam_step, adam, adam_parameters},
                               {OpKind::log1p, unary<log1p>},
                               {OpKind::expm1, unary<expm1>},
                               {OpKind::floor, unary<floor>},
                               {OpKind::ceil, unary<ceil>},
                               {OpKind::round, unary<round>},
                               {OpKind::trunc, unary<trunc>},
                               {OpKind::atan, unary<atan>},
                               {OpKind::atan2, binary<atan2>},
                               {OpKind::bitwise_and, binary<bitwise_and>},
                               {OpKind::bitwise_or, binary<bitwise_or>},
                               {OpKind::bitwise_xor, binary<bitwise_xor>},
                               {OpKind::shift_left, binary<shift_left>},
                               {OpKind::shift_right, binary<shift_right>},
                          };

const Row* row_of(OpKind kind) noexcept {
  for (const Row& row : kRows) {
    if (row.kind == kind) {
      return &row;
    }
  }
  return nullptr;
}

bool has_immediate(const OpView& op) {
  return op.record().has(RecordFlag::scalar_lhs) || op.record().has(RecordFlag::scalar_rhs);
}

}  // namespace

bool has_expression(OpKind kind) noexcept {
  return row_of(kind) != nullptr;
}

float sticky_f32(double value) noexcept {
  auto near = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(near) == value) {
    return near;
  }
  if (std::fabs(static_cast<double>(near)) > std::fabs(value)) {
    near = std::nextafter(near, 0.0F);
  }
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(near) | 1U);
}

Parameters op_parameters(const OpView& op, DType dtype) {
  const Row* row = row_of(op.kind());
  Parameters parameters;
  if (row != nullptr && row->parameters != nullptr) {
    parameters = row->parameters(op, dtype);
  }
  if (has_immediate(op)) {
    parameters.push_back({compute_type(dtype), op.attributes<ScalarAttributes>()});
  }
  return parameters;
}

Values op_expression(KernelBuilder& builder,
                     const OpView& op,
                     std::span<const Value> inputs,
                     std::span<const Value> parameters,
                     std::span<const DType> outputs) {
  const Row& row = *row_of(op.kind());
  Values x;
  for (const Value& input : inputs) {
    x.push_back(row.is_raw ? input : builder.convert(input, compute_type(input.type)));
  }
  if (has_immediate(op)) {
    const bool is_left = op.record().has(RecordFlag::scalar_lhs);
    x.insert(is_left ? x.begin() : x.end(), parameters.back());
  }
  Values results = row.make({builder, op, x, parameters, outputs[0]});
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i] = builder.convert(results[i], outputs[i]);
  }
  return results;
}

Result<KernelIR> op_kernel(const OpView& op,
                           std::span<const TensorSpec> inputs,
                           std::span<const TensorSpec> outputs) {
  if (!has_expression(op.kind())) {
    const std::string kind(name(op.kind()));
    return Error{
        .code = ErrorCode::unsupported, .text = kind + ": it has no expression", .op = kind};
  }
  std::vector<std::int32_t> symbols;
  symbols.reserve(static_cast<std::size_t>(outputs[0].shape.rank()));
  for (int axis = 0; axis < outputs[0].shape.rank(); ++axis) {
    symbols.push_back(axis);
  }
  KernelBuilder builder(std::move(symbols));
  Values values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<AffineIndex> map;
    for (AxisLink& link : index_map(op, inputs, outputs, static_cast<int>(i), 0).axes) {
      map.push_back(std::move(link.index));
    }
    values.push_back(builder.input(inputs[i].dtype, std::move(map)));
  }
  Values scalars;
  const DType dtype = inputs.empty() ? outputs[0].dtype : inputs[0].dtype;
  for (const KernelParameter& parameter : op_parameters(op, dtype)) {
    scalars.push_back(builder.parameter(parameter.type));
  }
  std::vector<DType> types;
  for (const TensorSpec& output : outputs) {
    types.push_back(output.dtype);
  }
  for (const Value& result : op_expression(builder, op, values, scalars, types)) {
    builder.output(result);
  }
  return builder.take();
}

}  // namespace hearth
