// Derives the dependences of results on inputs by changing one input element at a time on the
// reference, and compares them with the rule of the op table. Derives the classes of equal sizes
// from the shape rules.
#include <hearth/streams/index_map.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/streams/trace/record_rules.hpp>

#include "tests/streams/kernel_example.hpp"

namespace hearth {
namespace {

using testing::Bytes;
using testing::KernelExample;

struct Example {
  KernelExample call;
  std::int64_t bound = 1;   // of classes and positions
  bool keeps_sizes = true;  // whether all its axes of one class may be doubled together
  int draws = 100;          // of all values, until every dependence has shown
};

TensorSpec f32(std::initializer_list<std::int64_t> dims) {
  return {DType::f32, Shape(dims)};
}

std::vector<Example> elementwise_examples() {
  std::vector<Example> all;
  const TensorSpec x = f32({2, 3});
  for (int i = static_cast<int>(OpKind::cast); i <= static_cast<int>(OpKind::relu); ++i) {
    all.push_back({KernelExample(static_cast<OpKind>(i), {x}, {x})});
  }
  for (const OpKind kind : {OpKind::log1p,
                            OpKind::expm1,
                            OpKind::floor,
                            OpKind::ceil,
                            OpKind::round,
                            OpKind::trunc,
                            OpKind::atan}) {
    all.push_back({KernelExample(kind, {x}, {x})});
  }
  all.push_back(
      {KernelExample(OpKind::dropout, {x}, {x}).with(RandomAttributes{.seed = 1, .a = 0})});
  all.push_back({KernelExample(OpKind::copy, {x}, {x})});
  std::vector<OpKind> pairs{OpKind::atan2};
  for (int i = static_cast<int>(OpKind::add); i <= static_cast<int>(OpKind::greater_equal); ++i) {
    pairs.push_back(static_cast<OpKind>(i));
  }
  for (const OpKind kind : pairs) {
    const DType dtype =
        op_info(kind).dtype_rule == DtypeRule::comparison ? DType::boolean : DType::f32;
    const auto result = [&](const Shape& shape) { return TensorSpec{dtype, shape}; };
    all.push_back({KernelExample(kind, {x, x}, {result({2, 3})}).with(ScalarAttributes{})});
    all.push_back({KernelExample(kind, {f32({3}), f32({2, 1, 3})}, {result({2, 1, 3})})
                       .with(ScalarAttributes{})});
    all.push_back({KernelExample(kind, {f32({2, 1}), f32({1, 3})}, {result({2, 3})})
                       .with(ScalarAttributes{})});
    all.push_back({KernelExample(kind, {x}, {result({2, 3})})
                       .with(ScalarAttributes{.real = 2, .integer = 2})
                       .with(RecordFlag::scalar_lhs)});
  }
  for (int i = static_cast<int>(OpKind::bitwise_and); i <= static_cast<int>(OpKind::shift_right);
       ++i) {
    const TensorSpec row{DType::i32, {3}};
    const TensorSpec bits{DType::i32, {2, 3}};
    all.push_back(
        {.call =
             KernelExample(static_cast<OpKind>(i), {bits, row}, {bits}).with(ScalarAttributes{}),
         .bound = 32});
  }
  all.push_back({KernelExample(OpKind::relu_backward, {x, x}, {x})});
  all.push_back({KernelExample(OpKind::where, {{DType::boolean, {3}}, f32({2, 1}), x}, {x})});
  return all;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): a list
std::vector<Example> moving_examples() {
  std::vector<Example> all;
  const auto add = [&](KernelExample example) { all.push_back({std::move(example)}); };
  add(KernelExample(OpKind::concat, {f32({2, 3}), f32({2, 1}), f32({2, 2})}, {f32({2, 6})})
          .with(AxisAttributes{.axis = 1}));
  add(KernelExample(OpKind::concat, {f32({1, 3}), f32({2, 3})}, {f32({3, 3})})
          .with(AxisAttributes{.axis = 0}));
  add(KernelExample(OpKind::slice_scatter, {f32({2, 2})}, {f32({3, 5})})
          .with(SliceAttributes{.start = {1, 4}, .step = {1, -2}}));
  for (const std::uint32_t axes : {1U, 2U, 5U, 7U}) {
    for (const std::uint32_t keep : {0U, 1U}) {
      Shape result;
      const Shape from{2, 3, 4};
      for (int axis = 0; axis < 3; ++axis) {
        const bool goes = (axes >> static_cast<unsigned>(axis) & 1U) != 0;
        if (!goes || keep != 0) {
          result.push_back(goes ? 1 : from[axis]);
        }
      }
      for (const OpKind kind : {OpKind::reduce_sum,
                                OpKind::reduce_mean,
                                OpKind::reduce_max,
                                OpKind::reduce_min,
                                OpKind::reduce_prod}) {
        add(KernelExample(kind, {{DType::f32, from}}, {{DType::f32, result}})
                .with(ReduceAttributes{.axes = axes, .keep_dims = keep}));
        const bool chooses = kind == OpKind::reduce_max || kind == OpKind::reduce_min;
        all.back().draws = chooses ? 300 : 100;  // one in 24 is the largest
      }
    }
  }
  for (const OpKind kind : {OpKind::argmax, OpKind::argmin}) {
    add(KernelExample(kind, {f32({2, 3, 4})}, {{DType::i64, {2, 4}}})
            .with(AxisAttributes{.axis = 1}));
    add(KernelExample(kind, {f32({2, 3})}, {{DType::i64, {2, 1}}})
            .with(AxisAttributes{.axis = 1, .keep_dims = 1}));
  }
  for (const int axis : {0, 1}) {
    const TensorSpec x = f32({2, 3, 2});
    for (const int reverse : {0, 1}) {
      for (const OpKind kind : {OpKind::cumsum, OpKind::cumprod, OpKind::cummax, OpKind::cummin}) {
        add(KernelExample(kind, {x}, {x}).with(ScanAttributes{.axis = axis, .reverse = reverse}));
      }
    }
    const TensorSpec top = axis == 0 ? f32({1, 3, 2}) : f32({2, 2, 2});
    add(KernelExample(OpKind::topk, {x}, {top, {DType::i64, top.shape}})
            .with(TopkAttributes{.axis = axis, .smallest = 1 - axis}));
    for (const OpKind kind : {OpKind::softmax, OpKind::log_softmax}) {
      add(KernelExample(kind, {x}, {x}).with(AxisAttributes{.axis = axis}));
    }
    for (const OpKind kind : {OpKind::softmax_backward, OpKind::log_softmax_backward}) {
      add(KernelExample(kind, {x, x}, {x}).with(AxisAttributes{.axis = axis}));
    }
  }
  return all;
}

std::vector<Example> contraction_examples() {
  std::vector<Example> all;
  const auto add = [&](KernelExample example) { all.push_back({std::move(example)}); };
  add(KernelExample(OpKind::matmul, {f32({2, 3}), f32({3, 4}), f32({4})}, {f32({2, 4})}));
  add(KernelExample(OpKind::matmul, {f32({2, 1, 2, 3}), f32({5, 3, 4})}, {f32({2, 5, 2, 4})}));
  // No padding, so that every weight meets every element; the gradient of x with all of it.
  const ConvAttributes conv{.stride = {1, 2}, .dilation = {2, 1}, .groups = 2};
  add(KernelExample(
          OpKind::conv2d, {f32({2, 4, 5, 5}), f32({6, 2, 2, 3}), f32({6})}, {f32({2, 6, 3, 2})})
          .with(conv));
  add(KernelExample(OpKind::conv2d_backward_weight,
                    {f32({2, 4, 5, 5}), f32({2, 6, 3, 2})},
                    {f32({6, 2, 2, 3})})
          .with(conv));
  const ConvAttributes full{.padding = {2, 1}, .dilation = {2, 1}, .groups = 2};
  add(KernelExample(OpKind::conv2d_backward_input,
                    {f32({2, 6, 5, 4}), f32({6, 2, 2, 2})},
                    {f32({2, 4, 3, 3})})
          .with(full));
  const ConvAttributes plain{};
  add(KernelExample(OpKind::conv2d_backward_input,
                    {f32({1, 2, 2, 2}), f32({2, 3, 1, 1})},
                    {f32({1, 3, 2, 2})})
          .with(plain));
  return all;
}

std::vector<Example> pooling_examples() {
  std::vector<Example> all;
  const TensorSpec x = f32({2, 2, 4, 5});
  const PoolAttributes pool{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}};
  const TensorSpec y = f32({2, 2, 2, 6});
  const TensorSpec positions{DType::i32, y.shape};
  all.push_back({KernelExample(OpKind::max_pool2d, {x}, {y, positions}).with(pool), 1, false});
  all.push_back({KernelExample(OpKind::avg_pool2d, {x}, {y}).with(pool), 1, false});
  all.push_back({KernelExample(OpKind::avg_pool2d_backward, {y}, {x}).with(pool), 1, false});
  const TensorSpec small = f32({2, 2, 2, 2});
  all.push_back(
      {KernelExample(
           OpKind::max_pool2d_backward, {small, {DType::i32, small.shape}}, {f32({2, 2, 3, 3})})
           .with(PoolAttributes{.stride = {1, 1}}),
       9,
       false,
       200});
  const TensorSpec logits = f32({3, 4});
  const TensorSpec targets{DType::i64, {3}};
  all.push_back({KernelExample(OpKind::cross_entropy, {logits, targets}, {f32({3}), logits}), 4});
  all.push_back(
      {KernelExample(OpKind::cross_entropy_backward, {f32({3}), logits, targets}, {logits}), 4});
  const TensorSpec p = f32({2, 3});
  const SgdAttributes sgd{.learning_rate = 0.5, .momentum = 0.5, .weight_decay = 0.25};
  all.push_back({KernelExample(OpKind::sgd_step, {p, p, p}, {p, p}).with(sgd)});
  const AdamAttributes adam{
      .learning_rate = 0.5, .beta1 = 0.5, .beta2 = 0.5, .epsilon = 0.1, .weight_decay = 0.25};
  all.push_back({KernelExample(OpKind::adam_step, {p, p, p, p}, {p, p, p}).with(adam)});
  return all;
}

// Off the axis, an index of gather may be doubled and still be no longer than the indexed tensor.
std::vector<Example> indexing_examples() {
  std::vector<Example> all;
  const auto add = [&](OpKind kind, int axis, const Shape& values, const Shape& index, Shape out) {
    const bool is_pick = kind == OpKind::gather || kind == OpKind::index_select;
    all.push_back(
        {.call =
             KernelExample(kind, {{DType::f32, values}, {DType::i64, index}}, {{DType::f32, out}})
                 .with(AxisAttributes{.axis = axis}),
         .bound = is_pick ? values[axis] : out[axis]});
  };
  add(OpKind::gather, 0, {3, 4}, {2, 2}, {2, 2});
  add(OpKind::gather, 1, {4, 3}, {2, 5}, {2, 5});
  add(OpKind::scatter_add, 0, {2, 2}, {2, 2}, {3, 4});
  add(OpKind::scatter_add, 1, {2, 5}, {2, 5}, {4, 3});
  add(OpKind::index_select, 0, {3, 2}, {4}, {4, 2});
  add(OpKind::index_select, 1, {2, 3, 2}, {2}, {2, 2, 2});
  add(OpKind::index_add, 0, {4, 2}, {4}, {3, 2});
  add(OpKind::index_add, 1, {2, 2, 2}, {2}, {2, 3, 2});
  for (const ScatterMode mode : {ScatterMode::set, ScatterMode::add, ScatterMode::mul}) {
    const TensorSpec index{DType::i64, {2, 2}};
    all.push_back(
        {.call = KernelExample(OpKind::scatter, {f32({3, 4}), index, f32({2, 2})}, {f32({3, 4})})
                     .with(ScatterAttributes{.axis = 0, .mode = mode}),
         .bound = 3});
  }
  return all;
}

// Two heads of queries share one of keys. The gradients' results have their own sizes.
std::vector<Example> attention_examples() {
  std::vector<Example> all;
  const AttentionAttributes attributes{.scale = 0.5};
  const TensorSpec q = f32({2, 4, 2, 3});
  const TensorSpec k = f32({2, 2, 3, 3});
  const TensorSpec v = f32({2, 2, 3, 2});
  const TensorSpec y = f32({2, 4, 2, 2});
  const TensorSpec statistics = f32({2, 4, 2, 2});
  for (const TensorSpec& mask : {f32({4, 1, 3}), f32({2, 1, 2, 3})}) {
    all.push_back(
        {KernelExample(OpKind::attention, {q, k, v, mask}, {y, statistics}).with(attributes)});
    all.push_back(
        {KernelExample(OpKind::attention_backward, {y, q, k, v, y, statistics, mask}, {q, k, v})
             .with(attributes),
         1,
         false});
  }
  const TensorSpec flat = f32({2, 3});
  all.push_back({KernelExample(OpKind::attention, {flat, flat, flat}, {flat}).with(attributes)});
  return all;
}

std::vector<Example> examples() {
  std::vector<Example> all = elementwise_examples();
  for (auto* family : {moving_examples,
                       contraction_examples,
                       pooling_examples,
                       indexing_examples,
                       attention_examples}) {
    for (Example& each : family()) {
      all.push_back(std::move(each));
    }
  }
  return all;
}

// ---- dependences ----

class Values {
 public:
  explicit Values(std::uint64_t seed) : random_(seed) {}

  Bytes tensor(const TensorSpec& spec, std::int64_t bound) {
    Bytes bytes(testing::dense_bytes(spec));
    for (std::int64_t i = 0; i < spec.shape.element_count(); ++i) {
      put(bytes, i, spec.dtype, bound);
    }
    return bytes;
  }
  // Small whole numbers, so that equal ones meet, ordinary ones, and occasionally a large one.
  void put(Bytes& bytes, std::int64_t element, DType dtype, std::int64_t bound) {
    std::byte* to = bytes.data() + element * size_bytes(dtype);
    if (dtype == DType::f32) {
      constexpr float kWhole[] = {-1, 1, 2, 3};
      const float ordinary = static_cast<float>(random_() % 4096) / 1024;
      const std::uint64_t choice = random_() % 8;
      const float value = choice == 0  ? 4 + 8 * ordinary
                          : choice < 5 ? kWhole[random_() % 4]
                                       : ordinary - 1;
      std::memcpy(to, &value, sizeof value);
    } else if (dtype == DType::boolean) {
      *to = std::byte(random_() % 2);
    } else {
      const auto value = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
      std::memcpy(to, &value, static_cast<std::size_t>(size_bytes(dtype)));  // little-endian
    }
  }

 private:
  std::mt19937_64 random_;
};

using Pairs = std::set<std::pair<std::int64_t, std::int64_t>>;  // (input element, output element)

std::array<std::int64_t, kMaxRank> index_of(const Shape& shape, std::int64_t element) {
  std::array<std::int64_t, kMaxRank> index{};
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

std::span<const std::byte> element_of(const Bytes& bytes, std::int64_t i, DType dtype) {
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  return std::span(bytes).subspan(static_cast<std::size_t>(i) * size, size);
}

/// For each input and output, the pairs where a change of the input element changed the output
/// element.
std::vector<std::vector<Pairs>> observe(const Example& example) {
  const KernelExample& call = example.call;
  std::vector<std::vector<Pairs>> seen(call.inputs().size(),
                                       std::vector<Pairs>(call.outputs().size()));
  Values values(7);
  for (int draw = 0; draw < example.draws; ++draw) {
    std::vector<Bytes> inputs;
    for (const TensorSpec& spec : call.inputs()) {
      inputs.push_back(values.tensor(spec, example.bound));
    }
    const std::vector<Bytes> before = call.evaluate(inputs).value();
    for (std::size_t in = 0; in < inputs.size(); ++in) {
      const TensorSpec& spec = call.inputs()[in];
      for (std::int64_t i = 0; i < spec.shape.element_count(); ++i) {
        const Bytes kept = inputs[in];
        values.put(inputs[in], i, spec.dtype, example.bound);
        const std::vector<Bytes> after = call.evaluate(inputs).value();
        inputs[in] = kept;
        for (std::size_t out = 0; out < after.size(); ++out) {
          const TensorSpec& result = call.outputs()[out];
          for (std::int64_t o = 0; o < result.shape.element_count(); ++o) {
            if (!std::ranges::equal(element_of(before[out], o, result.dtype),
                                    element_of(after[out], o, result.dtype))) {
              seen[in][out].insert({i, o});
            }
          }
        }
      }
    }
  }
  return seen;
}

Pairs pairs_of(const IndexMap& map, const Shape& input, const Shape& output) {
  Pairs pairs;
  for (std::int64_t i = 0; i < input.element_count(); ++i) {
    for (std::int64_t o = 0; o < output.element_count(); ++o) {
      if (reads(map, input, output, index_of(input, i), index_of(output, o))) {
        pairs.insert({i, o});
      }
    }
  }
  return pairs;
}

/// The difference between the rule and the reference; empty if they agree.
std::string difference(const Example& example, IndexRule rule) {
  const KernelExample& call = example.call;
  const auto seen = observe(example);
  std::string text;
  for (std::size_t in = 0; in < seen.size(); ++in) {
    for (std::size_t out = 0; out < seen[in].size(); ++out) {
      const Pairs& moved = seen[in][out];
      const IndexMap map = index_map(rule,
                                     call.view(),
                                     call.inputs(),
                                     call.outputs(),
                                     static_cast<int>(in),
                                     static_cast<int>(out));
      const Pairs told = pairs_of(map, call.inputs()[in].shape, call.outputs()[out].shape);
      // One state of an optimizer need not depend on another; the rule covers all of them together.
      const bool is_update = op_info(call.kind()).op_class == OpClass::optimizer;
      // A kernel reads the statistics of attention's rows; the reference recomputes them from all
      // queries and keys.
      const bool is_made_again = call.kind() == OpKind::attention_backward &&
                                 (moved.empty() || std::ranges::includes(moved, told));
      if (told != moved && !(is_update && moved.empty()) && !is_made_again) {
        text += std::string(name(call.kind())) + ": input " + std::to_string(in) + ", output " +
                std::to_string(out) + ": " + std::to_string(told.size()) + " pairs told, " +
                std::to_string(moved.size()) + " moved\n";
      }
    }
  }
  return text;
}

TEST(IndexMap, TellsWhatTheReferenceDoes) {
  for (const Example& example : examples()) {
    EXPECT_EQ(difference(example, op_facts(example.call.kind()).index_rule), "");
  }
}

TEST(IndexMap, HasAnExampleOfEveryKernelWithInputs) {
  std::set<OpKind> shown;
  for (const Example& example : examples()) {
    shown.insert(example.call.kind());
  }
  for (const OpInfo& info : op_table()) {
    const bool is_due = info.op_class != OpClass::lifetime && info.op_class != OpClass::creation &&
                        info.op_class != OpClass::view && info.op_class != OpClass::custom;
    // An expression's operands have maps like those of any elementwise kind.
    const bool is_shown = is_due && info.op_class != OpClass::expression;
    EXPECT_EQ(shown.contains(info.kind), is_shown) << info.name;
    const bool has_rule = op_facts(info.kind).index_rule != IndexRule::none;
    EXPECT_EQ(has_rule, is_due || info.op_class == OpClass::view) << info.name;
  }
}

TEST(IndexMap, AWrongRuleIsSeen) {
  const TensorSpec x = f32({3, 3});
  const KernelExample softmax =
      KernelExample(OpKind::softmax, {x}, {x}).with(AxisAttributes{.axis = 1});
  EXPECT_EQ(difference({softmax}, IndexRule::row), "");
  EXPECT_NE(difference({softmax}, IndexRule::elementwise), "");
  EXPECT_NE(difference({softmax}, IndexRule::row_major), "");
  const KernelExample neg(OpKind::neg, {x}, {x});
  EXPECT_NE(difference({neg}, IndexRule::row), "");
  EXPECT_NE(difference({neg}, IndexRule::permuted), "");
  const KernelExample product(OpKind::matmul, {x, x}, {x});
  EXPECT_EQ(difference({product}, IndexRule::matmul), "");
  EXPECT_NE(difference({product}, IndexRule::elementwise), "");
  for (const Example& example : pooling_examples()) {
    if (example.call.kind() == OpKind::avg_pool2d_backward) {
      EXPECT_NE(difference(example, IndexRule::plane_backward), "");
    }
  }
}

// ---- views: rules follow from the layout ----

// The reference has no views, so the test compares their rules with the meaning of each attribute,
// in plain loops.
TEST(IndexMap, OfAViewFollowsItsMeaning) {
  const TensorSpec x = f32({2, 3, 4});
  const KernelExample permute = KernelExample(OpKind::permute, {x}, {f32({4, 2, 3})})
                                    .with(PermuteAttributes{.axes = {2, 0, 1}});
  const KernelExample slice = KernelExample(OpKind::slice, {x}, {f32({2, 2, 2})})
                                  .with(SliceAttributes{.start = {0, 2, 1}, .step = {1, -1, 2}});
  const KernelExample reshape(OpKind::reshape, {x}, {f32({6, 4})});
  const KernelExample expand(OpKind::expand, {f32({3, 1})}, {f32({2, 3, 4})});
  const auto expect = [](const KernelExample& call, const auto& input_place) {
    const IndexMap map = index_map(call.view(), call.inputs(), call.outputs(), 0, 0);
    const Shape& out = call.outputs()[0].shape;
    Pairs want;
    for (std::int64_t o = 0; o < out.element_count(); ++o) {
      want.insert({input_place(index_of(out, o), o), o});
    }
    EXPECT_EQ(pairs_of(map, call.inputs()[0].shape, out), want) << name(call.kind());
  };
  expect(permute, [](const auto& i, std::int64_t) { return (i[1] * 3 + i[2]) * 4 + i[0]; });
  expect(slice,
         [](const auto& i, std::int64_t) { return (i[0] * 3 + 2 - i[1]) * 4 + 1 + 2 * i[2]; });
  expect(reshape, [](const auto&, std::int64_t place) { return place; });
  expect(expand, [](const auto& i, std::int64_t) { return i[1]; });
}

// ---- sizes that are one size ----

struct AxisOf {
  std::size_t operand;  // inputs first, then outputs
  int axis;
};

/// The axes of each class over all results and inputs.
std::vector<std::vector<AxisOf>> size_classes(const KernelExample& call) {
  std::vector<std::vector<AxisOf>> classes(2 * kMaxRank);
  const Shape& out = call.outputs()[0].shape;
  for (int axis = 0; axis < out.rank(); ++axis) {
    classes[static_cast<std::size_t>(axis)].push_back({call.inputs().size(), axis});
  }
  for (std::size_t in = 0; in < call.inputs().size(); ++in) {
    const IndexMap map =
        index_map(call.view(), call.inputs(), call.outputs(), static_cast<int>(in), 0);
    for (std::size_t axis = 0; axis < map.axes.size(); ++axis) {
      if (map.axes[axis].size_class >= 0) {
        classes[static_cast<std::size_t>(map.axes[axis].size_class)].push_back(
            {in, static_cast<int>(axis)});
      }
    }
  }
  return classes;
}

bool is_allowed(const KernelExample& call, const std::vector<AxisOf>& doubled) {
  std::vector<TensorSpec> inputs = call.inputs();
  std::vector<TensorSpec> outputs = call.outputs();
  for (const AxisOf& each : doubled) {
    const bool is_output = each.operand >= inputs.size();
    // All results of these kinds have the first result's sizes, except for the two statistics of a
    // row of attention.
    for (TensorSpec& output : outputs) {
      const bool is_statistics = call.kind() == OpKind::attention && &output != &outputs.front() &&
                                 each.axis == output.shape.rank() - 1;
      if (is_output && each.axis < output.shape.rank() && !is_statistics) {
        output.shape.set(each.axis, 2 * output.shape[each.axis]);
      }
    }
    if (!is_output) {
      Shape& shape = inputs[each.operand].shape;
      shape.set(each.axis, 2 * shape[each.axis]);
    }
  }
  return rules::check_record(call.view(), inputs, outputs).has_value();
}

TEST(IndexMap, AxesOfOneClassHaveOneSizeByTheShapeRules) {
  int classes = 0;
  for (const Example& example : examples()) {
    ASSERT_TRUE(is_allowed(example.call, {})) << name(example.call.kind());
    for (const std::vector<AxisOf>& axes : size_classes(example.call)) {
      if (axes.size() < 2 || !example.keeps_sizes) {
        continue;
      }
      ++classes;
      EXPECT_TRUE(is_allowed(example.call, axes)) << name(example.call.kind());
      for (const AxisOf& alone : axes) {
        EXPECT_FALSE(is_allowed(example.call, {alone}))
            << name(example.call.kind()) << " operand " << alone.operand << " axis " << alone.axis;
      }
    }
  }
  EXPECT_GT(classes, 100);
}

}  // namespace
}  // namespace hearth
