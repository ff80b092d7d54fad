#include <hearth/runtime/base/philox.hpp>

#include <cmath>
#include <cstdint>
#include <set>

#include <gtest/gtest.h>

namespace hearth {
namespace {

// The three published vectors of the Random123 distribution (kat_vectors, philox4x32 10).
static_assert(philox::rounds({0, 0, 0, 0}, {0, 0}) ==
              philox::Block{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U});
static_assert(philox::rounds({0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU},
                             {0xffffffffU, 0xffffffffU}) ==
              philox::Block{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU});
static_assert(philox::rounds({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U},
                             {0xa4093822U, 0x299f31d0U}) ==
              philox::Block{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U});

TEST(Philox, SeedAndCounterFillTheLowWordsFirst) {
  constexpr std::uint64_t kSeed = 0x299f31d0a4093822U;
  constexpr std::uint64_t kCounter = 0x85a308d3243f6a88U;
  EXPECT_EQ(philox::block(kSeed, kCounter),
            philox::rounds({0x243f6a88U, 0x85a308d3U, 0, 0}, {0xa4093822U, 0x299f31d0U}));
}

TEST(Philox, NeighbouringBlocksAndSeedsDiffer) {
  std::set<philox::Block> seen;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::uint64_t counter = 0; counter < 64; ++counter) {
      seen.insert(philox::block(seed, counter));
    }
  }
  EXPECT_EQ(seen.size(), 8U * 64U);
}

TEST(Philox, UnitValuesStayBelowOneInTheirType) {
  EXPECT_EQ(philox::unit_f32(0), 0.0F);
  EXPECT_EQ(philox::unit_f64(0, 0), 0.0);
  EXPECT_LT(philox::unit_f32(0xffffffffU), 1.0F);
  EXPECT_LT(philox::unit_f64(0xffffffffU, 0xffffffffU), 1.0);
  EXPECT_LT(static_cast<float>(f16(philox::unit_f16(0xffffffffU))), 1.0F);
  EXPECT_LT(static_cast<float>(bf16(philox::unit_bf16(0xffffffffU))), 1.0F);
}

TEST(Philox, ThresholdsAreTheSmallestIntegerNotBelowTheProbability) {
  EXPECT_EQ(philox::threshold(0.0), 0U);
  EXPECT_EQ(philox::threshold(-1.0), 0U);
  EXPECT_EQ(philox::threshold(std::nan("")), 0U);
  EXPECT_EQ(philox::threshold(1.0), 1U << 24U);
  EXPECT_EQ(philox::threshold(7.0), 1U << 24U);
  EXPECT_EQ(philox::threshold(0.5), 1U << 23U);
  EXPECT_EQ(philox::threshold(0x1p-24), 1U);
  EXPECT_EQ(philox::threshold(0x1p-30), 1U);
}

TEST(Philox, AHitIsAUnitValueBelowTheProbability) {
  constexpr double kP = 0.3;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const double unit = philox::uniform_element(7, 11, i, DType::f32);
    EXPECT_EQ(philox::hit_element(7, 11, i, philox::threshold(kP)), unit < kP) << "element " << i;
  }
}

TEST(Philox, ElementsTakeTheDocumentedWords) {
  const philox::Block second = philox::block(5, 101);
  EXPECT_EQ(philox::uniform_element(5, 100, 6, DType::f32),
            static_cast<double>(philox::unit_f32(second[2])));
  EXPECT_EQ(philox::uniform_element(5, 100, 3, DType::f64), philox::unit_f64(second[2], second[3]));
  const auto pair = philox::normal_pair(static_cast<double>(philox::unit_f32(second[2])),
                                        static_cast<double>(philox::unit_f32(second[3])),
                                        0x1p-24);
  EXPECT_EQ(philox::normal_element(5, 100, 6, DType::f32), pair[0]);
  EXPECT_EQ(philox::normal_element(5, 100, 7, DType::f32), pair[1]);
  const auto wide = philox::normal_pair(
      philox::unit_f64(second[0], second[1]), philox::unit_f64(second[2], second[3]), 0x1p-53);
  EXPECT_EQ(philox::normal_element(5, 100, 2, DType::f64), wide[0]);
  EXPECT_EQ(philox::normal_element(5, 100, 3, DType::f64), wide[1]);
}

TEST(Philox, BlockCountCoversTheLastElement) {
  EXPECT_EQ(philox::block_count(0, false), 0U);
  EXPECT_EQ(philox::block_count(1, false), 1U);
  EXPECT_EQ(philox::block_count(4, false), 1U);
  EXPECT_EQ(philox::block_count(5, false), 2U);
  EXPECT_EQ(philox::block_count(2, true), 1U);
  EXPECT_EQ(philox::block_count(3, true), 2U);
}

TEST(Philox, NormalValuesAreFiniteAtTheEdges) {
  EXPECT_TRUE(std::isfinite(philox::normal_pair(0.0, 0.0, 0x1p-24)[0]));
  EXPECT_EQ(philox::normal_pair(1.0 - 0x1p-24, 0.25, 0x1p-24)[0], 0.0);
}

TEST(Philox, MomentsAreThoseOfTheDistributions) {
  constexpr std::uint64_t kCount = 200'000;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    double sum = 0;
    double normal_sum = 0;
    double normal_squares = 0;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      sum += philox::uniform_element(42, 0, i, dtype);
      const double z = philox::normal_element(43, 0, i, dtype);
      normal_sum += z;
      normal_squares += z * z;
    }
    const auto n = static_cast<double>(kCount);
    const double half_step = dtype == DType::bf16 ? 0x1p-9 : 0.0;
    EXPECT_NEAR(sum / n, 0.5 - half_step, 0.003) << name(dtype);
    EXPECT_NEAR(normal_sum / n, 0.0, 0.01) << name(dtype);
    EXPECT_NEAR(normal_squares / n, 1.0, 0.015) << name(dtype);
  }
}

TEST(Philox, AUniformRangeEndsAtTheLastValueBelowHigh) {
  const auto expect = [](double low, double high, DType dtype, double first, double last) {
    const philox::UniformRange range = philox::uniform_range(low, high, dtype);
    EXPECT_EQ(range.first, first) << name(dtype);
    EXPECT_EQ(range.last, last) << name(dtype);
  };
  expect(1, 2, DType::f32, 1, 2 - 0x1p-23);
  expect(1, 2, DType::f64, 1, 2 - 0x1p-52);
  expect(1, 2, DType::f16, 1, 2 - 0x1p-10);
  expect(1, 2, DType::bf16, 1, 2 - 0x1p-7);
  expect(-1, 0, DType::f16, -1, -0x1p-24);
  expect(0, 0x1p-24, DType::f16, 0, 0);
  expect(0.1, 0.3, DType::bf16, 0x1.9ap-4, 0x1.32p-2);
  expect(-0.3, -0.1, DType::bf16, -0x1.32p-2, -0x1.9ap-4);
  expect(3, 3, DType::f32, 3, 3);
}

TEST(Philox, AUniformRangeBetweenTwoValuesOfTheTypeHasNone) {
  const philox::UniformRange none = philox::uniform_range(1.0001, 1.0002, DType::f16);
  EXPECT_GT(none.first, none.last);
}

}  // namespace
}  // namespace hearth
