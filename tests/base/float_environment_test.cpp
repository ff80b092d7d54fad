#include <hearth/runtime/base/float_environment.hpp>

#include <hearth/runtime/base/thread_executor.hpp>

#include <gtest/gtest.h>

#include <cfenv>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace hearth::detail {
namespace {

// Values that the compiler must not evaluate at compile time.
volatile double zero = 0;
volatile double one = 1;
volatile long double long_three = 3;

class FloatEnvironments : public ::testing::Test {
 protected:
  ~FloatEnvironments() override { std::fesetenv(FE_DFL_ENV); }
};

TEST_F(FloatEnvironments, RoundToNearestInsideOfAGuardAlone) {
  for (const int rounding : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(rounding), 0);
    const double before = one / 3.0;
    const long double long_before = 1.0L / long_three;
    {
      const FloatEnvironment environment;
      EXPECT_EQ(std::fegetround(), FE_TONEAREST);
      EXPECT_EQ(one / 3.0, 1.0 / 3.0);
      EXPECT_EQ(1.0L / long_three, 1.0L / 3.0L);
    }
    EXPECT_EQ(std::fegetround(), rounding);
    EXPECT_EQ(one / 3.0, before);
    EXPECT_EQ(1.0L / long_three, long_before);
  }
}

#ifdef __x86_64__
TEST_F(FloatEnvironments, KeepDenormalsInsideOfAGuardAlone) {
  constexpr unsigned kFlushAll = 0x8040;
  _mm_setcsr(_mm_getcsr() | kFlushAll);
  volatile float small = 1e-38F;
  {
    const FloatEnvironment environment;
    const float tenth = small * 0.1F;
    EXPECT_EQ(tenth, 1e-39F);
  }
  EXPECT_EQ(_mm_getcsr() & kFlushAll, kFlushAll);
}
#endif

#ifdef __x86_64__
TEST_F(FloatEnvironments, OfVectorsAloneRoundToNearest) {
  std::feclearexcept(FE_ALL_EXCEPT);
  std::fesetround(FE_UPWARD);
  const double before = one / 3.0;
  {
    const VectorEnvironment environment;
    const VectorEnvironment inner;
    EXPECT_EQ(one / 3.0, 1.0 / 3.0);
    zero = one / zero < 0 ? 1 : 0;
  }
  EXPECT_EQ(one / 3.0, before);
  EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO), 0);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
}
#endif

// A compiler may move arithmetic of values that lie in registers over a guard's start and end.
TEST_F(FloatEnvironments, OfVectorsRoundPinnedValues) {
  const double dividend = one;
  for (const int rounding : {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    std::feclearexcept(FE_ALL_EXCEPT);
    double quotient = 0;
    {
      const VectorEnvironment environment;
      quotient = pinned(pinned(dividend) / 3.0);
    }
    EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), 0) << rounding;
    EXPECT_EQ(quotient, 1.0 / 3.0) << rounding;
  }
}

#ifdef __GLIBC__
TEST_F(FloatEnvironments, RaiseNoSignalInsideOfAGuard) {
  constexpr int kTrapped = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;
  std::feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(kTrapped);
  {
    const FloatEnvironment environment;
    EXPECT_TRUE(zero / zero != zero);
    EXPECT_GT(one / zero, 1e308);
    volatile long double quotient = 1.0L / (long_three - 3.0L);  // divides in x87
    EXPECT_GT(quotient, 1e308L);
  }
  EXPECT_EQ(fegetexcept(), kTrapped);
  long_three = long_three * 1.0L;  // where x87 would raise a pending exception
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), 0);
}
#endif

TEST_F(FloatEnvironments, LeaveTheProgramsFlagsAsTheyWere) {
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_UNDERFLOW);
  {
    const FloatEnvironment environment;
    zero = one / zero < 0 ? 1 : 0;
    long_three = long_three / 7.0L * 7.0L;
    std::feclearexcept(FE_UNDERFLOW);
  }
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), FE_UNDERFLOW);
  long_three = 3;
}

TEST_F(FloatEnvironments, OfThreadsAreNotThoseOfWhoStartsThem) {
  std::fesetround(FE_UPWARD);
  int rounding = -1;
  ThreadExecutor threads;
  EXPECT_TRUE(threads.spawn({.name = "rounds"}, [&] { rounding = std::fegetround(); })
                  ->join(Deadline::in(std::chrono::seconds(60))));
  EXPECT_EQ(rounding, FE_TONEAREST);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
}

}  // namespace
}  // namespace hearth::detail
