#include "case_families.hpp"

namespace hearth::conformance {
namespace {

using testing::Precision;

template <class Attributes>
OpCase over_shapes(OpKind kind, Precision precision, const std::vector<Attributes>& attributes) {
  OpCase out{.kind = kind, .precision = precision, .calls = {}};
  for (const Shape& shape : odd_shapes()) {
    for (const Attributes& each : attributes) {
      out.calls.push_back(
          {.inputs = {}, .outputs = {{.shape = shape}}, .attributes = bytes_of(each)});
    }
  }
  return out;
}

OpCase arange_case() {
  OpCase out{.kind = OpKind::arange, .precision = Precision::rounded, .calls = {}};
  for (const std::int64_t count : {0, 1, 7, 64, 100}) {
    for (const ArangeAttributes range :
         {ArangeAttributes{0, 1}, ArangeAttributes{-3, 2}, ArangeAttributes{5, 0}}) {
      out.calls.push_back(
          {.inputs = {}, .outputs = {{.shape = {count}}}, .attributes = bytes_of(range)});
    }
  }
  out.calls.push_back({.inputs = {},
                       .outputs = {{.shape = {1000}}},
                       .attributes = bytes_of(ArangeAttributes{.start = 0.5, .step = 0.25}),
                       .dtypes = kFloatTypes});
  return out;
}

}  // namespace

std::vector<OpCase> creation_cases() {
  // The second counter crosses 32 bits within a few blocks.
  constexpr std::uint64_t kSeed = 0x123456789abcdefU;
  constexpr std::uint64_t kCrossing = 0xfffffffeU;
  return {
      over_shapes<ScalarAttributes>(
          OpKind::fill, Precision::exact, {{.real = 1.5, .integer = 3}, {.real = 0, .integer = 0}}),
      arange_case(),
      over_shapes<RandomAttributes>(OpKind::random_uniform,
                                    Precision::exact,
                                    {{.seed = kSeed, .counter = 0, .a = 0, .b = 1},
                                     {.seed = 7, .counter = kCrossing, .a = 2, .b = 6},
                                     {.seed = 11, .counter = 3, .a = -0.1, .b = 0.7},
                                     {.seed = 12, .counter = 0, .a = 1, .b = 1 + 0x1p-6},
                                     {.seed = 13, .counter = 0, .a = 1, .b = 1}}),
      over_shapes<RandomAttributes>(OpKind::random_normal,
                                    Precision::normal,
                                    {{.seed = kSeed, .counter = 5, .a = 0, .b = 1},
                                     {.seed = 7, .counter = kCrossing, .a = 3, .b = 0.5}}),
      over_shapes<RandomAttributes>(OpKind::random_bernoulli,
                                    Precision::exact,
                                    {{.seed = kSeed, .counter = 9, .a = 0.3, .b = 0},
                                     {.seed = 7, .counter = kCrossing, .a = 0.9, .b = 0},
                                     {.seed = 1, .counter = 0, .a = 0, .b = 0},
                                     {.seed = 1, .counter = 0, .a = 1, .b = 0}}),
  };
}

}  // namespace hearth::conformance
