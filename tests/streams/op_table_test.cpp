#include <hearth/streams/op_table.hpp>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include <hearth/streams/op_attributes.hpp>

#include <gtest/gtest.h>

namespace hearth {
namespace {

// A record with attributes and the blob that it refers to.
class TestOp {
 public:
  explicit TestOp(OpKind kind) { record_.kind = kind; }
  template <class Attributes>
  TestOp(OpKind kind, const Attributes& attributes) : TestOp(kind) {
    const auto bytes = std::as_bytes(std::span(&attributes, 1));
    if constexpr (fits_immediate<Attributes>) {
      std::memcpy(record_.immediate, bytes.data(), bytes.size());
    } else {
      blob_.assign(bytes.begin(), bytes.end());
      record_.blob_size_bytes = static_cast<std::uint32_t>(blob_.size());
    }
  }
  [[nodiscard]] OpView view() const noexcept { return {record_, blob_.data()}; }

 private:
  OpRecord record_;
  std::vector<std::byte> blob_;
};

using Specs = std::vector<TensorSpec>;

TensorSpec f32(std::initializer_list<std::int64_t> dims) {
  return {DType::f32, Shape(dims)};
}

double flops_of(const TestOp& op, const Specs& inputs, const Specs& outputs) {
  return op_cost(op.view(), inputs, outputs).flops;
}

DtypeMask mask(std::initializer_list<DType> dtypes) {
  DtypeMask bits = 0;
  for (const DType dtype : dtypes) {
    bits = static_cast<DtypeMask>(bits | dtype_bit(dtype));
  }
  return bits;
}

TEST(OpTable, HasARowForEachKindInItsOrder) {
  ASSERT_EQ(op_table().size(), static_cast<std::size_t>(kOpKindCount));
  for (std::size_t i = 0; i < op_table().size(); ++i) {
    EXPECT_EQ(op_table()[i].kind, static_cast<OpKind>(i)) << op_table()[i].name;
    EXPECT_EQ(&op_info(static_cast<OpKind>(i)), &op_table()[i]);
  }
}

TEST(OpTable, NamesEachKindOnceAndDescribesIt) {
  std::set<std::string_view> names;
  for (const OpInfo& info : op_table()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.doc.back(), '.') << info.name;
    EXPECT_LE(info.min_inputs, info.max_inputs) << info.name;
    EXPECT_NE(info.dtypes, 0) << info.name;
  }
}

TEST(OpTable, GivesAKernelAtLeastOneOutput) {
  for (const OpInfo& info : op_table()) {
    if (info.op_class != OpClass::lifetime) {
      EXPECT_GE(info.outputs, 1) << info.name;
    }
  }
}

TEST(OpTable, TakesFloatsOnlyWhereTheRuleSaysSo) {
  const DtypeMask floats = mask({DType::f32, DType::f64, DType::f16, DType::bf16});
  for (const OpInfo& info : op_table()) {
    if (info.dtype_rule == DtypeRule::same_float) {
      EXPECT_EQ(info.dtypes, floats) << info.name;
    }
    const bool is_of_bits = info.kind >= OpKind::bitwise_and && info.kind <= OpKind::shift_right;
    EXPECT_EQ(info.dtypes & floats, is_of_bits ? 0 : floats) << info.name;
  }
}

TEST(OpTable, SaysWhichKindsTakeBool) {
  std::set<std::string_view> names;
  for (const OpInfo& info : op_table()) {
    if (info.op_class != OpClass::lifetime && accepts(info.kind, DType::boolean)) {
      names.insert(info.name);
    }
  }
  EXPECT_EQ(names,
            (std::set<std::string_view>{
                "full",       "cast",    "minimum",     "maximum",      "equal",      "not_equal",
                "where",      "reshape", "permute",     "slice",        "expand",     "copy",
                "concat",     "sum",     "prod",        "max",          "min",        "cumsum",
                "expression", "custom",  "gather",      "index_select", "scatter",    "cumprod",
                "cummax",     "cummin",  "bitwise_and", "bitwise_or",   "bitwise_xor"}));
}

TEST(OpTable, SaysWhichArithmeticTakesIntegers) {
  for (const OpKind kind : {OpKind::add,
                            OpKind::sub,
                            OpKind::mul,
                            OpKind::div,
                            OpKind::pow,
                            OpKind::less,
                            OpKind::neg,
                            OpKind::abs,
                            OpKind::square,
                            OpKind::argmax,
                            OpKind::argmin}) {
    EXPECT_TRUE(accepts(kind, DType::u8)) << name(kind);
    EXPECT_FALSE(accepts(kind, DType::boolean)) << name(kind);
  }
  for (const OpKind kind : {OpKind::exp, OpKind::relu, OpKind::reduce_mean, OpKind::matmul}) {
    EXPECT_FALSE(accepts(kind, DType::i32)) << name(kind);
    EXPECT_EQ(accepts(kind, DType::i8), kind == OpKind::matmul) << name(kind);
  }
}

TEST(OpTable, KnowsTheSizeOfEachKindsAttributes) {
  EXPECT_EQ(op_info(OpKind::add).attribute_size_bytes, sizeof(ScalarAttributes));
  EXPECT_EQ(op_info(OpKind::conv2d).attribute_size_bytes, sizeof(ConvAttributes));
  EXPECT_EQ(op_info(OpKind::slice).attribute_size_bytes, sizeof(SliceAttributes));
  EXPECT_EQ(op_info(OpKind::relu).attribute_size_bytes, 0);
}

// Those two give way to plain ops where a gradient of their gradient is wanted.
TEST(OpTable, DifferentiatesEveryBackwardKindButTwo) {
  for (const OpInfo& info : op_table()) {
    if (info.name.find("backward") != std::string_view::npos) {
      EXPECT_EQ(
          info.differentiable,
          info.kind != OpKind::attention_backward && info.kind != OpKind::cross_entropy_backward)
          << info.name;
    }
    if (info.op_class == OpClass::lifetime) {
      EXPECT_FALSE(info.differentiable) << info.name;
    }
  }
}

TEST(DescribeMask, ListsTheNames) {
  EXPECT_EQ(describe(op_info(OpKind::exp).dtypes), "f32, f64, f16, bf16");
  EXPECT_EQ(describe(mask({DType::i64, DType::boolean})), "i64, bool");
}

TEST(OpCost, CountsEveryByteReadAndWritten) {
  const TestOp add(OpKind::add);
  const OpCost cost = op_cost(add.view(), Specs{f32({4, 8}), f32({8})}, Specs{f32({4, 8})});
  EXPECT_EQ(cost.flops, 32);
  EXPECT_EQ(cost.bytes, 4 * (32 + 8 + 32));
}

TEST(OpCost, OfAPickCountsWhatIsPicked) {
  const TestOp op(OpKind::index_select, AxisAttributes{});
  const TensorSpec index{DType::i64, {5}};
  const OpCost cost = op_cost(op.view(), Specs{f32({1000, 8}), index}, Specs{f32({5, 8})});
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.bytes, 5 * 8 + 2 * 4 * 5 * 8);
  const TestOp adjoint(OpKind::index_add, AxisAttributes{});
  EXPECT_EQ(flops_of(adjoint, {f32({5, 8}), index}, {f32({1000, 8})}), 40);
}

TEST(OpCost, OfAViewIsNothing) {
  const TestOp reshape(OpKind::reshape);
  const OpCost cost = op_cost(reshape.view(), Specs{f32({4, 8})}, Specs{f32({32})});
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.bytes, 0);
}

TEST(OpCost, OfAReductionFollowsItsInput) {
  EXPECT_EQ(flops_of(TestOp(OpKind::reduce_sum), {f32({4, 8})}, {f32({4})}), 32);
  EXPECT_EQ(flops_of(TestOp(OpKind::argmin), {f32({4, 8})}, {f32({4})}), 32);
}

TEST(OpCost, OfAScanIsOneFlopAnElement) {
  EXPECT_EQ(flops_of(TestOp(OpKind::cumsum), {f32({4, 8})}, {f32({4, 8})}), 32);
  EXPECT_EQ(flops_of(TestOp(OpKind::cummax), {f32({4, 8})}, {f32({4, 8})}), 32);
}

TEST(OpCost, OfAScatterIsThatOfItsUpdates) {
  const std::vector<TensorSpec> inputs{f32({4, 8}), {DType::i64, {3, 8}}, f32({3, 8})};
  const auto flops = [&](ScatterMode mode) {
    return flops_of(
        {OpKind::scatter, ScatterAttributes{.axis = 0, .mode = mode}}, inputs, {f32({4, 8})});
  };
  EXPECT_EQ(flops(ScatterMode::set), 0);
  EXPECT_EQ(flops(ScatterMode::max), 24);
}

TEST(OpCost, OfAMatmulIsTwoFlopsAProduct) {
  const TestOp matmul(OpKind::matmul);
  EXPECT_EQ(flops_of(matmul, {f32({5, 4, 8}), f32({8, 3})}, {f32({5, 4, 3})}), 2 * 5 * 4 * 3 * 8);
  EXPECT_EQ(flops_of(matmul, {f32({4, 8}), f32({8, 3}), f32({3})}, {f32({4, 3})}),
            2 * 4 * 3 * 8 + 12);
}

TEST(OpCost, OfAConvolutionIsThatOfItsGradients) {
  const ConvAttributes attributes{.groups = 2};
  const TensorSpec x = f32({2, 6, 10, 10});
  const TensorSpec w = f32({8, 3, 3, 3});
  const TensorSpec y = f32({2, 8, 8, 8});
  constexpr double kFlops = 2.0 * (2 * 8 * 8 * 8) * (3 * 3 * 3);
  EXPECT_EQ(flops_of({OpKind::conv2d, attributes}, {x, w}, {y}), kFlops);
  EXPECT_EQ(flops_of({OpKind::conv2d, attributes}, {x, w, f32({8})}, {y}), kFlops + 2 * 8 * 8 * 8);
  EXPECT_EQ(flops_of({OpKind::conv2d_backward_input, attributes}, {y, w}, {x}), kFlops);
  EXPECT_EQ(flops_of({OpKind::conv2d_backward_weight, attributes}, {x, y}, {w}), kFlops);
}

TEST(OpCost, OfAPoolIsItsWindows) {
  const PoolAttributes attributes{.kernel = {3, 2}, .stride = {1, 1}};
  EXPECT_EQ(flops_of({OpKind::max_pool2d, attributes}, {f32({1, 2, 6, 6})}, {f32({1, 2, 4, 5})}),
            40 * 6);
  EXPECT_EQ(
      flops_of({OpKind::avg_pool2d_backward, attributes}, {f32({1, 2, 4, 5})}, {f32({1, 2, 6, 6})}),
      40 * 6);
}

TEST(OpCost, OfAnOptimizerGrowsWithWhatItDoes) {
  const TensorSpec p = f32({10});
  EXPECT_EQ(flops_of({OpKind::sgd_step, SgdAttributes{}}, {p, p}, {p}), 20);
  EXPECT_EQ(
      flops_of(
          {OpKind::sgd_step, SgdAttributes{.weight_decay = 0.1, .nesterov = 1}}, {p, p, p}, {p, p}),
      90);
  EXPECT_EQ(flops_of({OpKind::adam_step, AdamAttributes{}}, {p, p, p, p}, {p, p, p}), 140);
  EXPECT_EQ(flops_of({OpKind::adam_step, AdamAttributes{.weight_decay = 0.1, .decoupled = 1}},
                     {p, p, p, p},
                     {p, p, p}),
            150);
}

}  // namespace
}  // namespace hearth
