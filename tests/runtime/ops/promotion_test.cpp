// Operands of several element types: the whole table of pairs against PyTorch's, numbers and rank
// 0. Gradients have the type of their operand.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <map>
#include <string>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown_text;
using PromotionTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

constexpr std::array kTypes{DType::boolean,
                            DType::i8,
                            DType::u8,
                            DType::i32,
                            DType::i64,
                            DType::f16,
                            DType::bf16,
                            DType::f32,
                            DType::f64};
constexpr std::size_t kCount = kTypes.size();

// torch.promote_types, rows and columns as above, with i32 in place of i16.
constexpr DType kBool = DType::boolean;
constexpr DType kI8 = DType::i8;
constexpr DType kU8 = DType::u8;
constexpr DType kI32 = DType::i32;
constexpr DType kI64 = DType::i64;
constexpr DType kF16 = DType::f16;
constexpr DType kBf16 = DType::bf16;
constexpr DType kF32 = DType::f32;
constexpr DType kF64 = DType::f64;
constexpr std::array<std::array<DType, kCount>, kCount> kTable{{
    {kBool, kI8, kU8, kI32, kI64, kF16, kBf16, kF32, kF64},
    {kI8, kI8, kI32, kI32, kI64, kF16, kBf16, kF32, kF64},
    {kU8, kI32, kU8, kI32, kI64, kF16, kBf16, kF32, kF64},
    {kI32, kI32, kI32, kI32, kI64, kF16, kBf16, kF32, kF64},
    {kI64, kI64, kI64, kI64, kI64, kF16, kBf16, kF32, kF64},
    {kF16, kF16, kF16, kF16, kF16, kF16, kF32, kF32, kF64},
    {kBf16, kBf16, kBf16, kBf16, kBf16, kF32, kBf16, kF32, kF64},
    {kF32, kF32, kF32, kF32, kF32, kF32, kF32, kF32, kF64},
    {kF64, kF64, kF64, kF64, kF64, kF64, kF64, kF64, kF64},
}};

using Binary = Tensor (*)(Arg, Arg);
// Each with its result for 1 and 1.
const std::map<std::string, std::pair<Binary, double>> kArithmetic{{"add", {add, 2}},
                                                                   {"sub", {sub, 0}},
                                                                   {"mul", {mul, 1}},
                                                                   {"div", {div, 1}},
                                                                   {"pow", {pow, 1}},
                                                                   {"minimum", {minimum, 1}},
                                                                   {"maximum", {maximum, 1}}};
const std::map<std::string, std::pair<Binary, double>> kComparisons{
    {"equal", {equal, 1}},
    {"not_equal", {not_equal, 0}},
    {"less", {less, 0}},
    {"less_equal", {less_equal, 1}},
    {"greater", {greater, 0}},
    {"greater_equal", {greater_equal, 1}}};

TEST_F(PromotionTest, TypesMeetAsInPyTorch) {
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t j = 0; j < kCount; ++j) {
      EXPECT_EQ(promote_types(kTypes[i], kTypes[j]), kTable[i][j])
          << name(kTypes[i]) << ", " << name(kTypes[j]);
    }
  }
}

TEST_F(PromotionTest, EveryPairOfTypesMeetsInEveryOpOfTwo) {
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t j = 0; j < kCount; ++j) {
      const Tensor a = ones(device(), {2, 1}, kTypes[i]);
      const Tensor b = ones(device(), {3}, kTypes[j]);
      const DType common = kTable[i][j];
      const auto check =
          [&](const std::string& op, const Tensor& result, DType dtype, double value) {
            EXPECT_EQ(result.dtype(), dtype)
                << op << " of " << name(kTypes[i]) << ", " << name(kTypes[j]);
            EXPECT_EQ(result.shape(), (Shape{2, 3}));
            EXPECT_EQ(reals(result), std::vector<double>(6, value)) << op;
          };
      for (const auto& [op, function] : kArithmetic) {
        if (common != kBool || op == "minimum" || op == "maximum") {
          check(op, function.first(a, b), common, function.second);
        }
      }
      for (const auto& [op, function] : kComparisons) {
        if (common != kBool || op == "equal" || op == "not_equal") {
          check(op, function.first(a, b), kBool, function.second);
        }
      }
      if (common != kBool) {
        check("remainder", remainder(a, b), common, 0);
        check("floor_divide", floor_divide(a, b), common, 1);
      }
      if (kTypes[i] != kBool && kTypes[j] != kBool) {
        check("clamp", clamp(expand(a, {2, 3}), b), common, 1);
      }
      check("where", where(equal(a, b), a, b), common, 1);
    }
  }
}

TEST_F(PromotionTest, EveryPairOfTypesMeetsInConcatAndStack) {
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t j = 0; j < kCount; ++j) {
      const Tensor a = ones(device(), {2}, kTypes[i]);
      const Tensor b = zeros(device(), {2}, kTypes[j]);
      EXPECT_EQ(concat({a, b}).dtype(), kTable[i][j]);
      EXPECT_THAT(reals(concat({a, b})), ElementsAre(1, 1, 0, 0));
      EXPECT_EQ(stack({a, b}).dtype(), kTable[i][j]);
      EXPECT_THAT(reals(stack({a, b}, 1)), ElementsAre(1, 0, 1, 0));
    }
  }
}

// A number, or a tensor of rank 0 beside one with axes, changes the kind of the type but does not
// widen it: torch.result_type.
TEST_F(PromotionTest, NumbersAndRankZeroOnlyChangeTheKind) {
  for (const DType type : kTypes) {
    const Tensor x = ones(device(), {2}, type);
    const bool is_bool = type == kBool;
    const DType with_integer = is_bool ? kI64 : type;
    const DType with_float = is_float(type) ? type : kF32;
    EXPECT_EQ((x + 1).dtype(), with_integer) << name(type);
    EXPECT_EQ((3 * x).dtype(), with_integer) << name(type);
    EXPECT_EQ((x + 1.5).dtype(), with_float) << name(type);
    EXPECT_EQ((1.5F - x).dtype(), with_float) << name(type);
    EXPECT_THAT(reals(x + 1.5), ElementsAre(2.5, 2.5)) << name(type);
    EXPECT_EQ(where(equal(x, 1), x, 0.5).dtype(), with_float) << name(type);
    EXPECT_EQ(where(equal(x, 1), 7, x).dtype(), with_integer) << name(type);
    EXPECT_THAT(reals(less(x, 1.5)), ElementsAre(1, 1)) << name(type);
    for (const DType other : kTypes) {
      const Tensor single = ones(device(), {}, other);
      const bool is_widened =
          (is_float(other) && !is_float(type)) || (is_integer(other) && is_bool);
      EXPECT_EQ(maximum(x, single).dtype(), is_widened ? other : type)
          << name(type) << ", rank 0 " << name(other);
      EXPECT_EQ(minimum(single, single).dtype(), other);
    }
  }
  EXPECT_EQ((ones(device(), {}, kF16) + ones(device(), {}, kF32)).dtype(), kF32) << "both rank 0";
}

TEST_F(PromotionTest, ZeroAndOneBesideBoolsStayBools) {
  const Tensor mask = booleans({1, 0}, {2});
  EXPECT_THAT(integers(mask == 1), ElementsAre(1, 0));
  EXPECT_EQ(where(mask, mask, 0).dtype(), kBool);
  EXPECT_EQ(maximum(mask, 1).dtype(), kBool);
  EXPECT_EQ((mask + 1).dtype(), kI64);
  EXPECT_EQ(where(mask, mask, 2).dtype(), kI64);
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)(mask + mask); }),
            "add: does not take bool, only f32, f64, f16, bf16, i32, i64, u8, i8: lhs bool[2], rhs "
            "bool[2]");
}

TEST_F(PromotionTest, ValuesConvertBeforeTheOp) {
  const Tensor large = i64({16777217, -3}, {2});
  EXPECT_THAT(reals(large + f32({0, 0.5}, {2})), ElementsAre(16777216, -2.5)) << "f32 rounds";
  EXPECT_THAT(reals(large + f64({0, 0.5}, {2})), ElementsAre(16777217, -2.5));
  EXPECT_THAT(integers(large == f32({16777216, -3}, {2})), ElementsAre(1, 1)) << "as in PyTorch";
  const Tensor bytes = cast(i32({250, 3}, {2}), kU8);
  EXPECT_THAT(integers(bytes + i32({10, -5}, {2})), ElementsAre(260, -2));
  EXPECT_THAT(integers(bytes + cast(i32({10, 1}, {2}), kU8)), ElementsAre(4, 4)) << "wraps";
}

TEST_F(PromotionTest, GradientsComeBackInEachOperandsType) {
  const Tensor a = cast(f32({1, 2}, {2}), kF16);
  const Tensor b = cast(f32({3, 5}, {2}), kBf16);
  const Tensor c = f64({7, 9}, {2});
  const Tensor n = i32({2, 3}, {2});
  const std::vector<Tensor> gradients =
      grad([&](const Tensors& in) { return sum(in[0] * in[1] * in[2] * n); }, {a, b, c});
  EXPECT_EQ(gradients[0].dtype(), kF16);
  EXPECT_EQ(gradients[1].dtype(), kBf16);
  EXPECT_EQ(gradients[2].dtype(), kF64);
  EXPECT_THAT(reals(gradients[0]), ElementsAre(42, 135));
  EXPECT_THAT(reals(gradients[1]), ElementsAre(14, 54));
  EXPECT_THAT(reals(gradients[2]), ElementsAre(6, 30));
  const std::vector<Tensor> joined = grad(
      [&](const Tensors& in) {
        return sum(concat({in[0], in[1]}) * 2);
      },
      {a, c});
  EXPECT_EQ(joined[0].dtype(), kF16);
  EXPECT_THAT(reals(joined[1]), ElementsAre(2, 2));
  const std::vector<Tensor> chosen =
      grad([&](const Tensors& in) { return sum(where(n == 2, in[0], in[1])); }, {a, c});
  EXPECT_THAT(reals(chosen[0]), ElementsAre(1, 0));
  EXPECT_THAT(reals(chosen[1]), ElementsAre(0, 1));
}

TEST_F(PromotionTest, ANumberThatTheTypeDoesNotHoldIsRefused) {
  const Tensor bytes = cast(i32({1}, {1}), kU8);
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)(bytes + 300); }),
            "add: the number 300 does not fit u8[1]: cast the tensor first");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)where(bytes == 1, bytes, -1); }),
            "where: the number -1 does not fit u8[1]: cast the tensor first");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)remainder(bytes, 300); }),
            "remainder: the number 300 does not fit u8[1]: cast the tensor first");
}

TEST_F(PromotionTest, ShapesAreCheckedBeforeAnythingIsCast) {
  const Tensor a = i32({1, 2}, {2});
  const Tensor b = f32({1, 2, 3}, {3});
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)(a + b); }),
            "add: shapes do not broadcast: lhs i32[2], rhs f32[3]");
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)clamp(a, b); }),
            "clamp: shapes do not broadcast: lhs i32[2], rhs f32[3]");
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)concat({unsqueeze(a, 0), b});
              }),
              HasSubstr("concat: "));
}

// As in PyTorch: a product of two types is usually a mistake, and a conversion would be expensive.
TEST_F(PromotionTest, ContractionsRefuseTwoTypes) {
  const Tensor a = f32({1, 2}, {1, 2});
  const Tensor b = f64({1, 2}, {2, 1});
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)matmul(a, b); }),
            "matmul: element types differ: lhs f32[1, 2], rhs f64[2, 1]");
  EXPECT_THAT(thrown_text<DtypeError>([&] {
                (void)einsum("ij,jk->ik", {a, b});
              }),
              HasSubstr("einsum: "));
  EXPECT_THAT(thrown_text<DtypeError>([&] {
                (void)einsum("i,j->ij", {f32({1}, {1}), f64({1}, {1})});
              }),
              HasSubstr("einsum: "));
  EXPECT_THAT(thrown_text<DtypeError>([&] {
                (void)conv2d(ones(device(), {1, 1, 2, 2}), ones(device(), {1, 1, 1, 1}, kF16));
              }),
              HasSubstr("conv2d: element types differ"));
}

TEST_F(PromotionTest, AnAssignmentKeepsTheTypeOfItsLeftSide) {
  Tensor a = f32({1, 2}, {2});
  a += f64({0.5, 0.25}, {2});
  EXPECT_EQ(a.dtype(), kF32);
  EXPECT_THAT(reals(a), ElementsAre(1.5, 2.25));
  a *= i64({2, 2}, {2});
  EXPECT_THAT(reals(a), ElementsAre(3, 4.5));
  Tensor n = i32({1, 2}, {2});
  n += i64({5, 6}, {2});
  EXPECT_EQ(n.dtype(), kI32);
  EXPECT_EQ(thrown_text<DtypeError>([&] { n += 0.5; }),
            "add: an assignment keeps the kind of type of its left side: i32[2] would become f32 "
            "with 0.5");
  EXPECT_EQ(thrown_text<DtypeError>([&] { n *= a; }),
            "mul: an assignment keeps the kind of type of its left side: i32[2] would become f32 "
            "with f32[2]");
  EXPECT_THAT(integers(n), ElementsAre(6, 8));
}

}  // namespace
}  // namespace hearth
