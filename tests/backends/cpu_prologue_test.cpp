// Kernels with a prologue, another call that computes one input: every bit is that of the two
// separate calls.
#include "cpu_contraction.hpp"
#include "cpu_levels.hpp"
#include "made_input.hpp"

#include "backends/sim/stored_call.hpp"

#include <hearth/backends/reference/reference_backend.hpp>
#include <hearth/backends/sim/async_sim.hpp>
#include <hearth/backends/sim/sim_backend.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace hearth::testing {
namespace {

#ifdef HEARTH_CPU_ONE_LEVEL  // for the thread sanitizer: bf16 divides its work as f16 does
constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16};
#else
constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
#endif

void expect_same(Backend& device, const PrologueCall& made, const std::string& what) {
  const std::vector<std::byte> expected = made.singly(device);
  const std::vector<std::byte> result = made.as_one(device);
  const auto apart = std::ranges::mismatch(result, expected).in1 - result.begin();
  ASSERT_TRUE(result == expected) << what << ": byte " << apart << " of " << result.size();
}
void expect_taken(Backend& device, const PrologueCall& made, const std::string& what) {
  const Support support = device.supports(made.call());
  ASSERT_TRUE(support.yes) << what << ": " << support.reason;
  expect_same(device, made, what);
}

/// Serial devices of every level, then one with two cores; the last alone for the thread sanitizer.
std::vector<std::unique_ptr<cpu::CpuBackend>> devices_here() {
  std::vector<std::unique_ptr<cpu::CpuBackend>> devices;
#ifndef HEARTH_CPU_ONE_LEVEL
  for (const cpu::IsaLevel level : cpu::levels_here()) {
    devices.push_back(std::make_unique<cpu::CpuBackend>(serial_device(level)));
  }
#endif
  const std::vector<int> cores = available_cores();
  devices.push_back(
      std::make_unique<cpu::CpuBackend>(cpu::CpuOptions{.cores = {cores.front(), cores.back()}}));
  return devices;
}

struct Product {
  std::string form;
  std::int64_t m;
  std::int64_t k;
  std::int64_t n;
};

std::vector<Product> products() {
  return {
      {"thin", 3, 500, 130},
      {"few rows, b read and packed by tasks", 70, 96, 300},
      {"few rows, a laid out", 40, 50, 96},
      {"few columns, turned round", 300, 64, 9},
      {"chunks of rows", 600, 100, 200},
      {"chunks of rows that are read", 611, 200, 60},
      {"blocks of depth", 270, 400, 450},
      {"some columns", 300, 100, 700},
      {"a long row of few columns", 270, 1100, 128},
      {"many columns", 260, 200, 1100},
      {"a deep one", 40, 2100, 50},
      {"a wide one", 40, 30, 2100},
      {"a high one", 2100, 30, 40},
  };
}

enum class MakerKind { silu, norm, softmax };

std::unique_ptr<OwnedCall> maker_of(MakerKind kind, DType dtype, const Shape& shape) {
  const int rank = shape.rank();
  Shape row(std::vector<std::int64_t>{shape[rank - 1]});
  std::vector<std::pair<DType, Shape>> inputs{{dtype, shape}};
  if (kind == MakerKind::norm) {
    inputs.emplace_back(dtype, row);
  } else if (kind == MakerKind::silu) {
    inputs.emplace_back(dtype, row);
    Shape column = shape;
    column.set(rank - 1, 1);
    inputs.emplace_back(dtype, column);
  }
  auto call = std::make_unique<OwnedCall>(OpKind::expression, inputs, dtype, shape);
  call->with(ExpressionAttributes{.row_axes = kind == MakerKind::silu ? 0U : 1U});
  call->with(kind == MakerKind::silu   ? silu_expression(dtype)
             : kind == MakerKind::norm ? norm_expression(dtype)
                                       : softmax_expression(dtype));
  return call;
}

TEST(CpuPrologue, ProductsOfAMadeLeftSideHaveTheBitsOfTwoCalls) {
  const auto devices = devices_here();
  for (const Product& each : products()) {
    for (const DType dtype : kFloats) {
      for (const MakerKind kind : {MakerKind::silu, MakerKind::norm, MakerKind::softmax}) {
        const auto producer = maker_of(kind, dtype, {each.m, each.k});
        for (const bool has_epilogue : {false, true}) {
          OwnedCall op(OpKind::matmul,
                       {{dtype, {each.m, each.k}}, {dtype, {each.k, each.n}}},
                       dtype,
                       {each.m, each.n});
          if (has_epilogue) {
            op.with_relu({each.n});
          }
          const PrologueCall made(*producer, op);
          for (const auto& device : devices) {
            expect_taken(*device,
                         made,
                         fmt::format("{} of {}, maker {}, epilogue {}, {}",
                                     each.form,
                                     name(dtype),
                                     static_cast<int>(kind),
                                     has_epilogue,
                                     device->info().description));
          }
        }
      }
    }
  }
}

struct Pooled {
  std::string what;
  Shape x;
  Shape w;
  ConvAttributes conv = {};
  PoolAttributes pool = {};

  [[nodiscard]] Shape made() const {
    const auto places = [&](int axis) {
      const auto i = static_cast<std::size_t>(axis - 2);
      const std::int64_t reach = conv.dilation[i] * (w[axis] - 1) + 1;
      return (x[axis] + 2 * conv.padding[i] - reach) / conv.stride[i] + 1;
    };
    return {x[0], w[0], places(2), places(3)};
  }
  [[nodiscard]] Shape y() const {
    const Shape from = made();
    const auto places = [&](int axis) {
      const auto i = static_cast<std::size_t>(axis - 2);
      return (from[axis] + 2 * pool.padding[i] - pool.kernel[i]) / pool.stride[i] + 1;
    };
    return {from[0], from[1], places(2), places(3)};
  }
};

std::vector<Pooled> pooled() {
  return {
      {"pairs of whole planes", {2, 3, 14, 12}, {8, 3, 3, 3}, {.padding = {1, 1}}},
      {"pairs of odd planes", {3, 5, 11, 9}, {7, 5, 3, 3}, {.padding = {1, 1}}},
      {"one picture, shared", {1, 32, 14, 14}, {64, 32, 3, 3}, {.padding = {1, 1}}},
      {"one of few channels, shared", {1, 1, 28, 28}, {32, 1, 3, 3}, {.padding = {1, 1}}},
      {"an odd one, shared", {1, 24, 17, 15}, {48, 24, 3, 3}, {.padding = {1, 1}}},
      {"a large picture by rows", {1, 3, 120, 118}, {16, 3, 3, 3}, {.padding = {1, 1}}},
      {"pictures by rows of windows with gaps",
       {2, 4, 90, 70},
       {24, 4, 3, 3},
       {},
       {.kernel = {2, 3}, .stride = {5, 4}}},
      {"columns that overlap",
       {1, 4, 90, 70},
       {24, 4, 3, 3},
       {},
       {.kernel = {3, 3}, .stride = {3, 2}, .padding = {0, 1}}},
      {"windows that overlap",
       {9, 4, 17, 19},
       {6, 4, 3, 3},
       {.padding = {1, 1}},
       {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .count_include_pad = 1}},
      {"strides, dilation and groups",
       {3, 8, 21, 23},
       {12, 4, 3, 3},
       {.stride = {2, 1}, .padding = {2, 1}, .dilation = {2, 1}, .groups = 2}},
      {"small planes of many groups",
       {2, 50, 8, 8},
       {50, 1, 3, 3},
       {.padding = {1, 1}, .groups = 50}},
      {"a large picture of groups by rows",
       {1, 2, 120, 118},
       {2, 1, 5, 5},
       {.padding = {2, 2}, .groups = 2},
       {.kernel = {3, 2}, .stride = {5, 2}}},
      {"as many groups as channels",
       {2, 6, 12, 13},
       {6, 1, 3, 3},
       {.padding = {1, 1}, .groups = 6},
       {.kernel = {3, 2}, .stride = {3, 2}}},
  };
}

enum class Behind { nothing, relu, relu_of_sum };

void put_behind(OwnedCall& call, Behind behind, std::int64_t channels) {
  if (behind == Behind::relu) {
    call.with_plain_relu();
  } else if (behind == Behind::relu_of_sum) {
    call.with_relu({channels, 1, 1});
  }
}

TEST(CpuPrologue, PoolsOfAConvolutionHaveTheBitsOfTwoCalls) {
  const auto devices = devices_here();
  for (const Pooled& each : pooled()) {
    for (const DType dtype : kFloats) {
      for (const OpKind kind : {OpKind::max_pool2d, OpKind::avg_pool2d}) {
        for (const Behind before : {Behind::nothing, Behind::relu, Behind::relu_of_sum}) {
          for (const Behind behind : {Behind::nothing, Behind::relu_of_sum}) {
            OwnedCall producer(OpKind::conv2d,
                               {{dtype, each.x}, {dtype, each.w}, {dtype, {each.w[0]}}},
                               dtype,
                               each.made());
            producer.with(each.conv);
            put_behind(producer, before, each.w[0]);
            OwnedCall op(kind, {{dtype, each.made()}}, dtype, each.y());
            op.with(each.pool);
            put_behind(op, behind, each.w[0]);
            const PrologueCall made(producer, op);
            for (const auto& device : devices) {
              expect_taken(*device,
                           made,
                           fmt::format("{} of {}, {}, epilogues {} and {}, {}",
                                       each.what,
                                       name(dtype),
                                       name(kind),
                                       static_cast<int>(before),
                                       static_cast<int>(behind),
                                       device->info().description));
            }
          }
        }
      }
    }
  }
}

TEST(CpuPrologue, PoolsOfAMadeInputHaveTheBitsOfTwoCalls) {
  const auto devices = devices_here();
  for (const Pooled& each : pooled()) {
    for (const DType dtype : kFloats) {
      for (const OpKind kind : {OpKind::max_pool2d, OpKind::avg_pool2d}) {
        const Shape x = each.made();
        OwnedCall producer(
            OpKind::expression, {{dtype, x}, {dtype, {x[3]}}, {dtype, {x[1], 1, 1}}}, dtype, x);
        producer.with(ExpressionAttributes{}).with(silu_expression(dtype));
        for (const Behind behind : {Behind::nothing, Behind::relu_of_sum}) {
          OwnedCall op(kind, {{dtype, x}}, dtype, each.y());
          op.with(each.pool);
          put_behind(op, behind, each.w[0]);
          const PrologueCall made(producer, op);
          for (const auto& device : devices) {
            expect_same(*device,
                        made,
                        fmt::format("{} of {}, {}, epilogue {}, {}",
                                    each.what,
                                    name(dtype),
                                    name(kind),
                                    static_cast<int>(behind),
                                    device->info().description));
          }
        }
      }
    }
  }
}

TEST(CpuPrologue, PoolsMakeAnInputThatLeavesTheCaches) {
  const auto devices = devices_here();
  for (const std::int64_t pictures : {1, 36}) {
    const Shape x{pictures, 4, 130, 128};
    OwnedCall producer(OpKind::expression,
                       {{DType::f32, x}, {DType::f32, {4, 1, 1}}, {DType::f32, {4, 1, 1}}},
                       DType::f32,
                       x);
    producer.with(ExpressionAttributes{}).with(silu_expression(DType::f32));
    OwnedCall op(OpKind::max_pool2d, {{DType::f32, x}}, DType::f32, {pictures, 4, 65, 64});
    op.with(PoolAttributes{});
    const PrologueCall made(producer, op);
    for (const auto& device : devices) {
      EXPECT_EQ(device->supports(made.call()).yes, pictures == 36);
      expect_same(*device, made, fmt::format("{} pictures", pictures));
    }
  }
}

// A race shows itself to the thread sanitizer without many repeats.
#ifdef __SANITIZE_THREAD__
constexpr int kRepeats = 40;
#else
constexpr int kRepeats = 200;
#endif

// While calls follow closely enough to keep a thread awake, that thread takes rows of the picture.
TEST(CpuPrologue, ShortPoolsOfAConvolutionHaveTheSameBitsWhoeverRunsThem) {
  const std::vector<int> cores = available_cores();
  cpu::CpuBackend alone(serial_device());
  cpu::CpuBackend shared({.cores = {cores.front(), cores.back()}});
  for (const Pooled& each : pooled()) {
    for (const Behind before : {Behind::nothing, Behind::relu_of_sum}) {
      OwnedCall producer(OpKind::conv2d,
                         {{DType::f32, each.x}, {DType::f32, each.w}, {DType::f32, {each.w[0]}}},
                         DType::f32,
                         each.made());
      producer.with(each.conv);
      put_behind(producer, before, each.w[0]);
      OwnedCall op(OpKind::max_pool2d, {{DType::f32, each.made()}}, DType::f32, each.y());
      op.with(each.pool);
      const PrologueCall made(producer, op);
      const auto expected = made.singly(alone);
      for (int i = 0; i < kRepeats; ++i) {
        const auto result = made.as_one(shared);
        if (i % 20 == 19) {
          ASSERT_EQ(result, expected) << each.what;
        }
      }
    }
  }
}

// Leading axes, a bias, and a right side stored by columns.
TEST(CpuPrologue, ProductsOfLeadingAxesAndOtherLayoutsHaveTheBitsOfTwoCalls) {
  const auto devices = devices_here();
  const detail::Layout turned({96, 40}, Strides{1, 96});
  for (const Shape& rows : {Shape{2, 3, 5, 96}, Shape{1, 200, 2, 96}, Shape{3, 1, 1, 96}}) {
    for (const MakerKind kind : {MakerKind::silu, MakerKind::norm}) {
      for (const bool is_turned : {false, true}) {
        const auto producer = maker_of(kind, DType::f32, rows);
        OwnedCall op(OpKind::matmul,
                     {{DType::f32, rows}, {DType::f32, {96, 40}}, {DType::f32, {40}}},
                     DType::f32,
                     {rows[0], rows[1], rows[2], 40});
        if (is_turned) {
          op.with_layout(1, turned);
        }
        const PrologueCall made(*producer, op);
        for (const auto& device : devices) {
          expect_taken(*device, made, rows.to_string());
        }
      }
    }
  }
}

// Values that depend on an element's index, split at any place.
TEST(CpuPrologue, AMakerMayKnowPlaces) {
  const auto devices = devices_here();
  KernelBuilder builder({0});
  const KernelValue x = builder.input(DType::f32, along({0}));
  const KernelValue place = builder.convert(builder.position(), DType::f32);
  builder.output(x * sin(place));
  const Expression expression = expression_of(builder.take());
  for (const std::int64_t rows : {3, 70, 300}) {
    OwnedCall producer(OpKind::expression, {{DType::f32, {rows, 90}}}, DType::f32, {rows, 90});
    producer.with(ExpressionAttributes{}).with(expression);
    OwnedCall op(
        OpKind::matmul, {{DType::f32, {rows, 90}}, {DType::f32, {90, 33}}}, DType::f32, {rows, 33});
    const PrologueCall made(producer, op);
    for (const auto& device : devices) {
      expect_taken(*device, made, fmt::format("{} rows", rows));
    }
  }
}

TEST(CpuPrologue, CallsThatWouldLoseOrFailAreRefused) {
  cpu::CpuBackend device(serial_device());
  const auto producer = maker_of(MakerKind::silu, DType::f32, {4, 8});
  const auto expect_refused =
      [&](const OwnedCall& made_by, const OwnedCall& op, const std::string& reason) {
        const Support support = device.supports(PrologueCall(made_by, op).call());
        EXPECT_FALSE(support.yes);
        EXPECT_THAT(support.reason, ::testing::HasSubstr(reason));
      };

  OwnedCall batches(
      OpKind::matmul, {{DType::f32, {1, 4, 8}}, {DType::f32, {3, 8, 5}}}, DType::f32, {3, 4, 5});
  expect_refused(*producer, batches, "several products");

  OwnedCall product(
      OpKind::matmul, {{DType::f32, {8, 4}}, {DType::f32, {4, 5}}}, DType::f32, {8, 5});
  expect_refused(*maker_of(MakerKind::norm, DType::f32, {4, 8}), product, "other rows");

  const detail::Layout turned({8, 4}, Strides{1, 8});
  const auto columns = maker_of(MakerKind::silu, DType::f32, {8, 4});
  columns->with_layout(0, turned);
  expect_refused(*columns, product, "along its columns");

  OwnedCall fails(
      OpKind::expression, {{DType::f32, {8, 4}}, {DType::i32, {8, 4}}}, DType::f32, {8, 4});
  KernelBuilder builder({0});
  const KernelValue x = builder.input(DType::f32, along({0}));
  const KernelValue i = builder.input(DType::i32, along({0}));
  builder.output(x + builder.convert(i / i, DType::f32));
  fails.with(ExpressionAttributes{}).with(expression_of(builder.take()));
  expect_refused(fails, product, "may not fail");

  OwnedCall sum(OpKind::add, {{DType::f32, {4, 8}}, {DType::f32, {4, 8}}}, DType::f32, {4, 8});
  expect_refused(*producer, sum, "add takes no prologue for input 0");

  OwnedCall convolution(OpKind::conv2d,
                        {{DType::f32, {1, 8, 90, 90}}, {DType::f32, {8, 8, 3, 3}}},
                        DType::f32,
                        {1, 8, 88, 88});
  convolution.with(ConvAttributes{});
  OwnedCall overlaps(
      OpKind::max_pool2d, {{DType::f32, {1, 8, 88, 88}}}, DType::f32, {1, 8, 86, 86});
  overlaps.with(PoolAttributes{.kernel = {3, 3}, .stride = {1, 1}});
  expect_refused(convolution, overlaps, "windows share rows");
}

TEST(CpuPrologue, TheOracleMakesTheInputFirst) {
  reference::ReferenceBackend oracle;
  const auto producer = maker_of(MakerKind::norm, DType::f16, {6, 8});
  OwnedCall op(OpKind::matmul, {{DType::f16, {6, 8}}, {DType::f16, {8, 5}}}, DType::f16, {6, 5});
  op.with_relu({5});
  EXPECT_TRUE(oracle.facts().may_take_prologue(OpKind::matmul, 0, OpKind::expression));
  expect_taken(oracle, PrologueCall(*producer, op), "norm and product");

  OwnedCall convolution(OpKind::conv2d,
                        {{DType::f32, {2, 3, 8, 8}}, {DType::f32, {4, 3, 3, 3}}},
                        DType::f32,
                        {2, 4, 6, 6});
  convolution.with(ConvAttributes{}).with_plain_relu();
  OwnedCall pool(OpKind::max_pool2d, {{DType::f32, {2, 4, 6, 6}}}, DType::f32, {2, 4, 3, 3});
  pool.with(PoolAttributes{});
  expect_taken(oracle, PrologueCall(convolution, pool), "convolution and pool");
}

// Shadow memory detects operands outside the device's pages, those of the prologue too.
TEST(CpuPrologue, TheSimLooksAtWhatTheMakerReads) {
  const auto producer = maker_of(MakerKind::norm, DType::f32, {6, 8});
  OwnedCall op(OpKind::matmul, {{DType::f32, {6, 8}}, {DType::f32, {8, 5}}}, DType::f32, {6, 5});
  const PrologueCall made(*producer, op);
  sim::SimBackend plain(sim::SimOptions{});
  EXPECT_TRUE(plain.facts().may_take_prologue(OpKind::matmul, 0, OpKind::expression));
  expect_taken(plain, made, "norm and product");

  const sim::Access access = sim::access_of(made.call());
  EXPECT_EQ(access.reads.size(), 3U);  // the right side, x and w
  EXPECT_EQ(access.writes.size(), 1U);

  sim::AsyncSim later(sim::AsyncSimOptions{});
  EXPECT_FALSE(later.supports(made.call()).yes);
}

}  // namespace
}  // namespace hearth::testing
