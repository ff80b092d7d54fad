// randint and multinomial: ranges, frequencies within a bound that the seed meets with a margin,
// and invalid weights.
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace hearth {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::thrown_text;
using RandomTest = testing::ReferenceTest;

constexpr std::uint64_t kSeed = 20261125;

// Allows six standard deviations for `draws` with probability p.
void expect_frequency(std::int64_t hits, std::int64_t draws, double p) {
  const auto count = static_cast<double>(draws);
  EXPECT_NEAR(static_cast<double>(hits), count * p, 6 * std::sqrt(count * p * (1 - p)) + 1)
      << "seed " << kSeed;
}

TEST_F(RandomTest, RandintIsUniformOverTheRange) {
  Generator generator(kSeed);
  const std::vector<std::int64_t> drawn =
      randint(device(), {7000}, generator, -3, 4).to_vector<std::int64_t>();
  for (std::int64_t value = -3; value < 4; ++value) {
    expect_frequency(std::ranges::count(drawn, value), 7000, 1.0 / 7);
  }
  EXPECT_EQ(std::ranges::min(drawn), -3);
  EXPECT_EQ(std::ranges::max(drawn), 3);
  EXPECT_THAT(integers(randint(device(), {50}, generator, 255, 256, DType::u8)), Each(255));
  EXPECT_EQ(randint(device(), {2}, generator, 0, 2, DType::f32).dtype(), DType::f32);
  Generator again(kSeed);
  EXPECT_EQ(integers(randint(device(), {7000}, again, -3, 4)), drawn);
}

TEST_F(RandomTest, RandintIsUniformFarFromZero) {
  constexpr std::int64_t kFar = std::int64_t{1} << 53U;
  for (const std::int64_t low : {kFar - 4, -kFar, std::int64_t{1'000'000'000'000'000}}) {
    Generator generator(kSeed);
    const std::vector<std::int64_t> drawn =
        randint(device(), {4000}, generator, low, low + 4).to_vector<std::int64_t>();
    for (std::int64_t value = low; value < low + 4; ++value) {
      expect_frequency(std::ranges::count(drawn, value), 4000, 1.0 / 4);
    }
  }
}

TEST_F(RandomTest, WeightsWhoseSumIsInfiniteAreDrawnEvenly) {
  const Tensor weights = Tensor::from(device(), {3e38F, 3e38F, 3e38F}, {3}, DType::f32);
  for (const bool with_replacement : {true, false}) {
    Generator generator(kSeed);
    std::vector<std::int64_t> counts(3);
    for (int i = 0; i < 300; ++i) {
      const Tensor drawn =
          multinomial(weights, 1, generator, {.with_replacement = with_replacement});
      ++counts.at(static_cast<std::size_t>(integers(drawn).front()));
    }
    for (const std::int64_t count : counts) {
      expect_frequency(count, 300, 1.0 / 3);
    }
  }
}

TEST_F(RandomTest, RandintRefusesWhatItCannotDraw) {
  Generator generator(kSeed);
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)randint(device(), {2}, generator, 3, 3); }),
            "randint: [3, 3) has no whole number");
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)randint(device(), {2}, generator, 0, 257, DType::u8); }),
            "randint: [0, 257) goes beyond u8");
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)randint(device(), {2}, generator, 0, std::int64_t{1} << 54U); }),
            "randint: [0, 18014398509481984) goes beyond 2^53, or has more numbers than that");
  EXPECT_EQ(thrown_text<DtypeError>(
                [&] { (void)randint(device(), {2}, generator, 0, 2, DType::boolean); }),
            "randint: [0, 2) makes numbers, not bool");
  EXPECT_EQ(generator.counter(), 0U) << "nothing was drawn";
}

TEST_F(RandomTest, DrawsFollowWeightsOfAnySize) {
  Generator generator(kSeed);
  for (const double scale : {1e-300, 1e-60, 1e300}) {
    const Tensor weights = Tensor::from(device(), std::vector<double>{1 * scale, 3 * scale}, {2});
    const std::vector<std::int64_t> drawn =
        multinomial(weights, 8000, generator, {.with_replacement = true}).to_vector<std::int64_t>();
    expect_frequency(std::ranges::count(drawn, 1), 8000, 3.0 / 4);
  }
}

TEST_F(RandomTest, DrawsWithReplacementFollowTheWeights) {
  Generator generator(kSeed);
  const Tensor weights = f32({0, 1, 0, 3, 4, 0}, {6});
  const std::vector<std::int64_t> drawn =
      multinomial(weights, 8000, generator, {.with_replacement = true}).to_vector<std::int64_t>();
  expect_frequency(std::ranges::count(drawn, 1), 8000, 1.0 / 8);
  expect_frequency(std::ranges::count(drawn, 3), 8000, 3.0 / 8);
  expect_frequency(std::ranges::count(drawn, 4), 8000, 4.0 / 8);
  EXPECT_EQ(
      std::ranges::count(drawn, 1) + std::ranges::count(drawn, 3) + std::ranges::count(drawn, 4),
      8000)
      << "weights of 0 are never drawn";
}

TEST_F(RandomTest, DrawsWithoutReplacementDifferAndFollowTheWeights) {
  Generator generator(kSeed);
  constexpr std::int64_t kRows = 4000;
  const Tensor weights = expand(f64({1, 0, 2, 5}, {1, 4}), {kRows, 4});
  const Tensor drawn = multinomial(weights, 3, generator);
  ASSERT_EQ(drawn.shape(), (Shape{kRows, 3}));
  const std::vector<std::int64_t> places = drawn.to_vector<std::int64_t>();
  std::int64_t first_is_3 = 0;
  std::int64_t second_is_2_after_3 = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::set<std::int64_t> row_set(places.begin() + static_cast<std::ptrdiff_t>(3 * row),
                                         places.begin() + static_cast<std::ptrdiff_t>(3 * row + 3));
    ASSERT_THAT(row_set, ElementsAre(0, 2, 3));
    if (places[3 * row] == 3) {
      ++first_is_3;
      second_is_2_after_3 += places[3 * row + 1] == 2 ? 1 : 0;
    }
  }
  expect_frequency(first_is_3, kRows, 5.0 / 8);
  expect_frequency(second_is_2_after_3, first_is_3, 2.0 / 3);
}

TEST_F(RandomTest, ADrawIsARepeatableFunctionOfTheSeed) {
  const Tensor weights = f32({1, 2, 3}, {3});
  for (const bool with_replacement : {false, true}) {
    Generator first(kSeed);
    Generator second(kSeed);
    const MultinomialOptions options{.with_replacement = with_replacement};
    EXPECT_EQ(integers(multinomial(weights, 2, first, options)),
              integers(multinomial(weights, 2, second, options)));
    EXPECT_GT(first.counter(), 0U);
  }
}

TEST_F(RandomTest, WeightsThatCannotBeDrawnFromPoisonTheResult) {
  Generator generator(kSeed);
  const auto is_poisoned = [&](const Tensor& weights, std::int64_t count, bool with_replacement) {
    try {
      static_cast<void>(
          multinomial(weights, count, generator, {.with_replacement = with_replacement})
              .to_vector<std::int64_t>());
      return false;
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_range);
      EXPECT_EQ(error.error().op, "multinomial");
      EXPECT_EQ(error.error().text,
                "multinomial: row 0 cannot be drawn from: its weights sum to 0, there are fewer "
                "above 0 than draws, or one is negative or no finite number");
      return true;
    }
  };
  EXPECT_FALSE(is_poisoned(f32({1, 1, 0}, {3}), 2, false));
  EXPECT_TRUE(is_poisoned(f32({1, 1, 0}, {3}), 3, false)) << "two weights for three draws";
  EXPECT_FALSE(is_poisoned(f32({1, 0, 0}, {3}), 3, true));
  EXPECT_TRUE(is_poisoned(f32({0, 0, 0}, {3}), 1, true));
  EXPECT_TRUE(is_poisoned(f32({1, -1, 3}, {3}), 1, true));
  EXPECT_TRUE(is_poisoned(f32({1, NAN, 3}, {3}), 1, false));
  EXPECT_TRUE(is_poisoned(f32({1, INFINITY, 3}, {3}), 1, false));
}

TEST_F(RandomTest, MultinomialRefusesCountsAndShapes) {
  Generator generator(kSeed);
  const Tensor weights = f32({1, 1}, {2});
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)multinomial(weights, 3, generator); }),
            "multinomial: 3 draws of 2 classes without replacement");
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)multinomial(weights, 0, generator, {.with_replacement = true}); }),
            "multinomial: 0 draws of 2 classes with replacement");
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)multinomial(zeros(device(), {1, 1, 1}), 1, generator);
              }),
              HasSubstr("multinomial: weights must be [classes] or [rows, classes]"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)multinomial(i32({1}, {1}), 1, generator); }),
              HasSubstr("multinomial: does not take i32"));
}

}  // namespace
}  // namespace hearth
