#include <hearth/streams/kernel/kernel_ir.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/streams/kernel/kernel_interpreter.hpp>
#include <hearth/streams/kernel/kernel_verifier.hpp>

#include "tests/streams/kernel/example_kernels.hpp"
#include "tests/streams/kernel/golden.hpp"

namespace hearth {
namespace {

using testing::axis;

template <class T>
KernelTensor tensor(std::vector<T>& values, const Shape& shape) {
  return {reinterpret_cast<std::byte*>(values.data()), detail::Layout(shape)};
}

TEST(KernelIR, PrintsTheThreeExamples) {
  testing::expect_golden("scale_bias_relu.kernel", to_string(testing::scale_bias_relu()));
  testing::expect_golden("root_mean_square.kernel", to_string(testing::root_mean_square()));
  testing::expect_golden("columns_as_planes.kernel", to_string(testing::columns_as_planes()));
}

TEST(KernelIR, OfTheExamplesIsWellFormed) {
  for (const KernelIR& kernel :
       {testing::scale_bias_relu(), testing::root_mean_square(), testing::columns_as_planes()}) {
    const Status status = verify(kernel);
    EXPECT_TRUE(status.has_value()) << status.error().text;
  }
}

// Hashes are stored on disk, so they must be equal on all machines and never change.
TEST(KernelIR, HasAHashThatStays) {
  EXPECT_EQ(hash(testing::root_mean_square()), hash(testing::root_mean_square()));
  EXPECT_NE(hash(testing::root_mean_square()), hash(testing::scale_bias_relu()));
  KernelIR small;
  small.body = {{.primitive = Primitive::constant, .type = DType::i64, .bits = 7}};
  small.outputs = {{.dtype = DType::i64, .value = 0}};
  EXPECT_EQ(to_string(small),
            "kernel 1\nspace\nbody\n  %0 i64 = constant 7\noutput 0 i64 [] = %0\n");
  EXPECT_EQ(hash(small), 1515063927789997075U);
}

// Every difference shows in the text, and so in the hash.
TEST(KernelIR, ShowsEveryDifferenceInItsText) {
  const KernelIR base = testing::root_mean_square();
  std::vector<KernelIR> changed(14, base);
  changed[0].version = 2;
  changed[1].extents = {0, 0};
  changed[2].inputs[0].dtype = DType::f64;
  changed[3].inputs[0].map[1].start = 1;
  changed[4].inputs[0].map[1].terms[0].step = 2;
  changed[5].inputs[0].map[1].terms[0].divisor = 2;
  changed[6].inputs[0].map[1].terms[0].modulus = 2;
  changed[7].parameters[0] = DType::f64;
  changed[8].body[1].operands[1] = 1;
  changed[9].folded = 1;
  changed[10].body[2].number = static_cast<std::int32_t>(FoldOp::max);
  changed[11].body[2].type = DType::f64;
  changed[12].outputs[0].value = 0;
  changed[13].schedule.vector = 8;
  std::set<std::string> texts{to_string(base)};
  for (const KernelIR& each : changed) {
    EXPECT_TRUE(texts.insert(to_string(each)).second) << to_string(each);
    EXPECT_NE(each, base);
  }
}

TEST(KernelIR, TellsConstantsApartByTheirBits) {
  std::set<std::string> texts;
  for (const double value : {0.0,
                             -0.0,
                             1.0,
                             1.0000000000000002,
                             std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(),
                             -std::numeric_limits<double>::quiet_NaN()}) {
    KernelBuilder b({});
    b.output(b.constant(value, DType::f64));
    EXPECT_TRUE(texts.insert(to_string(b.take())).second) << value;
  }
}

// ---- the builder ----

TEST(KernelBuilder, MakesEqualKernelsOfEqualExpressions) {
  const auto build = [](bool swapped) {
    KernelBuilder b({0});
    const KernelValue x = b.input(DType::f32, {axis(0)});
    const KernelValue y = b.input(DType::f32, {axis(0)});
    const KernelValue unused = exp(x);
    if (swapped) {
      const KernelValue right = y * y + 1.0;
      const KernelValue left = x * x;
      b.output(left + right);
    } else {
      b.output(x * x + (y * y + 1.0));
    }
    static_cast<void>(unused);
    return b.take();
  };
  EXPECT_EQ(to_string(build(true)), to_string(build(false)));
  EXPECT_TRUE(verify(build(true)).has_value());
}

TEST(KernelBuilder, UsesAValueAgain) {
  KernelBuilder b({0});
  const KernelValue x = b.input(DType::f32, {axis(0)});
  b.output(exp(x) + exp(x));
  EXPECT_EQ(b.take().body.size(), 3U);
}

// ---- the interpreter ----

TEST(KernelInterpreter, RunsTheFirstExampleOnStridedOperands) {
  // x is stored column by column; the outputs are f16.
  std::vector<f16> x;
  for (const float value : {1.0F, -4.0F, 2.0F, 5.0F, 3.0F, 6.0F}) {
    x.emplace_back(value);
  }
  std::vector<f16> bias{f16(0.5F), f16(1.0F), f16(-100.0F)};
  std::vector<f16> y(6);
  const KernelTensor by_column{reinterpret_cast<std::byte*>(x.data()),
                               detail::Layout({2, 3}, {1, 2})};
  const std::array inputs{by_column, tensor(bias, {3})};
  const std::array outputs{tensor(y, {2, 3})};
  const std::array extents{std::int64_t{2}, std::int64_t{3}};
  const std::array parameters{ScalarAttributes{.real = 2}};
  interpret(testing::scale_bias_relu(), {extents, inputs, outputs, parameters}).value();
  std::vector<float> values;
  values.reserve(y.size());
  for (const f16 value : y) {
    values.push_back(static_cast<float>(value));
  }
  EXPECT_EQ(values, (std::vector<float>{2.5F, 5, 0, 0, 11, 0}));
}

TEST(KernelInterpreter, FoldsTheRowsOfTheSecondExample) {
  std::vector<float> x{3, 3, 0, 0, 4, -4};
  std::vector<float> y(6);
  std::vector<float> roots(3);
  const std::array inputs{tensor(x, {3, 2})};
  const std::array outputs{tensor(y, {3, 2}), tensor(roots, {3})};
  const std::array extents{std::int64_t{3}, std::int64_t{2}};
  const std::array parameters{ScalarAttributes{.real = 7}};
  interpret(testing::root_mean_square(), {extents, inputs, outputs, parameters}).value();
  EXPECT_EQ(roots, (std::vector<float>{4, std::sqrt(7.0F), std::sqrt(23.0F)}));
  EXPECT_EQ(y[0], 0.75F);
  EXPECT_EQ(y[5], -4 / std::sqrt(23.0F));
}

// A row without elements: the initial value of each fold.
TEST(KernelInterpreter, FoldsRowsWithoutElements) {
  std::vector<float> x(1);
  const std::array wanted{0.0F, -INFINITY, INFINITY, NAN, 1.0F};
  for (int op = 0; op < kFoldOpCount; ++op) {
    KernelBuilder b({0, 1}, 0b10);
    b.output(
        b.fold(static_cast<FoldOp>(op), b.input(DType::f32, {testing::axis(0), testing::axis(1)})));
    std::vector<float> y(2, 9);
    const std::array inputs{tensor(x, {2, 0})};
    const std::array outputs{tensor(y, {2})};
    const std::array extents{std::int64_t{2}, std::int64_t{0}};
    interpret(b.take(), {extents, inputs, outputs, {}}).value();
    const float expected = wanted[static_cast<std::size_t>(op)];
    EXPECT_TRUE(y[1] == expected || (std::isnan(y[1]) && std::isnan(expected))) << op;
  }
}

// A row function keeps its axes, here the first two of three.
TEST(KernelInterpreter, MakesARowOfARow) {
  KernelBuilder b({0, 1, 2}, 0b011);
  const KernelValue x = b.input(DType::f64, {testing::axis(0), testing::axis(1), testing::axis(2)});
  b.output(b.apply(Primitive::softmax, DType::f64, std::array{x}));
  b.output(b.apply(Primitive::log_softmax_backward, DType::f64, std::array{x, x}));
  std::vector<double> in{1, 0, 1, 0, 1, 0, 1, std::log(3.0)};
  std::vector<double> soft(8);
  std::vector<double> grad(8);
  const std::array inputs{tensor(in, {2, 2, 2})};
  const std::array outputs{tensor(soft, {2, 2, 2}), tensor(grad, {2, 2, 2})};
  const std::array extents{std::int64_t{2}, std::int64_t{2}, std::int64_t{2}};
  interpret(b.take(), {extents, inputs, outputs, {}}).value();
  EXPECT_EQ(soft[0], 0.25);
  EXPECT_NEAR(soft[7], 0.5, 1e-15);
  EXPECT_NEAR(grad[0], 1 - std::exp(1.0) * 4, 1e-12);
}

TEST(KernelInterpreter, ReadsTheViewsOfTheThirdExample) {
  std::vector<std::int32_t> x{0, 1, 2, 3, 4, 5};
  std::vector<std::int32_t> y{10, 20, 30, 40, 50, 60};
  std::vector<std::int32_t> z(3);
  const std::array inputs{tensor(x, {1, 6}), tensor(y, {1, 2, 3})};
  const std::array outputs{tensor(z, {1, 3})};
  const std::array extents{std::int64_t{1}, std::int64_t{3}};
  interpret(testing::columns_as_planes(), {extents, inputs, outputs, {}}).value();
  EXPECT_EQ(z, (std::vector<std::int32_t>{5 + 10, 3 + 40, 1 + 20}));
}

TEST(KernelInterpreter, RefusesArgumentsThatDoNotFit) {
  std::vector<float> x(6);
  std::vector<float> y(6);
  std::vector<float> roots(3);
  const std::array inputs{tensor(x, {3, 2})};
  const std::array outputs{tensor(y, {3, 2}), tensor(roots, {3})};
  const std::array parameters{ScalarAttributes{.real = 1}};
  const auto text = [&](const KernelArguments& arguments) {
    const Status status = interpret(testing::root_mean_square(), arguments);
    return status.has_value() ? "no error" : status.error().text;
  };
  const std::array extents{std::int64_t{3}, std::int64_t{2}};
  const std::array wide{std::int64_t{3}, std::int64_t{3}};
  const std::array tall{std::int64_t{2}, std::int64_t{2}};
  const std::array negative{std::int64_t{3}, std::int64_t{-1}};
  const std::array vectors{tensor(x, {6})};
  EXPECT_EQ(text({extents, inputs, outputs, parameters}), "no error");
  EXPECT_EQ(text({wide, inputs, outputs, parameters}),
            "kernel: input 0 is read from 0 to 2 along axis 1 of [3, 2]");
  EXPECT_EQ(text({tall, inputs, outputs, parameters}),
            "kernel: output 0 is [3, 2], the kernel writes [2, 2]");
  EXPECT_EQ(text({negative, inputs, outputs, parameters}), "kernel: an extent of -1");
  EXPECT_EQ(text({extents, vectors, outputs, parameters}), "kernel: input 0 has 1 axes, its map 2");
  EXPECT_EQ(text({extents, inputs, outputs, {}}), "kernel: 1 parameters, 0 given");
}

TEST(KernelInterpreter, LeavesOutputsAloneWhenAnElementHasNoValue) {
  KernelBuilder b({0});
  const KernelValue dividend = b.input(DType::i32, {axis(0)});
  const KernelValue divisor = b.input(DType::i32, {axis(0)});
  b.output(dividend / divisor);
  const KernelIR kernel = b.take();
  std::vector<std::int32_t> x{7, 8, 9};
  std::vector<std::int32_t> y{2, 0, 1};
  const std::array inputs{tensor(x, {3}), tensor(y, {3})};
  const std::array outputs{tensor(x, {3})};
  const std::array extents{std::int64_t{3}};
  const Status status = interpret(kernel, {extents, inputs, outputs, {}});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kernel_failed);
  EXPECT_EQ(status.error().text, "kernel: node %2 div: division by zero at element 1: 8 and 0");
  EXPECT_EQ(x, (std::vector<std::int32_t>{7, 8, 9}));
}

// ---- numerics.md beyond the conformance cases ----

template <class From, class To>
To converted(From from, DType to) {
  KernelBuilder b({});
  b.output(b.convert(b.input(dtype_of<From>, {}), to));
  std::vector<From> x{from};
  std::vector<To> y(1);
  const std::array inputs{tensor(x, {})};
  const std::array outputs{tensor(y, {})};
  interpret(b.take(), {{}, inputs, outputs, {}}).value();
  return y[0];
}

TEST(KernelInterpreter, KeepsDenormals) {
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  KernelBuilder b({0});
  const KernelValue x = b.input(DType::f32, {axis(0)});
  b.output((x + x) * 0.5);
  std::vector<float> values{kSmallest, 3 * kSmallest, -kSmallest};
  std::vector<float> results(3);
  const std::array inputs{tensor(values, {3})};
  const std::array outputs{tensor(results, {3})};
  const std::array extents{std::int64_t{3}};
  interpret(b.take(), {extents, inputs, outputs, {}}).value();
  EXPECT_EQ(results, values);
  EXPECT_EQ((converted<double, float>(0x1p-149, DType::f32)), kSmallest);
}

TEST(KernelInterpreter, ConvertsWithOneRounding) {
  // Slightly above the middle of two f16 values: a detour through f32 would round it to the middle.
  EXPECT_EQ((converted<double, f16>(1 + 0x1p-11 + 0x1p-40, DType::f16).bits),
            f16(1 + 0x1p-10F).bits);
  EXPECT_EQ((converted<double, bf16>(1 + 0x1p-8 + 0x1p-40, DType::bf16).bits),
            bf16(1 + 0x1p-7F).bits);
  EXPECT_EQ((converted<std::int64_t, float>((1LL << 53) + (1LL << 29) + 1, DType::f32)),
            0x1p53F + 0x1p30F);
  EXPECT_EQ((converted<double, std::int32_t>(3e9, DType::i32)), 2147483647);
  EXPECT_EQ((converted<double, std::uint8_t>(-1.5, DType::u8)), 0);
  EXPECT_EQ((converted<double, std::int64_t>(std::numeric_limits<double>::quiet_NaN(), DType::i64)),
            0);
  EXPECT_EQ((converted<std::int32_t, std::uint8_t>(-1, DType::u8)), 255);
  EXPECT_EQ((converted<double, std::int8_t>(-1e9, DType::i8)), -128);
  EXPECT_EQ((converted<double, std::int8_t>(127.9, DType::i8)), 127);
  EXPECT_EQ((converted<std::int32_t, std::int8_t>(200, DType::i8)), -56);
}

}  // namespace
}  // namespace hearth
