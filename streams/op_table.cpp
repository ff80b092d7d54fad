#include <hearth/streams/op_table.hpp>

#include <iterator>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth {
namespace {

constexpr DtypeMask kFloats = static_cast<DtypeMask>(
    dtype_bit(DType::f32) | dtype_bit(DType::f64) | dtype_bit(DType::f16) | dtype_bit(DType::bf16));
constexpr DtypeMask kFactors = static_cast<DtypeMask>(kFloats | dtype_bit(DType::i8));
constexpr DtypeMask kIntegers = static_cast<DtypeMask>(
    dtype_bit(DType::i32) | dtype_bit(DType::i64) | dtype_bit(DType::u8) | dtype_bit(DType::i8));
constexpr DtypeMask kBits = static_cast<DtypeMask>(kIntegers | dtype_bit(DType::boolean));
constexpr DtypeMask kNumbers = static_cast<DtypeMask>(kFloats | kIntegers);
constexpr DtypeMask kAll = static_cast<DtypeMask>(kNumbers | dtype_bit(DType::boolean));

// A row under construction: the defaults of its class first, then the kind's special properties.
class Row {
 public:
  constexpr Row(OpKind kind, std::string_view name, OpClass op_class, DtypeMask dtypes)
      : info_{.name = name,
              .doc = {},
              .kind = kind,
              .op_class = op_class,
              .dtype_rule = dtypes == kFloats ? DtypeRule::same_float : DtypeRule::same,
              .dtypes = dtypes,
              .min_inputs = 1,
              .max_inputs = 1,
              .outputs = 1,
              .attribute_size_bytes = 0,
              .differentiable = true} {
    switch (op_class) {
      case OpClass::creation:
        *this = inputs(0, 0).rule(DtypeRule::given).no_gradient();
        break;
      case OpClass::binary:
        *this = inputs(1, 2).attribute_size(sizeof(ScalarAttributes));
        break;
      case OpClass::ternary:
        *this = inputs(3, 3).rule(DtypeRule::where);
        break;
      case OpClass::reduction:
        *this = attribute_size(sizeof(ReduceAttributes));
        break;
      case OpClass::pooling:
        *this = attribute_size(sizeof(PoolAttributes));
        break;
      case OpClass::optimizer:
        *this = no_gradient();
        break;
      case OpClass::indexing:
        *this = inputs(2, 2).rule(DtypeRule::indexed).attribute_size(sizeof(AxisAttributes));
        break;
      case OpClass::attention:
        *this = rule(DtypeRule::attention).attribute_size(sizeof(AttentionAttributes));
        break;
      case OpClass::lifetime:
        *this = inputs(0, 0).outputs(0).rule(DtypeRule::none).no_gradient();
        break;
      default:
        break;
    }
  }

  [[nodiscard]] constexpr Row inputs(std::uint8_t least, std::uint8_t most) const {
    Row row = *this;
    row.info_.min_inputs = least;
    row.info_.max_inputs = most;
    return row;
  }
  [[nodiscard]] constexpr Row outputs(std::uint8_t count) const {
    Row row = *this;
    row.info_.outputs = count;
    return row;
  }
  [[nodiscard]] constexpr Row rule(DtypeRule rule) const {
    Row row = *this;
    row.info_.dtype_rule = rule;
    return row;
  }
  template <class Attributes>
  [[nodiscard]] constexpr Row attributes() const {
    return attribute_size(sizeof(Attributes));
  }
  [[nodiscard]] constexpr Row no_attributes() const { return attribute_size(0); }
  [[nodiscard]] constexpr Row no_gradient() const {
    Row row = *this;
    row.info_.differentiable = false;
    return row;
  }
  [[nodiscard]] constexpr OpInfo doc(std::string_view text) const {
    OpInfo info = info_;
    info.doc = text;
    return info;
  }

 private:
  [[nodiscard]] constexpr Row attribute_size(std::size_t size_bytes) const {
    Row row = *this;
    row.info_.attribute_size_bytes = static_cast<std::uint8_t>(size_bytes);
    return row;
  }

  OpInfo info_;
};

}  // namespace

constexpr OpInfo detail::op_rows[kOpKindCount] = {
    // creation
    Row{OpKind::fill, "full", OpClass::creation, kAll}.attributes<ScalarAttributes>().doc(
        "Every element is one value."),
    Row{OpKind::arange, "arange", OpClass::creation, kNumbers}.attributes<ArangeAttributes>().doc(
        "start + i*step along one axis; integers take start and step rounded toward zero."),
    Row{OpKind::random_uniform, "random_uniform", OpClass::creation, kFloats}
        .attributes<RandomAttributes>()
        .doc("Independent values, uniform in [a, b)."),
    Row{OpKind::random_normal, "random_normal", OpClass::creation, kFloats}
        .attributes<RandomAttributes>()
        .doc("Independent values, normal with mean a and standard deviation b."),
    Row{OpKind::random_bernoulli, "random_bernoulli", OpClass::creation, kNumbers}
        .attributes<RandomAttributes>()
        .doc("Independent values, 1 with probability a and 0 otherwise."),
    // one input
    Row{OpKind::cast, "cast", OpClass::unary, kAll}
        .rule(DtypeRule::given)
        .doc("The values in another element type. Floats round to nearest even; to an integer they "
             "truncate toward zero, stop at its ends, and NaN gives 0; integers to narrower ones "
             "wrap; to bool, nonzero (NaN too) is true."),
    Row{OpKind::neg, "neg", OpClass::unary, kNumbers}.doc("-x; integers wrap."),
    Row{OpKind::abs, "abs", OpClass::unary, kNumbers}.doc(
        "|x|; the smallest signed integer stays itself."),
    Row{OpKind::exp, "exp", OpClass::unary, kFloats}.doc("e to the x."),
    Row{OpKind::log, "log", OpClass::unary, kFloats}.doc(
        "The natural logarithm; of 0 minus infinity, below 0 NaN."),
    Row{OpKind::sqrt, "sqrt", OpClass::unary, kFloats}.doc("The square root; below 0 NaN."),
    Row{OpKind::rsqrt, "rsqrt", OpClass::unary, kFloats}.doc("1 / sqrt(x)."),
    Row{OpKind::square, "square", OpClass::unary, kNumbers}.doc("x*x; integers wrap."),
    Row{OpKind::sin, "sin", OpClass::unary, kFloats}.doc("The sine of x in radians."),
    Row{OpKind::cos, "cos", OpClass::unary, kFloats}.doc("The cosine of x in radians."),
    Row{OpKind::tanh, "tanh", OpClass::unary, kFloats}.doc("The hyperbolic tangent."),
    Row{OpKind::erf, "erf", OpClass::unary, kFloats}.doc("The error function."),
    Row{OpKind::sigmoid, "sigmoid", OpClass::unary, kFloats}.doc("1 / (1 + exp(-x))."),
    Row{OpKind::recip, "recip", OpClass::unary, kFloats}.doc("1 / x."),
    Row{OpKind::relu, "relu", OpClass::unary, kFloats}.doc("x where x > 0, else 0; NaN stays NaN."),
    Row{OpKind::dropout, "dropout", OpClass::unary, kFloats}.attributes<RandomAttributes>().doc(
        "0 with probability a, else x / (1 - a)."),
    // two inputs
    Row{OpKind::add, "add", OpClass::binary, kNumbers}.doc("a + b; integers wrap."),
    Row{OpKind::sub, "sub", OpClass::binary, kNumbers}.doc("a - b; integers wrap."),
    Row{OpKind::mul, "mul", OpClass::binary, kNumbers}.doc("a * b; integers wrap."),
    Row{OpKind::div, "div", OpClass::binary, kNumbers}.doc(
        "a / b; integers truncate toward zero and wrap, and dividing one by 0 is kernel_failed "
        "when the op runs."),
    Row{OpKind::pow, "pow", OpClass::binary, kNumbers}.doc(
        "a to the b; integers wrap. A negative integer exponent truncates 1/a^|b| toward zero, and "
        "0 to a negative integer is kernel_failed when the op runs."),
    Row{OpKind::min, "minimum", OpClass::binary, kAll}.doc(
        "The smaller one (of bools: and); NaN if either is NaN."),
    Row{OpKind::max, "maximum", OpClass::binary, kAll}.doc(
        "The larger one (of bools: or); NaN if either is NaN."),
    Row{OpKind::equal, "equal", OpClass::binary, kAll}
        .rule(DtypeRule::comparison)
        .no_gradient()
        .doc("a == b; NaN equals nothing."),
    Row{OpKind::not_equal, "not_equal", OpClass::binary, kAll}
        .rule(DtypeRule::comparison)
        .no_gradient()
        .doc("a != b; NaN differs from everything."),
    Row{OpKind::less, "less", OpClass::binary, kNumbers}
        .rule(DtypeRule::comparison)
        .no_gradient()
        .doc("a < b."),
    Row{OpKind::less_equal, "less_equal", OpClass::binary, kNumbers}
        .rule(DtypeRule::comparison)
        .no_gradient()
        .doc("a <= b."),
    Row{OpKind::greater, "greater", OpClass::binary, kNumbers}
        .rule(DtypeRule::comparison)
        .no_gradient()
        .doc("a > b."),
    Row{OpKind::greater_equal, "greater_equal", OpClass::binary, kNumbers}
        .rule(DtypeRule::comparison)
        .no_gradient()
        .doc("a >= b."),
    Row{OpKind::relu_backward, "relu_backward", OpClass::binary, kFloats}
        .inputs(2, 2)
        .no_attributes()
        .doc("(grad, y): grad where y > 0, else 0."),
    // three inputs
    Row{OpKind::where, "where", OpClass::ternary, kAll}.doc(
        "(condition, a, b): a where the condition is true, else b."),
    // views
    Row{OpKind::reshape, "reshape", OpClass::view, kAll}.doc(
        "The same elements in row-major order under another shape."),
    Row{OpKind::permute, "permute", OpClass::view, kAll}.attributes<PermuteAttributes>().doc(
        "Axes in another order: axis i of the result is axis axes[i] of the input."),
    Row{OpKind::slice, "slice", OpClass::view, kAll}.attributes<SliceAttributes>().doc(
        "Every step-th index from start along each axis; steps may be negative."),
    Row{OpKind::expand, "expand", OpClass::view, kAll}.doc(
        "Axes of size 1, and new leading ones, repeated."),
    // data movement
    Row{OpKind::copy, "copy", OpClass::movement, kAll}.doc("The same values, contiguous."),
    Row{OpKind::concat, "concat", OpClass::movement, kAll}
        .inputs(1, kAnyNumber)
        .attributes<AxisAttributes>()
        .doc("The inputs one after another along an axis."),
    Row{OpKind::slice_scatter, "slice_scatter", OpClass::movement, kNumbers}
        .attributes<SliceAttributes>()
        .doc("Zeros, with the input written at the slice; the adjoint of slice."),
    // reductions
    Row{OpKind::reduce_sum, "sum", OpClass::reduction, kAll}
        .rule(DtypeRule::given)
        .doc("The sum over axes; integers wrap, an empty sum is 0. Of integers and bools it may be "
             "i64."),
    Row{OpKind::reduce_mean, "mean", OpClass::reduction, kFloats}.doc(
        "The mean over axes; an empty mean is NaN."),
    Row{OpKind::reduce_max, "max", OpClass::reduction, kAll}.doc(
        "The largest over axes (of bools: any); NaN if one is NaN."),
    Row{OpKind::argmax, "argmax", OpClass::reduction, kNumbers}
        .rule(DtypeRule::position)
        .attributes<AxisAttributes>()
        .no_gradient()
        .doc("The i64 position of the largest along one axis; ties take the first, NaN counts as "
             "largest."),
    // contractions
    Row{OpKind::matmul, "matmul", OpClass::contraction, kFactors}
        .inputs(2, 3)
        .rule(DtypeRule::product)
        .doc("(a, b, optional bias): products of the last two axes, leading axes broadcast; bias "
             "is added to each row. Of i8 and i8 the result is i32, without a bias."),
    Row{OpKind::conv2d, "conv2d", OpClass::contraction, kFloats}
        .inputs(2, 3)
        .attributes<ConvAttributes>()
        .doc("(x, w, optional bias): cross-correlation over height and width."),
    Row{OpKind::conv2d_backward_input, "conv2d_backward_input", OpClass::contraction, kFloats}
        .inputs(2, 2)
        .attributes<ConvAttributes>()
        .doc("(grad, w): the gradient of x; the transposed convolution of grad."),
    Row{OpKind::conv2d_backward_weight, "conv2d_backward_weight", OpClass::contraction, kFloats}
        .inputs(2, 2)
        .attributes<ConvAttributes>()
        .doc("(x, grad): the gradient of w."),
    // pooling
    Row{OpKind::max_pool2d, "max_pool2d", OpClass::pooling, kFloats}
        .outputs(2)
        .rule(DtypeRule::pool_positions)
        .doc("The largest of each window and, as a second output, its i32 position h*W + w in the "
             "input plane. Ties take the first, NaN counts as largest."),
    Row{OpKind::max_pool2d_backward, "max_pool2d_backward", OpClass::pooling, kFloats}
        .inputs(2, 2)
        .rule(DtypeRule::pool_positions)
        .doc("(grad, positions): grad summed into its positions."),
    Row{OpKind::avg_pool2d, "avg_pool2d", OpClass::pooling, kFloats}.doc(
        "The mean of each window."),
    Row{OpKind::avg_pool2d_backward, "avg_pool2d_backward", OpClass::pooling, kFloats}.doc(
        "(grad): grad spread evenly over its window."),
    // rows
    Row{OpKind::softmax, "softmax", OpClass::row, kFloats}.attributes<AxisAttributes>().doc(
        "exp(x - max) divided by its sum along one axis."),
    Row{OpKind::log_softmax, "log_softmax", OpClass::row, kFloats}.attributes<AxisAttributes>().doc(
        "The logarithm of softmax, without computing it."),
    Row{OpKind::softmax_backward, "softmax_backward", OpClass::row, kFloats}
        .inputs(2, 2)
        .attributes<AxisAttributes>()
        .doc("(grad, y): y * (grad - sum(grad*y))."),
    Row{OpKind::log_softmax_backward, "log_softmax_backward", OpClass::row, kFloats}
        .inputs(2, 2)
        .attributes<AxisAttributes>()
        .doc("(grad, y): grad - exp(y) * sum(grad)."),
    Row{OpKind::cross_entropy, "cross_entropy", OpClass::row, kFloats}
        .inputs(2, 2)
        .outputs(2)
        .rule(DtypeRule::class_loss)
        .doc("(logits, targets): -log softmax at the target of each row and, as a second output, "
             "the probabilities; a target outside the classes is out_of_range when the op runs."),
    Row{OpKind::cross_entropy_backward, "cross_entropy_backward", OpClass::row, kFloats}
        .inputs(3, 3)
        .rule(DtypeRule::class_loss)
        .no_gradient()
        .doc("(grad, probabilities, targets): grad * (probability - [target])."),
    // optimizer updates
    Row{OpKind::sgd_step, "sgd_step", OpClass::optimizer, kFloats}
        .inputs(2, 3)
        .outputs(2)
        .attributes<SgdAttributes>()
        .doc("(parameter, gradient, optional momentum) to (parameter, momentum)."),
    Row{OpKind::adam_step, "adam_step", OpClass::optimizer, kFloats}
        .inputs(4, 4)
        .outputs(3)
        .attributes<AdamAttributes>()
        .doc("(parameter, gradient, m, v) to (parameter, m, v)."),
    // data and lifetimes
    Row{OpKind::upload, "upload", OpClass::lifetime, kAll}
        .outputs(1)
        .attributes<TicketAttributes>()
        .doc("Host bytes become a tensor."),
    Row{OpKind::readback, "readback", OpClass::lifetime, kAll}
        .inputs(1, 1)
        .attributes<TicketAttributes>()
        .doc("A tensor's bytes go to the host and fulfil a Pending."),
    Row{OpKind::lend, "lend", OpClass::lifetime, kAll}
        .inputs(1, 1)
        .attributes<TicketAttributes>()
        .doc("A tensor's bytes are lent to a client until it calls done()."),
    Row{OpKind::drop, "drop", OpClass::lifetime, kAll}.inputs(1, 1).doc(
        "The last name of a tensor is gone."),
    Row{OpKind::publish, "publish", OpClass::lifetime, kAll}
        .inputs(0, kAnyNumber)
        .doc("A flush point: what came before may be used by other streams."),
    Row{OpKind::adopt, "adopt", OpClass::lifetime, kAll}
        .inputs(1, kAnyNumber)
        .doc("The tensor's home is this stream from here on."),
    Row{OpKind::group_begin, "group_begin", OpClass::lifetime, kAll}.doc(
        "An update group starts: all of it runs or nothing."),
    Row{OpKind::group_end, "group_end", OpClass::lifetime, kAll}.doc(
        "The update group ends and may run."),
    Row{OpKind::sync, "sync", OpClass::lifetime, kAll}.attributes<TicketAttributes>().doc(
        "Fulfils a Pending when all before it in the stream is done."),
    Row{OpKind::limit, "limit", OpClass::lifetime, kAll}.attributes<LimitAttributes>().doc(
        "The ops that follow in the stream are cancelled at a deadline, or on a stop request."),
    Row{OpKind::expression, "expression", OpClass::expression, kAll}
        .inputs(1, kMostExpressionInputs)
        .outputs(kMostGroupOutputs)
        .rule(DtypeRule::expression)
        .attributes<ExpressionAttributes>()
        .doc("An elementwise function that the program captured, over all inputs at once, numpy "
             "broadcasting: a custom op, or an optimizer's update of one parameter."),
    // by index
    Row{OpKind::gather, "gather", OpClass::indexing, kAll}.doc(
        "(x, index of x's rank): along the axis, the element of x at each index, in index's shape; "
        "an index outside of the axis is out_of_range when the op runs."),
    Row{OpKind::index_select, "index_select", OpClass::indexing, kAll}.doc(
        "(x, index[n]): the n slices of x at the indices along the axis; one outside of it is "
        "out_of_range when the op runs."),
    Row{OpKind::scatter_add, "scatter_add", OpClass::indexing, kNumbers}.doc(
        "(source, index): zeros, with each element of the source added at its index along the "
        "axis, in the order of the index; the adjoint of gather. Integers wrap."),
    Row{OpKind::index_add, "index_add", OpClass::indexing, kNumbers}.doc(
        "(source, index[n]): zeros, with each slice of the source added at its index along the "
        "axis, in the order of the index; the adjoint of index_select. Integers wrap."),
    // one input
    Row{OpKind::log1p, "log1p", OpClass::unary, kFloats}.doc(
        "log(1 + x), exact near 0; of -1 minus infinity, below it NaN."),
    Row{OpKind::expm1, "expm1", OpClass::unary, kFloats}.doc("exp(x) - 1, exact near 0."),
    // reductions
    Row{OpKind::reduce_min, "min", OpClass::reduction, kAll}.doc(
        "The smallest over axes (of bools: all); NaN if one is NaN."),
    Row{OpKind::reduce_prod, "prod", OpClass::reduction, kAll}
        .rule(DtypeRule::given)
        .doc(
            "The product over axes; integers wrap, an empty product is 1. Of integers and bools it "
            "may be i64."),
    Row{OpKind::argmin, "argmin", OpClass::reduction, kNumbers}
        .rule(DtypeRule::position)
        .attributes<AxisAttributes>()
        .no_gradient()
        .doc("The i64 position of the smallest along one axis; ties take the first, NaN counts as "
             "smallest."),
    // scans
    Row{OpKind::cumsum, "cumsum", OpClass::row, kAll}
        .rule(DtypeRule::given)
        .attributes<ScanAttributes>()
        .doc("The sums of the elements up to each along one axis, or from each on; integers wrap. "
             "Of integers and bools they may be i64."),
    // attention
    Row{OpKind::attention, "attention", OpClass::attention, kFloats}.inputs(3, 4).outputs(2).doc(
        "(q, k, v, optional mask): softmax(scale * q k^T + mask) v for each head, without the "
        "matrix in memory, and as a second output each row's largest score and 1 / the sum of "
        "exponentials; a query that sees no key gives 0."),
    Row{OpKind::attention_backward, "attention_backward", OpClass::attention, kFloats}
        .inputs(6, 7)
        .outputs(3)
        .no_gradient()
        .doc("(grad, q, k, v, y, statistics, optional mask): the gradients of q, k and v."),
    // the largest or smallest
    Row{OpKind::topk, "topk", OpClass::row, kNumbers}.outputs(2).attributes<TopkAttributes>().doc(
        "The largest (or smallest) along one axis, in order, and their i64 positions; ties take "
        "the first, NaN counts as larger than all."),
    // to whole numbers
    Row{OpKind::floor, "floor", OpClass::unary, kFloats}.no_gradient().doc(
        "The largest whole number that is not above x."),
    Row{OpKind::ceil, "ceil", OpClass::unary, kFloats}.no_gradient().doc(
        "The smallest whole number that is not below x."),
    Row{OpKind::round, "round", OpClass::unary, kFloats}.no_gradient().doc(
        "The nearest whole number; of two as near the even one."),
    Row{OpKind::trunc, "trunc", OpClass::unary, kFloats}.no_gradient().doc(
        "The whole number towards zero."),
    Row{OpKind::custom, "custom", OpClass::custom, kAll}
        .inputs(1, kMostCustomInputs)
        .outputs(kMostCustomOutputs)
        .rule(DtypeRule::custom)
        .attributes<CustomAttributes>()
        .doc("A kernel that the program brings itself, with its own rule for shapes and types."),
    // angles
    Row{OpKind::atan, "atan", OpClass::unary, kFloats}.doc("The arc tangent, in radians."),
    Row{OpKind::atan2, "atan2", OpClass::binary, kFloats}.doc(
        "(y, x): the angle of the point (x, y), from -pi to pi; signed zeros and infinities as in "
        "C."),
    // by index
    Row{OpKind::scatter, "scatter", OpClass::indexing, kAll}
        .inputs(3, 3)
        .attributes<ScatterAttributes>()
        .doc("(x, index, updates): x, with each update set, added, multiplied, or the smaller or "
             "larger one kept, at its index along the axis, in the order of the index; an index "
             "outside of the axis is out_of_range when the op runs."),
    // scans
    Row{OpKind::cumprod, "cumprod", OpClass::row, kAll}
        .rule(DtypeRule::given)
        .attributes<ScanAttributes>()
        .doc("The products of the elements up to each along one axis, or from each on; integers "
             "wrap. Of integers and bools they may be i64."),
    Row{OpKind::cummax, "cummax", OpClass::row, kAll}
        .rule(DtypeRule::same)
        .attributes<ScanAttributes>()
        .doc("The largest of the elements up to each along one axis, or from each on; NaN from the "
             "first NaN on."),
    Row{OpKind::cummin, "cummin", OpClass::row, kAll}
        .rule(DtypeRule::same)
        .attributes<ScanAttributes>()
        .doc("The smallest of the elements up to each along one axis, or from each on; NaN from "
             "the first NaN on."),
    // bits of integers
    Row{OpKind::bitwise_and, "bitwise_and", OpClass::binary, kBits}.no_gradient().doc(
        "The bits that both have; of bools: and."),
    Row{OpKind::bitwise_or, "bitwise_or", OpClass::binary, kBits}.no_gradient().doc(
        "The bits that one of them has; of bools: or."),
    Row{OpKind::bitwise_xor, "bitwise_xor", OpClass::binary, kBits}.no_gradient().doc(
        "The bits in which they differ; of bools: exclusive or."),
    Row{OpKind::shift_left, "shift_left", OpClass::binary, kIntegers}.no_gradient().doc(
        "The bits of a, b places up; 0 where b is negative or not below the type's width."),
    Row{OpKind::shift_right, "shift_right", OpClass::binary, kIntegers}.no_gradient().doc(
        "The bits of a, b places down, with a's sign from above; where b is negative or not below "
        "the type's width, -1 for a negative a, else 0."),
};

namespace {

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < std::size(detail::op_rows); ++i) {
    if (detail::op_rows[i].kind != static_cast<OpKind>(i) || detail::op_rows[i].name.empty()) {
      return false;
    }
  }
  return true;
}
static_assert(is_in_order(), "one row for each OpKind, in its order");

// Indexed by CalledAs.
constexpr CalledInfo kCalled[] = {
    {.name = {}, .hint = {}, .kind = OpKind::fill},
    {.name = "cross_entropy", .hint = {}, .kind = OpKind::index_select},
    {.name = "cross_entropy_backward", .hint = {}, .kind = OpKind::index_add},
    {.name = "embedding", .hint = {}, .kind = OpKind::index_select},
    {.name = "embedding_backward", .hint = {}, .kind = OpKind::index_add},
    {.name = "multinomial",
     .hint =
         "cannot be drawn from: its weights sum to 0, there are fewer above 0 than draws, or one "
         "is negative or no finite number",
     .kind = OpKind::gather},
    {.name = "nll_loss", .hint = {}, .kind = OpKind::gather},
    {.name = "nll_loss_backward", .hint = {}, .kind = OpKind::scatter_add},
    {.name = "one_hot", .hint = {}, .kind = OpKind::scatter_add},
    {.name = "floor_divide", .hint = {}, .kind = OpKind::div},
    {.name = "remainder", .hint = {}, .kind = OpKind::div},
    {.name = "ones", .hint = {}, .kind = OpKind::fill},
    {.name = "ones_like", .hint = {}, .kind = OpKind::fill},
    {.name = "zeros", .hint = {}, .kind = OpKind::fill},
    {.name = "zeros_like", .hint = {}, .kind = OpKind::fill},
};

}  // namespace

std::span<const OpInfo> op_table() noexcept {
  return detail::op_rows;
}

const CalledInfo& called_info(CalledAs called) noexcept {
  HEARTH_ASSERT(is_known(called), "a record's name was checked when it was made or read");
  return kCalled[static_cast<std::size_t>(called)];
}

bool is_known(CalledAs called) noexcept {
  return static_cast<std::size_t>(called) < std::size(kCalled);
}

CalledAs backward_of(CalledAs called) noexcept {
  switch (called) {
    case CalledAs::cross_entropy:
      return CalledAs::cross_entropy_backward;
    case CalledAs::embedding:
      return CalledAs::embedding_backward;
    case CalledAs::nll_loss:
      return CalledAs::nll_loss_backward;
    default:  // the others have no gradient of their own
      return CalledAs::itself;
  }
}

std::string describe(DtypeMask dtypes) {
  std::string out;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if ((dtypes & dtype_bit(dtype)) != 0) {
      out += out.empty() ? "" : ", ";
      out += name(dtype);
    }
  }
  return out;
}

}  // namespace hearth
