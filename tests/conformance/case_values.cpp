#include "case_values.hpp"

#include <hearth/runtime/base/philox.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace hearth::conformance {
namespace {

/// Two random words of an element, as a fraction in [0, 1) and a whole number.
struct Draw {
  double unit;
  std::uint32_t word;
};

Draw draw(std::uint64_t seed, std::uint64_t i) {
  const philox::Block words = philox::block(seed, i);
  return {static_cast<double>(philox::unit_f32(words[0])), words[1] >> 4U};
}

double special_value(std::uint64_t i) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array kValues{std::numeric_limits<double>::quiet_NaN(),
                               kInfinity,
                               -kInfinity,
                               0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               2.5,
                               -2.5,
                               0.5,
                               -100.0,
                               100.0,
                               3.0};
  return kValues[i % kValues.size()];
}

double apart(const Draw& random) {
  return (0.125 + 1.875 * random.unit) * (random.word % 2 == 0 ? 1.0 : -1.0);
}

double real_value(Values values, const Draw& random, std::uint64_t i) {
  switch (values) {
    case Values::positive:
      return 0.125 + 1.875 * random.unit;
    case Values::wide:
      return 12.0 * random.unit - 6.0;
    case Values::exponents:
      return 4.0 * random.unit - 2.0;
    case Values::grid:
      return static_cast<double>(random.word % 7) - 3.0;
    case Values::quarters:
      return static_cast<double>(random.word % 65) / 4.0 - 8.0;
    case Values::distinct:
      return static_cast<double>(i * 101 % 255) - 127.0;
    case Values::probability:
      return 0.05 + 0.95 * random.unit;
    case Values::near_one:
      return 0.99 + 0.02 * random.unit;
    case Values::special:
      return special_value(i);
    case Values::with_nan:
      return i % 7 == 3 ? std::numeric_limits<double>::quiet_NaN() : apart(random);
    case Values::masked:
      return i % 3 == 1 ? -std::numeric_limits<double>::infinity() : apart(random);
    case Values::apart:
    case Values::places:
    case Values::extremes:
    default:
      return apart(random);
  }
}

template <class T>
std::int64_t extreme_value(std::uint64_t i) {
  constexpr auto kLow = static_cast<std::int64_t>(std::numeric_limits<T>::min());
  constexpr auto kHigh = static_cast<std::int64_t>(std::numeric_limits<T>::max());
  constexpr bool kSigned = std::is_signed_v<T>;
  constexpr std::array kValues{kLow,
                               kHigh,
                               std::int64_t{0},
                               std::int64_t{1},
                               kSigned ? std::int64_t{-1} : kHigh - 2,
                               kLow + 1,
                               kHigh - 1,
                               std::int64_t{2},
                               std::int64_t{7},
                               std::int64_t{100},
                               kHigh / 2};
  return kValues[i % kValues.size()];
}

std::int64_t extreme_value(DType dtype, std::uint64_t i) {
  if (dtype == DType::u8) {
    return extreme_value<std::uint8_t>(i);
  }
  if (dtype == DType::i8) {
    return extreme_value<std::int8_t>(i);
  }
  return dtype == DType::i32 ? extreme_value<std::int32_t>(i) : extreme_value<std::int64_t>(i);
}

std::int64_t integer_value(const InputSpec& input,
                           DType dtype,
                           const Draw& random,
                           std::uint64_t i) {
  const bool is_signed = dtype != DType::u8;
  const auto word = static_cast<std::int64_t>(random.word);
  switch (input.values) {
    case Values::places:
      return input.bound > 0 ? word % input.bound : 0;
    case Values::extremes:
      return extreme_value(dtype, i);
    case Values::positive:
      return 1 + word % 7;
    case Values::exponents:
      return word % 5;
    case Values::grid:
      return word % 7 - (is_signed ? 3 : 0);
    case Values::wide:
    case Values::quarters:
      return word % 65 - (is_signed ? 32 : 0);
    case Values::distinct:
      return static_cast<std::int64_t>(i * 101 % 255) - (is_signed ? 127 : 0);
    default:
      return (1 + word / 2 % 7) * (is_signed && word % 2 != 0 ? -1 : 1);
  }
}

std::vector<Number> make_values(const InputSpec& input, DType dtype, std::uint64_t seed) {
  std::vector<Number> out(static_cast<std::size_t>(input.shape.element_count()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Draw random = draw(seed, i);
    if (is_float(dtype)) {
      out[i].real = real_value(input.values, random, i);
    } else if (dtype == DType::boolean) {
      out[i].integer = random.word % 2;
    } else {
      out[i].integer = integer_value(input, dtype, random, i);
    }
  }
  return out;
}

/// The last large values, because a test requests the same values once for each layout.
struct Kept {
  Shape shape;
  Values values = Values::apart;
  std::int64_t bound = 0;
  DType dtype = DType::f32;
  std::uint64_t seed = 0;
  std::vector<Number> made = {};
};

}  // namespace

std::vector<Number> case_values(const InputSpec& input, DType dtype, std::uint64_t seed) {
  constexpr std::int64_t kLarge = 4096;
  constexpr std::size_t kKept = 4;
  if (input.shape.element_count() < kLarge) {
    return make_values(input, dtype, seed);
  }
  static std::array<Kept, kKept> kept;
  static std::size_t oldest = 0;
  for (const Kept& each : kept) {
    if (!each.made.empty() && each.seed == seed && each.dtype == dtype &&
        each.values == input.values && each.bound == input.bound && each.shape == input.shape) {
      return each.made;
    }
  }
  Kept& next = kept[oldest++ % kKept];
  next = {input.shape, input.values, input.bound, dtype, seed, make_values(input, dtype, seed)};
  return next.made;
}

}  // namespace hearth::conformance
