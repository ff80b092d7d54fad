#include "cpu_contraction.hpp"

#include "backends/cpu/machine/arena.hpp"
#include "backends/cpu/products/gemm_blas.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace hearth::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Sizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;

  [[nodiscard]] std::string text() const {
    return "m " + std::to_string(m) + ", n " + std::to_string(n) + ", k " + std::to_string(k);
  }
};

// Thin and swapped products, whole and partial tiles, one and several blocks of depth.
constexpr Sizes kSizes[] = {{1, 1, 1},
                            {1, 10, 33},
                            {2, 37, 17},
                            {3, 16, 64},
                            {8, 33, 100},
                            {9, 31, 7},
                            {13, 5, 29},
                            {40, 3, 19},
                            {64, 10, 50},
                            {17, 1, 40},
                            {29, 67, 211},
                            {70, 50, 400},
                            {40, 90, 130},
                            {1, 64, 1},
                            {15, 32, 1},
                            {1, 7, 0},
                            {20, 20, 0}};

detail::Layout transposed(const Shape& shape) {
  Strides strides{};
  strides[0] = 1;
  strides[1] = shape[0];
  return detail::Layout(shape, strides);
}

detail::Layout spread(const Shape& shape, std::int64_t row_step, std::int64_t column_step) {
  Strides strides{};
  strides[0] = row_step;
  strides[1] = column_step;
  return detail::Layout(shape, strides);
}

TEST(CpuMatmul, AgreesWithTheOracleForEveryOrderOfRowsAndColumns) {
  DevicePerIsa devices;
  for (const Sizes& sizes : kSizes) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const SmallTensor a = random_tensor(dtype, {sizes.m, sizes.k}, 1);
      const SmallTensor b = random_tensor(dtype, {sizes.k, sizes.n}, 2);
      const SmallTensor bias = random_tensor(dtype, {sizes.n}, 3);
      const SmallTensor c(dtype, {sizes.m, sizes.n});
      const detail::Layout a_layouts[] = {detail::Layout(a.shape()), transposed(a.shape())};
      const detail::Layout b_layouts[] = {detail::Layout(b.shape()), transposed(b.shape())};
      for (const detail::Layout& a_layout : a_layouts) {
        for (const detail::Layout& b_layout : b_layouts) {
          const SmallCall call(
              OpKind::matmul, {a.view(a_layout, 0), b.view(b_layout, 0), bias.view()}, {c.view()});
          expect_like_the_oracle(devices,
                                 call,
                                 c,
                                 static_cast<double>(sizes.k),
                                 std::string(name(dtype)) + " " + sizes.text());
        }
      }
    }
  }
}

TEST(CpuMatmul, TakesOperandsWithGapsAndReversedRows) {
  DevicePerIsa devices;
  const SmallTensor a = random_tensor(DType::f32, {21, 90}, 4);
  const SmallTensor b = random_tensor(DType::f32, {45, 66}, 5);
  const SmallTensor c(DType::f32, {21, 33});
  const detail::Layout every_second = spread({21, 45}, 90, 2);
  const detail::Layout reversed = spread({45, 33}, -66, 2);
  const SmallCall call(
      OpKind::matmul, {a.view(every_second, 0), b.view(reversed, 44 * 66)}, {c.view()});
  expect_like_the_oracle(devices, call, c, 45, "gaps");
}

TEST(CpuMatmul, BroadcastsBatchAxes) {
  DevicePerIsa devices;
  const SmallTensor a = random_tensor(DType::f32, {3, 1, 9, 20}, 6);
  const SmallTensor b = random_tensor(DType::f32, {4, 20, 11}, 7);
  const SmallTensor c(DType::f32, {3, 4, 9, 11});
  expect_like_the_oracle(
      devices, SmallCall(OpKind::matmul, {a.view(), b.view()}, {c.view()}), c, 20, "both");
  const SmallTensor one = random_tensor(DType::f32, {20, 11}, 8);
  const SmallTensor rows = random_tensor(DType::f32, {5, 7, 20}, 9);
  const SmallTensor out(DType::f32, {5, 7, 11});
  expect_like_the_oracle(devices,
                         SmallCall(OpKind::matmul, {rows.view(), one.view()}, {out.view()}),
                         out,
                         20,
                         "one matrix for all");
}

TEST(CpuMatmul, AnEmptySumIsTheBias) {
  const SmallTensor a(DType::f32, {2, 0});
  const SmallTensor b(DType::f32, {0, 3});
  const SmallTensor bias(DType::f32, {3}, {1, 2, 3});
  const SmallTensor c(DType::f32, {2, 3}, {9, 9, 9, 9, 9, 9});
  const SmallCall call(OpKind::matmul, {a.view(), b.view(), bias.view()}, {c.view()});
  EXPECT_THAT(computed(serial_device(), call, c), ElementsAre(1, 2, 3, 1, 2, 3));
}

TEST(CpuMatmul, AResultWithoutElementsIsAllowed) {
  const SmallTensor a(DType::f32, {0, 4});
  const SmallTensor b(DType::f32, {4, 3});
  const SmallTensor c(DType::f32, {0, 3});
  EXPECT_TRUE(
      computed(serial_device(), SmallCall(OpKind::matmul, {a.view(), b.view()}, {c.view()}), c)
          .empty());
}

TEST(CpuMatmul, InfinityTimesZeroIsNaNAndStaysInItsElement) {
  const SmallTensor a(DType::f32, {2, 2}, {HUGE_VAL, 1, 2, 3});
  const SmallTensor b(DType::f32, {2, 2}, {0, 1, 1, 1});
  const SmallTensor c(DType::f32, {2, 2});
  const std::vector<double> got =
      computed(serial_device(), SmallCall(OpKind::matmul, {a.view(), b.view()}, {c.view()}), c);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], HUGE_VAL);
  EXPECT_EQ(got[2], 3);
  EXPECT_EQ(got[3], 5);
}

TEST(CpuMatmul, TheBitsDoNotDependOnTheNumberOfCores) {
  for (const Sizes& sizes :
       {Sizes{300, 260, 200}, Sizes{64, 400, 400}, Sizes{1, 1500, 600}, Sizes{200, 9, 3000}}) {
    const SmallTensor a = random_tensor(DType::f32, {sizes.m, sizes.k}, 10);
    const SmallTensor b = random_tensor(DType::f32, {sizes.n, sizes.k}, 11);
    const SmallTensor c(DType::f32, {sizes.m, sizes.n});
    const detail::Layout b_layout = spread({sizes.k, sizes.n}, 1, sizes.k);
    const SmallCall call(OpKind::matmul, {a.view(), b.view(b_layout, 0)}, {c.view()});
    const std::vector<double> alone = computed(serial_device(), call, c);
    EXPECT_EQ(computed({.cores = available_cores()}, call, c), alone) << sizes.text();
  }
}

TEST(CpuMatmul, ARowOfALargeProductIsTheSameInASmallerOne) {
  const SmallTensor a = random_tensor(DType::f32, {300, 250}, 12);
  const SmallTensor b = random_tensor(DType::f32, {250, 100}, 13);
  const SmallTensor large(DType::f32, {300, 100});
  const SmallTensor small(DType::f32, {20, 100});
  const detail::Layout first_rows(Shape{20, 250});
  const std::vector<double> all = computed(
      serial_device(), SmallCall(OpKind::matmul, {a.view(), b.view()}, {large.view()}), large);
  const std::vector<double> some =
      computed(serial_device(),
               SmallCall(OpKind::matmul, {a.view(first_rows, 0), b.view()}, {small.view()}),
               small);
  EXPECT_EQ(some, std::vector<double>(all.begin(), all.begin() + 2000));
}

// Equal terms all round the same way: one f32 sum of this length is off by 1 %.
TEST(CpuMatmul, ADeepSumIsExactAtEachLevelAndOnAnyNumberOfCores) {
  constexpr double kBound = 1024 * testing::unit_roundoff(DType::f32);
  DevicePerIsa devices;
  cpu::CpuBackend shared({.cores = available_cores()});
  for (const Sizes& size : {Sizes{1, 3, 300'000}, {5, 20, 70'001}, {40, 36, 120'000}}) {
    const std::vector<double> tenths(static_cast<std::size_t>(size.k * std::max(size.m, size.n)),
                                     0.1);
    const SmallTensor a(
        DType::f32, {size.m, size.k}, {tenths.begin(), tenths.begin() + size.m * size.k});
    const SmallTensor b(
        DType::f32, {size.k, size.n}, {tenths.begin(), tenths.begin() + size.n * size.k});
    const SmallTensor c(DType::f32, {size.m, size.n});
    const double tenth = 0.1F;
    const double want = tenth * tenth * static_cast<double>(size.k);
    for (const bool is_turned : {false, true}) {
      const detail::Layout layout = transposed({size.k, size.n});
      const SmallCall call(
          OpKind::matmul, {a.view(), is_turned ? b.view(layout, 0) : b.view()}, {c.view()});
      std::vector<double> last;
      for (cpu::CpuBackend* device : devices.all()) {
        last = computed(*device, call, c);
        for (const double sum : last) {
          ASSERT_LE(std::fabs(sum / want - 1), kBound) << size.text() << ": " << sum;
        }
      }
      EXPECT_EQ(computed(shared, call, c), last) << size.text();
    }
  }
}

// A weight gradient: the kernel reads either the larger or the smaller side in place.
TEST(CpuMatmul, AColumnOfALongSumOverRowsIsTheSameInASmallerOne) {
  const SmallTensor a = random_tensor(DType::f32, {400, 40}, 16);
  const SmallTensor b = random_tensor(DType::f32, {400, 100}, 17);
  const SmallTensor large(DType::f32, {40, 100});
  const SmallTensor small(DType::f32, {40, 60});
  const detail::Layout turned = spread({40, 400}, 1, 40);
  const detail::Layout some_columns = spread({400, 60}, 100, 1);
  const std::vector<double> all =
      computed(serial_device(),
               SmallCall(OpKind::matmul, {a.view(turned, 0), b.view()}, {large.view()}),
               large);
  const std::vector<double> some = computed(
      serial_device(),
      SmallCall(OpKind::matmul, {a.view(turned, 0), b.view(some_columns, 0)}, {small.view()}),
      small);
  for (std::size_t row = 0; row < 40; ++row) {
    for (std::size_t column = 0; column < 60; ++column) {
      EXPECT_EQ(some[row * 60 + column], all[row * 100 + column]) << row << ", " << column;
    }
  }
}

TEST(CpuMatmul, RunningAgainGivesTheSameBits) {
  const SmallTensor x = random_tensor(DType::f32, {1, 300}, 14);
  const SmallTensor w = random_tensor(DType::f32, {77, 300}, 15);
  const SmallTensor y(DType::f32, {1, 77});
  const detail::Layout w_layout = transposed({300, 77});
  const SmallCall call(OpKind::matmul, {x.view(), w.view(w_layout, 0)}, {y.view()});
  cpu::CpuBackend device(serial_device());
  testing::run_call(device, call.call()).value();
  const std::vector<double> first = y.values();
  for (int run = 0; run < 3; ++run) {
    testing::run_call(device, call.call()).value();
    EXPECT_EQ(y.values(), first);
  }
}

TEST(CpuBlas, SaysWhichLibraryItUsesOrWhyNot) {
  const cpu::BlasStatus& status = cpu::blas_status();
  EXPECT_THAT(status.description,
              HasSubstr(status.usable ? "(pthread build)" : "own matrix products ("));
  EXPECT_THAT(cpu::CpuBackend(serial_device()).info().description,
              HasSubstr(cpu::describe_products(cpu::machine_isa())));
  EXPECT_THAT(cpu::describe_products(cpu::IsaLevel::baseline), HasSubstr(status.description));
}

TEST(CpuBlas, IsLeftAloneWhereItDoesNotKnowTheProcessor) {
  using cpu::IsaLevel;
  EXPECT_FALSE(cpu::is_worthy_blas_core("Prescott", IsaLevel::avx2));
  EXPECT_FALSE(cpu::is_worthy_blas_core("Sandybridge", IsaLevel::avx512));
  EXPECT_FALSE(cpu::is_worthy_blas_core("", IsaLevel::avx2));
  EXPECT_TRUE(cpu::is_worthy_blas_core("Haswell", IsaLevel::avx2));
  EXPECT_TRUE(cpu::is_worthy_blas_core("ZEN", IsaLevel::avx2));
  EXPECT_TRUE(cpu::is_worthy_blas_core("SkylakeX", IsaLevel::avx512));
  EXPECT_TRUE(cpu::is_worthy_blas_core("Prescott", IsaLevel::baseline));
}

TEST(CpuBlas, ManyCallersAtOnceGetTheSumsOfOne) {
  if (!cpu::blas_status().usable) {
    GTEST_SKIP() << cpu::blas_status().description;
  }
  const SmallTensor a = random_tensor(DType::f32, {64, 80}, 16);
  const SmallTensor b = random_tensor(DType::f32, {80, 48}, 17);
  cpu::Gemm<float> gemm;
  gemm.m = 64;
  gemm.n = 48;
  gemm.k = 80;
  gemm.a = {a.view().data, DType::f32, 80, 1};
  gemm.b = {b.view().data, DType::f32, 48, 1};
  gemm.c_step = 48;
  constexpr std::int64_t kCalls = 200;
  std::vector<std::vector<float>> results(kCalls, std::vector<float>(64 * 48));
  cpu::Arena arena(available_cores());
  arena.parallel_for(kCalls, 1, [&](std::int64_t begin, std::int64_t) {
    cpu::Gemm<float> own = gemm;
    own.c = results[static_cast<std::size_t>(begin)].data();
    cpu::run_blas_gemm(own, nullptr);
  });
  EXPECT_THAT(results, Each(results.front()));
}

}  // namespace
}  // namespace hearth::testing
