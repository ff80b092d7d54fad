// Casts of integers beyond the range of f64 to 16-bit floats: the reference, the CPU's loops at
// each instruction set and the interpreter round once.
#include "tests/backends/cpu_levels.hpp"
#include "tests/backends/small_call.hpp"

#include "backends/cpu/elementwise/cast_loops.hpp"

#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/kernel/kernel_interpreter.hpp>
#include <hearth/streams/kernel/op_expression.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace hearth::cpu {
namespace {

using hearth::testing::SmallCall;
using hearth::testing::SmallTensor;

constexpr std::int64_t kOne60 = std::int64_t{1} << 60;
constexpr std::int64_t kHalfStep = std::int64_t{1} << 52;  // of bf16 at 2^60

struct Rounding {
  std::int64_t from;
  double to;
};

// One above the middle between two neighbours is the middle itself as an f64, which rounds to even.
const std::vector<Rounding>& roundings() {
  static const std::vector<Rounding> kAll{
      {kOne60 + kHalfStep + 1, 0x1.02p60},
      {kOne60 + kHalfStep, 0x1p60},
      {kOne60 + kHalfStep - 1, 0x1p60},
      {kOne60 + 3 * kHalfStep - 1, 0x1.02p60},
      {kOne60 + 3 * kHalfStep, 0x1.04p60},
      {-(kOne60 + kHalfStep + 1), -0x1.02p60},
      {-(kOne60 + 3 * kHalfStep - 1), -0x1.02p60},
      {std::numeric_limits<std::int64_t>::max(), 0x1p63},
      {std::numeric_limits<std::int64_t>::min(), -0x1p63},
      {(std::int64_t{1} << 53) + 1, 0x1p53},
      {(std::int64_t{1} << 53) + (std::int64_t{1} << 45) + 1, 0x1.02p53},
      {-((std::int64_t{1} << 53) + (std::int64_t{1} << 45) + 1), -0x1.02p53},
      {-257, -256.0},
      {259, 260.0},
  };
  return kAll;
}

SmallTensor integers() {
  SmallTensor in(DType::i64, {static_cast<std::int64_t>(roundings().size())});
  for (std::size_t i = 0; i < roundings().size(); ++i) {
    in.view().as<std::int64_t>()[i] = roundings()[i].from;
  }
  return in;
}

void expect_rounded(const SmallTensor& out) {
  const std::vector<double> values = out.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], roundings()[i].to) << roundings()[i].from;
  }
}

TEST(CastRounding, TheReferenceRoundsWideIntegersOnce) {
  const SmallTensor in = integers();
  const SmallTensor out(DType::bf16, in.shape());
  reference::evaluate(SmallCall(OpKind::cast, {in.view()}, {out.view()}).call()).value();
  expect_rounded(out);
}

TEST(CastRounding, TheLoopsOfEveryLevelRoundWideIntegersOnce) {
  const SmallTensor in = integers();
  for (const IsaLevel level : levels_here()) {
    SCOPED_TRACE(name(level));
    const SmallTensor out(DType::bf16, in.shape());
    cast_loops(level).at(DType::i64, DType::bf16)(
        out.view().data, in.view().data, in.shape().element_count());
    expect_rounded(out);
  }
}

TEST(CastRounding, TheInterpreterRoundsWideIntegersOnce) {
  const SmallTensor in = integers();
  const SmallTensor out(DType::bf16, in.shape());
  const SmallCall cast(OpKind::cast, {in.view()}, {out.view()});
  const KernelIR kernel = op_kernel(cast.call().op,
                                    std::array{TensorSpec{DType::i64, in.shape()}},
                                    std::array{TensorSpec{DType::bf16, in.shape()}})
                              .value();
  const std::array from{KernelTensor{in.view().data, hearth::detail::Layout(in.shape())}};
  const std::array to{KernelTensor{out.view().data, hearth::detail::Layout(in.shape())}};
  const std::array count{in.shape().element_count()};
  interpret(kernel, {.extents = count, .inputs = from, .outputs = to}).value();
  expect_rounded(out);
}

}  // namespace
}  // namespace hearth::cpu
