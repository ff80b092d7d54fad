#include "backends/cpu/elementwise/binary_loops.hpp"
#include "backends/cpu/elementwise/unary_loops.hpp"
#include "backends/cpu/elementwise/wrapped_loops.hpp"
#include "tests/backends/cpu_levels.hpp"

#include <hearth/streams/op_table.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace hearth::cpu {
namespace {

constexpr double kUnitsInTheLastPlace = 4;

/// The distance of `got` from `want` in f32 units in the last place, subnormals included.
double units_off(float got, double want) {
  const auto rounded = static_cast<float>(want);
  if (got == rounded || (std::isnan(got) && std::isnan(want))) {
    return 0;
  }
  if (!std::isfinite(got) || !std::isfinite(rounded)) {
    return std::numeric_limits<double>::infinity();
  }
  int exponent = 0;
  static_cast<void>(std::frexp(want, &exponent));
  return std::fabs(static_cast<double>(got) - want) /
         std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// Floats of every sign and exponent, including infinities, NaN and both zeros.
std::vector<float> floats_of_all_sizes() {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 40009) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float special : {0.0F,
                              -0.0F,
                              1.0F,
                              -1.0F,
                              88.72F,
                              88.73F,
                              -87.34F,
                              -103.9F,
                              kInfinity,
                              -kInfinity,
                              std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::denorm_min(),
                              std::numeric_limits<float>::max()}) {
    values.push_back(special);
  }
  return values;
}

void expect_close(OpKind kind, double (*exact)(double), double smallest_result = 0) {
  const std::vector<float> in = floats_of_all_sizes();
  for (const IsaLevel level : levels_here()) {
    std::vector<float> out(in.size());
    unary_loops(level).at(kind, DType::f32)(
        out.data(), in.data(), static_cast<std::int64_t>(in.size()));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double want = exact(static_cast<double>(in[i]));
      const bool is_tiny = std::fabs(want) < smallest_result;
      ASSERT_LE(is_tiny ? 0.0 : units_off(out[i], want), kUnitsInTheLastPlace)
          << name(level) << " at " << in[i] << ": " << out[i] << " instead of " << want;
    }
  }
}

TEST(UnaryLoops, ExpIsRightToFourUnits) {
  expect_close(OpKind::exp, [](double x) { return std::exp(x); });
}
TEST(UnaryLoops, LogIsRightToFourUnits) {
  expect_close(OpKind::log, [](double x) { return std::log(x); });
}
TEST(UnaryLoops, TanhIsRightToFourUnits) {
  expect_close(OpKind::tanh, [](double x) { return std::tanh(x); });
}
TEST(UnaryLoops, ErfIsRightToFourUnits) {
  expect_close(OpKind::erf, [](double x) { return std::erf(x); });
}
TEST(UnaryLoops, SigmoidIsRightToFourUnitsWhereItIsNormal) {
  expect_close(
      OpKind::sigmoid,
      [](double x) { return 1.0 / (1.0 + std::exp(-x)); },
      static_cast<double>(std::numeric_limits<float>::min()));
}
TEST(UnaryLoops, Log1pIsRightToFourUnits) {
  expect_close(OpKind::log1p, [](double x) { return std::log1p(x); });
}
TEST(UnaryLoops, Expm1IsRightToFourUnits) {
  expect_close(OpKind::expm1, [](double x) { return std::expm1(x); });
}
TEST(UnaryLoops, AtanIsRightToFourUnits) {
  expect_close(OpKind::atan, [](double x) { return std::atan(x); });
}
TEST(UnaryLoops, RsqrtIsRightToFourUnits) {
  expect_close(OpKind::rsqrt, [](double x) { return 1.0 / std::sqrt(x); });
}

// Every pair of signed zeros, infinities, NaN, and numbers of all sizes.
TEST(BinaryLoops, Atan2IsRightToFourUnitsInAllQuadrants) {
  std::vector<float> sides{0.0F,
                           1.0F,
                           0x1p-149F,
                           0x1p-126F,
                           0x1p127F,
                           std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  for (std::uint32_t i = 0; i < 60; ++i) {
    sides.push_back(std::bit_cast<float>(0x3E000000U + i * 611953U));
  }
  for (std::size_t i = 0; i < 67; ++i) {
    sides.push_back(-sides[i]);
  }
  const auto count = static_cast<std::int64_t>(sides.size());
  std::vector<float> out(sides.size());
  for (const IsaLevel level : levels_here()) {
    for (const float y : sides) {
      binary_loops(level).at(OpKind::atan2, DType::f32)[1](out.data(), &y, sides.data(), count);
      for (std::size_t i = 0; i < sides.size(); ++i) {
        const double want = std::atan2(static_cast<double>(y), static_cast<double>(sides[i]));
        ASSERT_LE(units_off(out[i], want), kUnitsInTheLastPlace)
            << name(level) << ": " << y << ", " << sides[i] << " gives " << out[i];
        ASSERT_TRUE(std::isnan(want) || std::signbit(out[i]) == std::signbit(want))
            << y << ", " << sides[i];
      }
    }
  }
}

// Other levels divide, and so does the loop of two vectors: the bits must be those of a division.
TEST(BinaryLoops, QuotientsByOneNumberAreDivisions) {
  std::vector<float> in = floats_of_all_sizes();
  std::vector<float> plain;  // whole blocks without numbers near the ends of the range
  for (std::uint32_t i = 0; i < 40000; ++i) {
    plain.push_back(std::bit_cast<float>(0x3C000000U + i * 9973U) * (i % 2 == 0 ? 1.0F : -1.0F));
    plain.push_back(i % 3 == 0 ? -0.0F : 0.0F);
  }
  in.insert(in.begin(), plain.begin(), plain.end());
  std::vector<float> divisors{1.41421356F,
                              -3.0F,
                              2.0F,
                              0.1F,
                              7.0F,
                              std::nextafter(2.0F, 0.0F),
                              std::nextafter(1.0F, 2.0F),
                              0x1p-126F,
                              0x1p127F,
                              0x1.8p100F,
                              0.0F,
                              std::numeric_limits<float>::infinity()};
  for (std::uint32_t i = 0; i < 64; ++i) {
    divisors.push_back(std::bit_cast<float>(0x3F800000U + i * 130303U));
  }
  std::vector<float> out(in.size());
  const auto count = static_cast<std::int64_t>(in.size());
  for (const IsaLevel level : levels_here()) {
    for (const float divisor : divisors) {
      out = in;  // in place, as in a chain
      binary_loops(level).at(OpKind::div, DType::f32)[2](out.data(), out.data(), &divisor, count);
      for (std::size_t i = 0; i < in.size(); ++i) {
        const float want = in[i] / divisor;
        ASSERT_TRUE(std::bit_cast<std::uint32_t>(out[i]) == std::bit_cast<std::uint32_t>(want) ||
                    (std::isnan(want) && std::isnan(out[i])))
            << name(level) << ": " << in[i] << " / " << divisor << " is " << out[i];
      }
    }
  }
}

// GELU's steps, from memory and with stores that bypass the caches, at every offset in a cache
// line.
TEST(WrappedLoops, HaveTheBitsOfTheirStepsHoweverTheyReadAndWrite) {
  const std::vector<float> in = floats_of_all_sizes();
  for (const IsaLevel level : levels_here()) {
    const WrappedLoop loop = wrapped_loops(level).at(OpKind::erf);
    if (loop == nullptr) {
      continue;
    }
    for (const float divisor : {1.41421356F, 2.0F, 0.0F}) {
      const auto count = static_cast<std::int64_t>(in.size());
      std::vector<float> want(in.size());
      const float one = 1;
      const float half = 0.5F;
      const BinaryLoops& binary = binary_loops(level);
      binary.at(OpKind::div, DType::f32)[2](want.data(), in.data(), &divisor, count);
      unary_loops(level).at(OpKind::erf, DType::f32)(want.data(), want.data(), count);
      binary.at(OpKind::add, DType::f32)[2](want.data(), want.data(), &one, count);
      binary.at(OpKind::mul, DType::f32)[0](want.data(), in.data(), want.data(), count);
      binary.at(OpKind::mul, DType::f32)[2](want.data(), want.data(), &half, count);
      for (const bool streams : {false, true}) {
        std::vector<float> room(in.size() + 16);
        for (const std::int64_t shift : {0, 1, 7}) {
          float* const out = room.data() + shift;
          loop(out,
               {.x = {in.data()},
                .how = WrappedBefore::quotient,
                .before = {&divisor, true},
                .sum = one,
                .y = {in.data()},
                .factor = half,
                .is_far = true,
                .streams = streams},
               count);
          for (std::size_t i = 0; i < in.size(); ++i) {
            ASSERT_TRUE(std::bit_cast<std::uint32_t>(out[i]) ==
                            std::bit_cast<std::uint32_t>(want[i]) ||
                        (std::isnan(want[i]) && std::isnan(out[i])))
                << name(level) << " at " << in[i] << ": " << out[i] << " not " << want[i];
          }
        }
      }
    }
  }
}

// Near multiples of π a unit in the last place is far smaller than the resolution of the f32
// argument.
TEST(UnaryLoops, SineAndCosineAreRightToTwoParts) {
  const std::vector<float> in = floats_of_all_sizes();
  for (const IsaLevel level : levels_here()) {
    std::vector<float> sine(in.size());
    std::vector<float> cosine(in.size());
    const auto count = static_cast<std::int64_t>(in.size());
    unary_loops(level).at(OpKind::sin, DType::f32)(sine.data(), in.data(), count);
    unary_loops(level).at(OpKind::cos, DType::f32)(cosine.data(), in.data(), count);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto x = static_cast<double>(in[i]);
      if (!std::isfinite(x)) {
        ASSERT_TRUE(std::isnan(sine[i]) && std::isnan(cosine[i])) << in[i];
        continue;
      }
      ASSERT_NEAR(static_cast<double>(sine[i]), std::sin(x), 0x1p-23)
          << name(level) << " at " << in[i];
      ASSERT_NEAR(static_cast<double>(cosine[i]), std::cos(x), 0x1p-23)
          << name(level) << " at " << in[i];
    }
  }
}

TEST(BinaryLoops, PowHasTheSpecialCasesOfTheCLibrary) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> numbers = {0.0F,   -0.0F,       1.0F,        -1.0F,     2.0F,   -2.0F,
                                      3.0F,   -3.0F,       0.5F,        -0.5F,     1e-30F, 1e30F,
                                      -1e30F, kInfinity,   -kInfinity,  nan,       2.5F,   -2.5F,
                                      1e-40F, 16777216.0F, 16777217.0F, 8388609.0F};
  for (const IsaLevel level : levels_here()) {
    const BinaryLoop loop = binary_loops(level).at(OpKind::pow, DType::f32)[0];
    for (const float base : numbers) {
      const std::vector<float> bases(numbers.size(), base);
      std::vector<float> out(numbers.size());
      loop(out.data(), bases.data(), numbers.data(), static_cast<std::int64_t>(numbers.size()));
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const double want = std::pow(static_cast<double>(base), static_cast<double>(numbers[i]));
        ASSERT_LE(units_off(out[i], want), kUnitsInTheLastPlace)
            << name(level) << ": " << base << " to the " << numbers[i] << " is " << out[i];
      }
    }
  }
}

// Tiles, chunks and rows begin anywhere, so an element has the same bits in the middle of a vector
// and alone.
TEST(UnaryLoops, AndPowGiveAnElementItsBitsWhereverTheLoopBegins) {
  const std::vector<float> in = floats_of_all_sizes();
  const auto count = static_cast<std::int64_t>(in.size());
  const auto same = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  };
  for (const IsaLevel level : levels_here()) {
    std::vector<float> together(in.size());
    std::vector<OpKind> kinds{OpKind::log1p, OpKind::expm1, OpKind::atan};
    for (int k = static_cast<int>(OpKind::neg); k <= static_cast<int>(OpKind::relu); ++k) {
      kinds.push_back(static_cast<OpKind>(k));
    }
    for (const OpKind kind : kinds) {
      const UnaryLoop loop = unary_loops(level).at(kind, DType::f32);
      loop(together.data(), in.data(), count);
      for (std::size_t i = 0; i < in.size(); ++i) {
        float alone = 0;
        loop(&alone, &in[i], 1);
        ASSERT_TRUE(same(alone, together[i]))
            << name(level) << " " << name(kind) << " at " << in[i];
      }
    }
    const std::vector<float> exponents(in.rbegin(), in.rend());
    const BinaryLoop pow = binary_loops(level).at(OpKind::pow, DType::f32)[0];
    pow(together.data(), in.data(), exponents.data(), count);
    for (std::size_t i = 0; i < in.size(); ++i) {
      float alone = 0;
      pow(&alone, &in[i], &exponents[i], 1);
      ASSERT_TRUE(same(alone, together[i]))
          << name(level) << " " << in[i] << " to the " << exponents[i];
    }
  }
}

// A tile program's combined loop gives the bits of its parts run one by one (numerics.md).
template <class T>
void expect_parts(OpKind whole,
                  DType dtype,
                  const std::vector<T>& in,
                  const std::vector<OpKind>& parts) {
  const auto count = static_cast<std::int64_t>(in.size());
  const T one{1};
  for (const IsaLevel level : levels_here()) {
    std::vector<T> got(in.size());
    std::vector<T> want = in;
    unary_loops(level).at(whole, dtype)(got.data(), in.data(), count);
    for (const OpKind part : parts) {
      if (part == OpKind::add) {
        binary_loops(level).at(part, dtype)[1](want.data(), &one, want.data(), count);
      } else if (part == OpKind::div) {
        binary_loops(level).at(part, dtype)[1](want.data(), &one, want.data(), count);
      } else {
        unary_loops(level).at(part, dtype)(want.data(), want.data(), count);
      }
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool is_nan = std::isnan(got[i]) && std::isnan(want[i]);
      ASSERT_TRUE(is_nan || (got[i] == want[i] && std::signbit(got[i]) == std::signbit(want[i])))
          << name(level) << " at " << in[i] << ": " << got[i] << " and " << want[i];
    }
  }
}

TEST(UnaryLoops, SigmoidAndRsqrtAreTheirPartsOneByOne) {
  const std::vector<float> in = floats_of_all_sizes();
  const std::vector<double> wide(in.begin(), in.end());
  const std::vector<OpKind> sigmoid{OpKind::neg, OpKind::exp, OpKind::add, OpKind::div};
  const std::vector<OpKind> rsqrt{OpKind::sqrt, OpKind::div};
  expect_parts(OpKind::sigmoid, DType::f32, in, sigmoid);
  expect_parts(OpKind::sigmoid, DType::f64, wide, sigmoid);
  expect_parts(OpKind::rsqrt, DType::f32, in, rsqrt);
  expect_parts(OpKind::rsqrt, DType::f64, wide, rsqrt);
}

// Loops over all elements, as kernels of one node each run them.
template <class T>
class Parts {
 public:
  using Values = std::vector<T>;
  Parts(IsaLevel level, DType dtype) : level_(level), dtype_(dtype) {}

  [[nodiscard]] Values map(OpKind kind, const Values& x) const {
    Values out(x.size());
    unary_loops(level_).at(kind, dtype_)(out.data(), x.data(), count(x));
    return out;
  }
  [[nodiscard]] Values join(OpKind kind, const Values& a, const Values& b) const {
    Values out(a.size());
    binary_loops(level_).at(kind, dtype_)[0](out.data(), a.data(), b.data(), count(a));
    return out;
  }
  [[nodiscard]] Values number(const Values& like, double value) const {
    return Values(like.size(), static_cast<T>(value));
  }

 private:
  static std::int64_t count(const Values& x) { return static_cast<std::int64_t>(x.size()); }
  IsaLevel level_;
  DType dtype_;
};

template <class T>
std::vector<T> log1p_in_parts(const Parts<T>& parts, const std::vector<T>& x) {
  const auto u = parts.join(OpKind::add, parts.number(x, 1), x);
  const auto kept = parts.join(OpKind::add, u, parts.number(x, -1));
  const auto whole = parts.map(OpKind::log, u);
  const auto corrected = parts.join(OpKind::mul, whole, parts.join(OpKind::div, x, kept));
  std::vector<T> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    out[i] = u[i] == T{1} ? x[i] : kept[i] == x[i] ? whole[i] : corrected[i];
  }
  return out;
}
template <class T>
std::vector<T> expm1_in_parts(const Parts<T>& parts, const std::vector<T>& x) {
  const auto half = parts.join(OpKind::mul, x, parts.number(x, 0.5));
  const auto more = parts.join(OpKind::add, parts.map(OpKind::exp, x), parts.number(x, 1));
  return parts.join(OpKind::mul, parts.map(OpKind::tanh, half), more);
}

template <class T>
void expect_same(const char* what, const std::vector<T>& got, const std::vector<T>& want) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool is_nan = std::isnan(got[i]) && std::isnan(want[i]);
    ASSERT_TRUE(is_nan || (got[i] == want[i] && std::signbit(got[i]) == std::signbit(want[i])))
        << what << " at " << i << ": " << got[i] << " and " << want[i];
  }
}

template <class T>
void expect_parts_of_log1p_and_expm1(DType dtype, const std::vector<T>& in) {
  for (const IsaLevel level : levels_here()) {
    SCOPED_TRACE(name(level));
    const Parts<T> parts(level, dtype);
    expect_same("log1p", parts.map(OpKind::log1p, in), log1p_in_parts(parts, in));
    expect_same("expm1", parts.map(OpKind::expm1, in), expm1_in_parts(parts, in));
  }
}

TEST(UnaryLoops, Log1pAndExpm1AreTheirPartsOneByOne) {
  const std::vector<float> in = floats_of_all_sizes();
  expect_parts_of_log1p_and_expm1(DType::f32, in);
  expect_parts_of_log1p_and_expm1(DType::f64, std::vector<double>(in.begin(), in.end()));
}

// One exponent for all elements and one for each element: equal numbers give equal bits.
template <class T>
void expect_powers_of_the_numbers_alone(DType dtype) {
  std::vector<T> bases;
  for (int i = 0; i < 4001; ++i) {
    bases.push_back(static_cast<T>(0.0137 + static_cast<double>(i) * 0.01171));
  }
  const auto count = static_cast<std::int64_t>(bases.size());
  for (const IsaLevel level : levels_here()) {
    const BinaryLoops::Forms& forms = binary_loops(level).at(OpKind::pow, dtype);
    for (const double exponent : {-2.0, -1.0, 0.5, 1.0, 2.0, 3.0, 4.0}) {
      const std::vector<T> exponents(bases.size(), static_cast<T>(exponent));
      std::vector<T> beside(bases.size());
      std::vector<T> for_all(bases.size());
      forms[0](beside.data(), bases.data(), exponents.data(), count);
      forms[2](for_all.data(), bases.data(), exponents.data(), count);
      EXPECT_EQ(beside, for_all) << name(level) << " to the " << exponent;
    }
  }
}

TEST(BinaryLoops, PowFollowsFromItsTwoNumbersAlone) {
  expect_powers_of_the_numbers_alone<float>(DType::f32);
  expect_powers_of_the_numbers_alone<double>(DType::f64);
}

TEST(UnaryLoops, SineAndCosineDoNotDependOnNeighbours) {
  std::vector<float> alone;
  for (int i = 0; i < 1000; ++i) {
    alone.push_back(static_cast<float>(static_cast<double>(i) * 0.7311 - 300));
  }
  std::vector<float> beside = alone;
  beside[17] = 1e6F;  // far beyond the range of the fast path
  const auto count = static_cast<std::int64_t>(alone.size());
  for (const IsaLevel level : levels_here()) {
    for (const OpKind kind : {OpKind::sin, OpKind::cos}) {
      const UnaryLoop loop = unary_loops(level).at(kind, DType::f32);
      std::vector<float> want(alone.size());
      std::vector<float> got(alone.size());
      loop(want.data(), alone.data(), count);
      loop(got.data(), beside.data(), count);
      loop(&want[17], &beside[17], 1);
      EXPECT_EQ(got, want) << name(level);
    }
  }
}

}  // namespace
}  // namespace hearth::cpu
