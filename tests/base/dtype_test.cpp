#include <hearth/runtime/base/dtype.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

template <class Half>
Half from_bits(std::uint32_t bits) {
  Half half;
  half.bits = static_cast<std::uint16_t>(bits);
  return half;
}

// Patterns spread over all floats, both signs, and every place where rounding changes direction.
std::vector<float> probes(int dropped_bits) {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32U); bits += 65521) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  const std::uint32_t half = 1U << static_cast<unsigned>(dropped_bits - 1);
  for (std::uint64_t bits = half; bits < (std::uint64_t{1} << 32U);
       bits += std::uint64_t{2} * half) {
    for (const std::uint64_t near : {bits - 1, bits, bits + 1}) {
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(near)));
    }
  }
  return values;
}

// Whether a pattern survives the way to float and back: bit for bit, or as a NaN of the same sign.
template <class Half>
bool round_trips(std::uint32_t bits) {
  const auto value = static_cast<float>(from_bits<Half>(bits));
  const Half back(value);
  if (!std::isnan(value)) {
    return back.bits == bits;
  }
  return std::isnan(static_cast<float>(back)) && (back.bits & 0x8000U) == (bits & 0x8000U);
}

template <class Half>
void expect_all_patterns_round_trip() {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    ASSERT_TRUE(round_trips<Half>(bits)) << bits;
  }
}

TEST(F16, RoundTripsAllPatterns) {
  expect_all_patterns_round_trip<f16>();
}

TEST(Bf16, RoundTripsAllPatterns) {
  expect_all_patterns_round_trip<bf16>();
}

TEST(F16, KnowsItsLandmarks) {
  EXPECT_EQ(f16(1.0F).bits, 0x3c00U);
  EXPECT_EQ(f16(-2.0F).bits, 0xc000U);
  EXPECT_EQ(f16(65504.0F).bits, 0x7bffU);
  EXPECT_EQ(f16(65519.996F).bits, 0x7bffU);
  EXPECT_EQ(f16(65520.0F).bits, 0x7c00U);
  EXPECT_EQ(f16(0x1p-24F).bits, 0x0001U);
  EXPECT_EQ(f16(0x1p-25F).bits, 0x0000U);
  EXPECT_EQ(f16(0x1.000002p-25F).bits, 0x0001U);
  EXPECT_EQ(f16(-0.0F).bits, 0x8000U);
  EXPECT_EQ(f16(std::numeric_limits<float>::infinity()).bits, 0x7c00U);
}

#ifdef __FLT16_MANT_DIG__
TEST(F16, RoundsLikeTheCompilersHalf) {
  __extension__ using Half = _Float16;
  for (const float value : probes(13)) {
    const auto wanted = std::bit_cast<std::uint16_t>(static_cast<Half>(value));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(f16(value))));
    } else {
      ASSERT_EQ(f16(value).bits, wanted) << std::bit_cast<std::uint32_t>(value);
    }
  }
}

TEST(F16, WidensLikeTheCompilersHalf) {
  __extension__ using Half = _Float16;
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const auto wanted = static_cast<float>(std::bit_cast<Half>(static_cast<std::uint16_t>(bits)));
    if (!std::isnan(wanted)) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(from_bits<f16>(bits))),
                std::bit_cast<std::uint32_t>(wanted));
    }
  }
}
#endif

// The nearer of the two neighbours, the even one on a tie, by exact arithmetic.
std::uint32_t nearest_bf16(float value) {
  const std::uint32_t low = std::bit_cast<std::uint32_t>(value) >> 16U;
  const auto widen = [](std::uint32_t bits) {
    return static_cast<double>(static_cast<float>(from_bits<bf16>(bits)));
  };
  const double below = std::abs(static_cast<double>(value) - widen(low));
  // Beyond the largest finite value, the next step of equal size stands for infinity.
  const bool is_largest = (low & 0x7fffU) == 0x7f7fU;
  const double step = is_largest ? 0x1p120 : std::abs(widen(low + 1) - widen(low));
  const double above = step - below;
  return above < below || (above == below && (low & 1U) != 0) ? low + 1 : low;
}

bool rounds_to_nearest_even(float value) {
  if (std::isnan(value)) {
    return std::isnan(static_cast<float>(bf16(value)));
  }
  return std::isinf(value) || bf16(value).bits == nearest_bf16(value);
}

TEST(Bf16, RoundsToNearestEven) {
  for (const float value : probes(16)) {
    ASSERT_TRUE(rounds_to_nearest_even(value)) << std::bit_cast<std::uint32_t>(value);
  }
}

TEST(Bf16, KeepsInfinity) {
  EXPECT_EQ(bf16(std::numeric_limits<float>::infinity()).bits, 0x7f80U);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80U);
}

TEST(DType, VisitGivesTheElementTypeOfThatSize) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_TRUE(visit_dtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
      return dtype_of<T> == dtype && sizeof(T) == static_cast<std::size_t>(size_bytes(dtype)) &&
             is_integer(dtype) == kIsInteger;
    })) << name(dtype);
  }
}

static_assert(Element<float> && Element<std::int64_t> && Element<bool> && Element<bf16> &&
              Element<std::int8_t>);
static_assert(!Element<unsigned> && !Element<long long> && !Element<std::int16_t> &&
              !Element<char> && !Element<long double> && !Element<const float> && !Element<float*>);

TEST(DType, ANumberFitsWhenItStaysWhatItIs) {
  for (const double value : {0.0, 255.0}) {
    EXPECT_TRUE(fits(value, DType::u8));
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {-1.0, 256.0, 0.5, nan, infinity}) {
    EXPECT_FALSE(fits(value, DType::u8)) << value;
  }
  for (const std::int64_t value : {-128, -1, 127}) {
    EXPECT_TRUE(fits(value, DType::i8)) << value;
  }
  for (const std::int64_t value : {-129, 128}) {
    EXPECT_FALSE(fits(value, DType::i8)) << value;
  }
  EXPECT_TRUE(fits(1.0, DType::boolean));
  EXPECT_FALSE(fits(2.0, DType::boolean));
  EXPECT_TRUE(fits(-0x1p31, DType::i32));
  EXPECT_FALSE(fits(0x1p31, DType::i32));
  EXPECT_TRUE(fits(-0x1p63, DType::i64));
  EXPECT_FALSE(fits(0x1p63, DType::i64));
  EXPECT_FALSE(fits(std::int64_t{1} << 31U, DType::i32));
  EXPECT_FALSE(fits(std::int64_t{65520}, DType::f16));
  EXPECT_TRUE(fits(std::numeric_limits<std::int64_t>::max(), DType::bf16));
}

TEST(DType, AFloatThatFitsStaysFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto rounded = [](double value, DType dtype) {
    return dtype == DType::f16    ? static_cast<float>(f16(static_cast<float>(value)))
           : dtype == DType::bf16 ? static_cast<float>(bf16(static_cast<float>(value)))
                                  : static_cast<float>(value);
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    EXPECT_EQ(static_cast<double>(rounded(largest_value(dtype), dtype)), largest_value(dtype));
    double value = largest_value(dtype);
    for (int i = 0; i < 200; ++i, value *= 1 + 0x1p-14) {
      EXPECT_EQ(fits(value, dtype), std::isfinite(rounded(value, dtype))) << name(dtype) << value;
      EXPECT_EQ(fits(-value, dtype), fits(value, dtype));
    }
    EXPECT_TRUE(fits(infinity, dtype));
    EXPECT_TRUE(fits(std::numeric_limits<double>::quiet_NaN(), dtype));
  }
  EXPECT_TRUE(fits(std::numeric_limits<double>::max(), DType::f64));
}

// Files and recordings store these numbers.
TEST(DType, KeepsItsNumber) {
  constexpr std::array kInOrder{DType::f32,
                                DType::f64,
                                DType::f16,
                                DType::bf16,
                                DType::i32,
                                DType::i64,
                                DType::u8,
                                DType::boolean,
                                DType::i8};
  static_assert(kInOrder.size() == kDTypeCount);
  for (std::size_t i = 0; i < kInOrder.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kInOrder[i]), i) << name(kInOrder[i]);
  }
}

TEST(DType, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i < kDTypeCount; ++i) {
    EXPECT_TRUE(names.insert(name(static_cast<DType>(i))).second) << i;
  }
}

TEST(DType, IsAFloatAnIntegerOrBool) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(int{is_float(dtype)} + int{is_integer(dtype)} + int{dtype == DType::boolean}, 1);
  }
}

}  // namespace
}  // namespace hearth
