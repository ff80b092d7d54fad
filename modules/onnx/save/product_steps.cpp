// Steps of products, windows and attention.
#include "step_table.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>

namespace hearth::onnx {
namespace product_steps_of {
namespace {

// Opset 18 has no windows on bf16. They run in f32, as here, with one rounding at the end.
DType window_type(DType dtype) {
  return dtype == DType::bf16 ? DType::f32 : dtype;
}

void multiply(StepCall& call) {
  const std::string a = call.input(0);
  const std::string b = call.input(1);
  if (call.input_dtype(0) == DType::i8) {
    call.result(call.add("MatMulInteger", {a, b}));
    return;
  }
  const bool has_bias = call.input_count() == 3;
  if (has_bias && call.input_rank(0) == 2 && call.input_rank(1) == 2) {
    const std::optional<std::string> matrix = call.transposed_matrix(1);
    call.result(call.add("Gemm",
                         {a, matrix.value_or(b), call.input(2)},
                         {{"transB", std::int64_t{matrix ? 1 : 0}}}));
    return;
  }
  const std::string product = call.add("MatMul", {a, b});
  call.result(has_bias ? call.add("Add", {product, call.input(2)}) : product);
}

std::vector<std::int64_t> list(const std::array<std::int64_t, 2>& values) {
  return {values.begin(), values.end()};
}

// ONNX lists the padding before all axes, then that behind them.
std::vector<std::int64_t> both_ends(const std::array<std::int64_t, 2>& padding) {
  return {padding[0], padding[1], padding[0], padding[1]};
}

void convolve(StepCall& call) {
  const auto given = call.attributes<ConvAttributes>();
  const DType dtype = call.output_dtype();
  const DType inside = window_type(dtype);
  std::vector<std::string> inputs;
  for (int i = 0; i < call.input_count(); ++i) {
    inputs.push_back(call.cast(call.input(i), dtype, inside));
  }
  const std::vector<Sizes> weight = call.input_shape(1);
  const std::string value =
      call.add("Conv",
               std::move(inputs),
               {{"dilations", list(given.dilation)},
                {"group", given.groups},
                {"kernel_shape", std::vector{weight[2].front(), weight[3].front()}},
                {"pads", both_ends(given.padding)},
                {"strides", list(given.stride)}});
  call.result(call.cast(value, inside, dtype));
}

// What the shape of the result has beyond the smallest one of these windows.
void convolve_transposed(StepCall& call) {
  const auto given = call.attributes<ConvAttributes>();
  const DType dtype = call.output_dtype();
  const DType inside = window_type(dtype);
  const std::vector<Sizes> x = call.input_shape(0);
  const std::vector<Sizes> weight = call.input_shape(1);
  const std::vector<Sizes> result = call.output_shape();
  std::vector<std::int64_t> more;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    Sizes of_passes;
    for (std::size_t pass = 0; pass < call.pass_count(); ++pass) {
      const std::int64_t least = (x[axis + 2][pass] - 1) * given.stride[axis] -
                                 2 * given.padding[axis] +
                                 given.dilation[axis] * (weight[axis + 2][pass] - 1) + 1;
      of_passes.push_back(result[axis + 2][pass] - least);
    }
    if (!is_fixed(of_passes)) {
      call.refuse("the padding of the result depends on the size of a named axis",
                  "leave the axis without a name, so that its size is fixed");
      return;
    }
    more.push_back(of_passes.front());
  }
  const std::string value =
      call.add("ConvTranspose",
               {call.cast(call.input(0), dtype, inside), call.cast(call.input(1), dtype, inside)},
               {{"dilations", list(given.dilation)},
                {"group", given.groups},
                {"kernel_shape", std::vector{weight[2].front(), weight[3].front()}},
                {"output_padding", more},
                {"pads", both_ends(given.padding)},
                {"strides", list(given.stride)}});
  call.result(call.cast(value, inside, dtype));
}

void pool(StepCall& call) {
  if (!call.has_equal_attributes()) {
    call.refuse("the window depends on the size of a named axis",
                "leave the axis without a name, so that its size is fixed");
    return;
  }
  const bool is_mean = call.kind() == OpKind::avg_pool2d;
  if (!is_mean && call.is_needed(1)) {
    call.refuse("the positions of the largest elements count in each plane, ONNX's in the batch",
                "use the values alone");
    return;
  }
  const auto given = call.attributes<PoolAttributes>();
  const DType dtype = call.input_dtype(0);
  const DType inside = window_type(dtype);
  std::vector<DraftAttribute> attributes{{"kernel_shape", list(given.kernel)},
                                         {"pads", both_ends(given.padding)},
                                         {"strides", list(given.stride)}};
  if (is_mean) {
    attributes.emplace_back("count_include_pad", given.count_include_pad);
  }
  const std::string value = call.add(is_mean ? "AveragePool" : "MaxPool",
                                     {call.cast(call.input(0), dtype, inside)},
                                     std::move(attributes));
  call.result(call.cast(value, inside, dtype));
}

// True where query i of n sees key j of m: j ≤ i + m - n. Empty if that depends on sizes.
std::optional<std::string> causal_mask(StepCall& call) {
  const std::vector<Sizes> q = call.input_shape(0);
  const std::vector<Sizes> k = call.input_shape(1);
  const Sizes& queries = q[q.size() - 2];
  const Sizes& keys = k[k.size() - 2];
  Sizes shift;
  std::ranges::transform(keys, queries, std::back_inserter(shift), std::minus<>());
  if (!is_fixed(shift)) {
    return std::nullopt;
  }
  const std::string ones =
      call.add("Expand", {call.draft().integer(1), call.shape({queries, keys})});
  const std::string lower =
      call.add("Trilu", {ones, call.draft().integer(shift.front())}, {{"upper", std::int64_t{0}}});
  return call.cast(lower, DType::boolean);
}

// The scores of masked keys are -inf. A query that sees no key has no largest score, so that its
// shares are NaN; they become 0.
struct Masked {
  std::string scores;
  DType dtype = DType::f32;
  std::vector<std::string> visible = {};  // bools
};

void mask(StepCall& call, Masked& to, const std::string& visible) {
  const std::string lowest =
      call.draft().scalar(to.dtype, -std::numeric_limits<double>::infinity());
  to.scores = call.add("Where", {visible, to.scores, lowest});
  to.visible.push_back(visible);
}

void mask_by_input(StepCall& call, Masked& to) {
  const DType dtype = call.input_dtype(3);
  if (dtype == DType::boolean) {
    mask(call, to, call.input(3));
    return;
  }
  const std::string addend = call.cast(call.input(3), dtype, to.dtype);
  const std::string lowest =
      call.draft().scalar(to.dtype, -std::numeric_limits<double>::infinity());
  to.scores = call.add("Add", {to.scores, addend});
  to.visible.push_back(call.add("Not", {call.add("Equal", {addend, lowest})}));
}

std::string exchanged(StepCall& call, const std::string& keys, int rank) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return call.add("Transpose", {keys}, {{"perm", order}});
}

// Repeats heads of keys or values [..., heads, n, width], so that each head of queries has one.
std::string for_each_head(StepCall& call, const std::string& heads, int input) {
  const std::vector<Sizes> shape = call.input_shape(input);
  const std::size_t rank = shape.size();
  const std::vector<Sizes> queries = call.input_shape(0);
  if (rank < 3 || queries[queries.size() - 3] == shape[rank - 3]) {
    return heads;
  }
  const std::int64_t count = queries[queries.size() - 3].front();
  std::vector<std::int64_t> repeats(rank + 1, 1);
  repeats[rank - 2] = count / shape[rank - 3].front();
  std::vector<std::int64_t> target(rank, 0);  // 0: as before
  target[rank - 3] = count;
  target[rank - 2] = is_fixed(shape[rank - 2]) ? shape[rank - 2].front() : -1;
  target[rank - 1] = shape[rank - 1].front();
  GraphDraft& draft = call.draft();
  const std::string split =
      call.add("Unsqueeze", {heads, draft.integers({static_cast<std::int64_t>(rank) - 2})});
  const std::string wide = call.add("Expand", {split, draft.integers(repeats)});
  return call.add("Reshape", {wide, draft.integers(target)});
}

// Phases: scores in f32, as here; masks; shares; sums of values.
void attend(StepCall& call) {
  const auto given = call.attributes<AttentionAttributes>();
  const DType dtype = call.output_dtype();
  if (call.is_needed(1) || !call.has_equal_attributes()) {
    call.refuse("the op's statistics are used, or its scale depends on a named axis",
                "call attention() with the scale as a number");
    return;
  }
  const DType inside = dtype == DType::f64 ? DType::f64 : DType::f32;
  const auto wide = [&](int i) { return call.cast(call.input(i), dtype, inside); };
  const std::string keys = exchanged(call, for_each_head(call, wide(1), 1), call.input_rank(1));
  Masked masked{.scores = call.add("MatMul", {wide(0), keys}), .dtype = inside};
  if (given.scale != 1) {
    masked.scores = call.add("Mul", {masked.scores, call.draft().scalar(inside, given.scale)});
  }
  if (call.input_count() == 4) {
    mask_by_input(call, masked);
  }
  if (given.causal != 0) {
    const std::optional<std::string> visible = causal_mask(call);
    if (!visible) {
      call.refuse("the number of keys before the first query depends on the size of a named axis",
                  "leave the axis without a name, so that its size is fixed");
      return;
    }
    mask(call, masked, *visible);
  }
  std::string shares = call.add("Softmax", {masked.scores}, {{"axis", std::int64_t{-1}}});
  for (const std::string& visible : masked.visible) {
    shares = call.add("Where", {visible, shares, call.draft().scalar(inside, 0.0)});
  }
  const std::string sums = call.add("MatMul", {shares, for_each_head(call, wide(2), 2)});
  call.result(call.cast(sums, inside, dtype));
}

constexpr StepRow kRows[] = {
    {OpKind::matmul, multiply},
    {OpKind::conv2d, convolve},
    {OpKind::conv2d_backward_input, convolve_transposed},
    {OpKind::max_pool2d, pool},
    {OpKind::avg_pool2d, pool},
    {OpKind::attention, attend},
};

}  // namespace
}  // namespace product_steps_of

std::span<const StepRow> product_steps() {
  return product_steps_of::kRows;
}

}  // namespace hearth::onnx
