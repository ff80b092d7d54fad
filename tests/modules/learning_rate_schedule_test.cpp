// Schedules against their closed forms, and the values that drive them.
#include <hearth/modules/learning_rate_schedule.hpp>

#include <hearth/runtime/base/error.hpp>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

constexpr double kExact = 1e-15;

TEST(LearningRateSchedule, AConstantRateStaysOne) {
  for (const std::int64_t step : {0, 1, 99, 1000}) {
    EXPECT_EQ(rate_factor(ConstantRate{}, step, 100), 1);
  }
}

TEST(LearningRateSchedule, AWarmUpRisesInALineToTheFirstRate) {
  const LearningRateSchedule schedule = ConstantRate{.warmup_steps = 4};
  const std::vector<double> wanted{0.2, 0.4, 0.6, 0.8, 1, 1};
  for (std::size_t step = 0; step < wanted.size(); ++step) {
    EXPECT_NEAR(rate_factor(schedule, static_cast<std::int64_t>(step), 100), wanted[step], kExact);
  }
}

TEST(LearningRateSchedule, ALinearRateEndsAtItsEndAndStaysThere) {
  const LearningRateSchedule schedule = LinearRate{.end = 0.1};
  EXPECT_NEAR(rate_factor(schedule, 0, 10), 1, kExact);
  EXPECT_NEAR(rate_factor(schedule, 3, 10), 0.7, kExact);
  EXPECT_NEAR(rate_factor(schedule, 9, 10), 0.1, kExact);
  EXPECT_NEAR(rate_factor(schedule, 50, 10), 0.1, kExact);
}

TEST(LearningRateSchedule, ACosineIsHalfwayDownInTheMiddle) {
  const LearningRateSchedule schedule = CosineRate{.end = 0.2, .warmup_steps = 5};
  EXPECT_NEAR(rate_factor(schedule, 4, 106), 5.0 / 6, kExact);
  EXPECT_NEAR(rate_factor(schedule, 5, 106), 1, kExact);
  EXPECT_NEAR(rate_factor(schedule, 55, 106), 0.6, kExact);
  EXPECT_NEAR(
      rate_factor(schedule, 30, 106), 0.2 + 0.8 * (1 + std::cos(std::numbers::pi / 4)) / 2, kExact);
  EXPECT_NEAR(rate_factor(schedule, 105, 106), 0.2, kExact);
}

TEST(LearningRateSchedule, AStepRateFallsAfterSoManySteps) {
  const LearningRateSchedule schedule = StepRate{.every = 3, .factor = 0.5, .end = 0.2};
  const std::vector<double> wanted{1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2};
  for (std::size_t step = 0; step < wanted.size(); ++step) {
    EXPECT_NEAR(rate_factor(schedule, static_cast<std::int64_t>(step), 20), wanted[step], kExact);
  }
}

TEST(LearningRateSchedule, AnExponentialRateFallsWithEachStep) {
  const LearningRateSchedule schedule = ExponentialRate{.factor = 0.5, .warmup_steps = 1};
  EXPECT_NEAR(rate_factor(schedule, 0, 20), 0.5, kExact);
  EXPECT_NEAR(rate_factor(schedule, 1, 20), 1, kExact);
  EXPECT_NEAR(rate_factor(schedule, 4, 20), 0.125, kExact);
}

TEST(LearningRateSchedule, AFunctionIsGivenTheStepBehindTheWarmUp) {
  const LearningRateSchedule schedule = FunctionRate{
      .factor = [](std::int64_t step) { return static_cast<double>(step); }, .warmup_steps = 2};
  EXPECT_EQ(rate_factor(schedule, 2, 20), 0);
  EXPECT_EQ(rate_factor(schedule, 7, 20), 5);
  const LearningRateSchedule wrong = FunctionRate{.factor = [](std::int64_t) { return -1.0; }};
  EXPECT_THROW(static_cast<void>(rate_factor(wrong, 0, 20)), ArgumentError);
}

// 20 steps, 0.3 of which rise: the highest is step 0.3·20 - 1 = 5, as in the paper's programs.
TEST(LearningRateSchedule, OneCycleRisesToOneAndFallsToItsEnd) {
  const LearningRateSchedule schedule = OneCycleRate{.start = 0.04, .end = 4e-6};
  EXPECT_NEAR(rate_factor(schedule, 0, 20), 0.04, kExact);
  EXPECT_NEAR(rate_factor(schedule, 5, 20), 1, kExact);
  EXPECT_NEAR(rate_factor(schedule, 12, 20), 4e-6 + (1 - 4e-6) / 2, kExact);
  EXPECT_NEAR(rate_factor(schedule, 19, 20), 4e-6, kExact);
  for (std::int64_t step = 1; step < 20; ++step) {
    const double change = rate_factor(schedule, step, 20) - rate_factor(schedule, step - 1, 20);
    EXPECT_EQ(change > 0, step <= 5) << step;
  }
}

TEST(LearningRateSchedule, ARunOfOneStepHasTheFullRate) {
  for (const LearningRateSchedule& schedule : {LearningRateSchedule(ConstantRate{}),
                                               LearningRateSchedule(LinearRate{}),
                                               LearningRateSchedule(CosineRate{}),
                                               LearningRateSchedule(OneCycleRate{}),
                                               LearningRateSchedule(PlateauRate{})}) {
    EXPECT_EQ(rate_factor(schedule, 0, 1), 1) << schedule.index();
  }
}

TEST(LearningRateSchedule, SettingsThatMakeNoSenseAreNamed) {
  const auto expect_refused = [](const LearningRateSchedule& schedule, const char* text) {
    try {
      require_sound(schedule, "Trainer");
      ADD_FAILURE() << text;
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expect_refused(ConstantRate{.warmup_steps = -1}, "warmup_steps of the schedule is -1");
  expect_refused(CosineRate{.end = 1.5}, "end of the schedule is 1.5, but must be in 0 to 1");
  expect_refused(LinearRate{.end = std::nan("")}, "end of the schedule is nan");
  expect_refused(OneCycleRate{.rising = 2}, "rising of the schedule is 2");
  expect_refused(PlateauRate{.factor = 1}, "factor of the schedule is 1");
  expect_refused(PlateauRate{.patience = 0}, "patience of the schedule is 0");
  require_sound(OneCycleRate{}, "Trainer");
  require_sound(PlateauRate{}, "Trainer");
}

TEST(Plateau, FallsAfterPatienceEpochsWithoutABetterFigure) {
  Plateau plateau({.factor = 0.5, .patience = 2, .min_change = 0.1}, Goal::lowest);
  EXPECT_FALSE(plateau.observe(1));
  EXPECT_FALSE(plateau.observe(0.95));  // not better by 0.1
  EXPECT_EQ(plateau.factor(), 1);
  EXPECT_TRUE(plateau.observe(1));
  EXPECT_EQ(plateau.factor(), 0.5);
  EXPECT_FALSE(plateau.observe(0.5));
  EXPECT_FALSE(plateau.observe(0.5));
  EXPECT_TRUE(plateau.observe(std::nan("")));
  EXPECT_EQ(plateau.factor(), 0.25);
}

TEST(Plateau, FallsNoFurtherThanItsEnd) {
  Plateau plateau({.factor = 0.1, .patience = 1, .end = 0.05}, Goal::highest);
  static_cast<void>(plateau.observe(1));
  EXPECT_TRUE(plateau.observe(0));
  EXPECT_TRUE(plateau.observe(0));
  EXPECT_EQ(plateau.factor(), 0.05);
  EXPECT_FALSE(plateau.observe(0));
}

TEST(BestValue, TellsTheBestFromTheRest) {
  BestValue best(Goal::lowest);
  EXPECT_FALSE(best.best());
  EXPECT_FALSE(best.observe(std::nan("")));
  EXPECT_TRUE(best.observe(std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(best.observe(3));
  EXPECT_FALSE(best.observe(3));
  EXPECT_FALSE(best.observe(4));
  EXPECT_EQ(best.misses(), 2);
  EXPECT_TRUE(best.observe(2));
  EXPECT_EQ(best.misses(), 0);
  EXPECT_EQ(best.best(), 2);
}

TEST(BestValue, OfAccuraciesTheHighestIsTheBest) {
  BestValue best(Goal::highest, 0.01);
  EXPECT_TRUE(best.observe(0.5));
  EXPECT_FALSE(best.observe(0.505));
  EXPECT_TRUE(best.observe(0.52));
  EXPECT_THROW(BestValue(Goal::highest, -1), ArgumentError);
}

}  // namespace
}  // namespace hearth
