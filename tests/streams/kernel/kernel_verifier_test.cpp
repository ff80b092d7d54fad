#include <hearth/streams/kernel/kernel_verifier.hpp>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/streams/kernel/example_kernels.hpp"

namespace hearth {
namespace {

using testing::axis;

std::string text(const KernelIR& kernel) {
  const Status status = verify(kernel);
  return status.has_value() ? "no error" : status.error().text;
}

struct Mistake {
  std::string sentence;
  std::function<void(KernelIR&)> make;
};

constexpr auto kNoPrimitive = static_cast<Primitive>(99);
constexpr auto kNoType = static_cast<DType>(99);

// %0 f16 = input 0, %1 f32 = convert %0, %2 f32 = parameter 0, %3 f32 = mul %1 %2,
// %4 f16 = input 1, %5 f32 = convert %4, %6 f32 = add %3 %5, %7 f32 = constant 0,
// %8 bool = less %6 %7, %9 f32 = select %8 %7 %6, %10 f16 = convert %9
// NOLINTNEXTLINE(readability-function-size): a list
const std::vector<Mistake>& plain_mistakes() {
  static const std::vector<Mistake> kAll{
      {"version: 1: 2", [](KernelIR& k) { k.version = 2; }},
      {"space: at most 8 axes: 9", [](KernelIR& k) { k.extents.resize(9); }},
      {"space: symbols count from 0 in the order of the axes: s1 where s0 is next",
       [](KernelIR& k) {
         k.extents = {1, 0};
       }},
      {"input 0: a known type: none", [](KernelIR& k) { k.inputs[0].dtype = kNoType; }},
      {"input 1: at most 8 axes: 9", [](KernelIR& k) { k.inputs[1].map.resize(9); }},
      {"input 0: an axis of the space: i2",
       [](KernelIR& k) { k.inputs[0].map[0].terms[0].axis = 2; }},
      {"input 0: terms in the order of the axes: i0 behind i1",
       [](KernelIR& k) { k.inputs[0].map[1].terms.push_back({.axis = 0}); }},
      {"input 0: a step that is not 0, a divisor from 1, a modulus from 2 (or 0 for none): step 0, "
       "divisor 1, modulus 0",
       [](KernelIR& k) { k.inputs[0].map[0].terms[0].step = 0; }},
      {"input 0: a step that is not 0, a divisor from 1, a modulus from 2 (or 0 for none): step 1, "
       "divisor 0, modulus 0",
       [](KernelIR& k) { k.inputs[0].map[0].terms[0].divisor = 0; }},
      {"input 0: a step that is not 0, a divisor from 1, a modulus from 2 (or 0 for none): step 1, "
       "divisor 1, modulus 1",
       [](KernelIR& k) { k.inputs[0].map[0].terms[0].modulus = 1; }},
      {"parameter 0: a known type: none", [](KernelIR& k) { k.parameters[0] = kNoType; }},
      {"node %3 no primitive: a known primitive: 99",
       [](KernelIR& k) { k.body[3].primitive = kNoPrimitive; }},
      {"node %3 mul: a known type: none", [](KernelIR& k) { k.body[3].type = kNoType; }},
      {"node %3 mul: 2 operands: operand 1 is -1",
       [](KernelIR& k) { k.body[3].operands[1] = kNoNode; }},
      {"node %3 mul: 2 operands: operand 2 is 0", [](KernelIR& k) { k.body[3].operands[2] = 0; }},
      {"node %3 mul: operands stand before it: %3", [](KernelIR& k) { k.body[3].operands[1] = 3; }},
      {"node %3 mul: operands stand before it: %-2",
       [](KernelIR& k) { k.body[3].operands[1] = -2; }},
      {"node %3 mul: what it does not need is 0: number 1, bits 0x0",
       [](KernelIR& k) { k.body[3].number = 1; }},
      {"node %0 input: what it does not need is 0: number 0, bits 0x1",
       [](KernelIR& k) { k.body[0].bits = 1; }},
      {"node %0 input: one of 2 inputs: 2", [](KernelIR& k) { k.body[0].number = 2; }},
      {"node %0 input: one of 2 inputs: -1", [](KernelIR& k) { k.body[0].number = -1; }},
      {"node %0 input: its type is f16: f32", [](KernelIR& k) { k.body[0].type = DType::f32; }},
      {"node %2 parameter: one of 1 parameters: 1", [](KernelIR& k) { k.body[2].number = 1; }},
      {"node %2 parameter: its type is f32: f64", [](KernelIR& k) { k.body[2].type = DType::f64; }},
      {"node %7 constant: a value of f32: bits 0x3fb999999999999a",
       [](KernelIR& k) { k.body[7].bits = constant_bits(0.1, DType::f64); }},
      {"node %1 convert: a type that is not the operand's: f16",
       [](KernelIR& k) { k.body[1].type = DType::f16; }},
      {"node %3 mul: operands of one type: f16 and f32",
       [](KernelIR& k) { k.body[3].operands[0] = 0; }},
      {"node %3 mul: operands are a type that is computed with: f16",
       [](KernelIR& k) {
         k.body[3].operands = {0, 0, kNoNode};
       }},
      {"node %3 mul: its type is f32: i32", [](KernelIR& k) { k.body[3].type = DType::i32; }},
      {"node %8 less: its type is bool: f32", [](KernelIR& k) { k.body[8].type = DType::f32; }},
      {"node %8 and: operands are bool: f32",
       [](KernelIR& k) { k.body[8].primitive = Primitive::logical_and; }},
      {"node %9 select: the condition is bool: f32",
       [](KernelIR& k) { k.body[9].operands[0] = 6; }},
      {"node %9 select: operands of one type: f32 and f16",
       [](KernelIR& k) { k.body[9].operands[2] = 0; }},
      {"node %9 philox: operands of one type: bool and f32",
       [](KernelIR& k) { k.body[9].primitive = Primitive::philox; }},
      {"node %4 index: one of 2 axes: 2",
       [](KernelIR& k) {
         k.body[4] = {Primitive::index, DType::i64, {-1, -1, -1}, 2};
       }},
      {"node %4 index: its type is i64: f16",
       [](KernelIR& k) { k.body[4].primitive = Primitive::index; }},
      {"node %4 position: its type is i64: f32",
       [](KernelIR& k) {
         k.body[4] = {Primitive::position, DType::f32};
       }},
      {"node %10 softmax: an axis that is folded: none",
       [](KernelIR& k) { k.body[10].primitive = Primitive::softmax; }},
      {"space: folded axes among its 2: mask 0x4", [](KernelIR& k) { k.folded = 4; }},
      {"outputs: at least one: none", [](KernelIR& k) { k.outputs.clear(); }},
      {"output 0: each axis of its value once, as it is: axis 1",
       [](KernelIR& k) { k.outputs[0].map[1] = axis(0); }},
      {"output 0: each axis of its value once, as it is: axis 0",
       [](KernelIR& k) { k.outputs[0].map[0].start = 1; }},
      {"output 0: each axis of its value once, as it is: without i1",
       [](KernelIR& k) { k.outputs[0].map.pop_back(); }},
      {"output 0: a value of the body: %11", [](KernelIR& k) { k.outputs[0].value = 11; }},
      {"output 0: the type of its value: f32, the value is f16",
       [](KernelIR& k) { k.outputs[0].dtype = DType::f32; }},
      {"node %10 convert: its value is used: by nothing",
       [](KernelIR& k) {
         k.outputs[0].value = 9;
         k.outputs[0].dtype = DType::f32;
       }},
      {"input 2: a node reads it: none", [](KernelIR& k) { k.inputs.push_back(k.inputs[0]); }},
      {"parameter 1: a node reads it: none",
       [](KernelIR& k) { k.parameters.push_back(DType::f32); }},
      {"schedule: a vector of 2^n elements: 3", [](KernelIR& k) { k.schedule.vector = 3; }},
  };
  return kAll;
}

// %0 f32 = input 0, %1 f32 = mul %0 %0, %2 f32 = fold mean %1, %3 f32 = parameter 0,
// %4 f32 = add %2 %3, %5 f32 = sqrt %4, %6 f32 = div %0 %5
const std::vector<Mistake>& fold_mistakes() {
  static const std::vector<Mistake> kAll{
      {"node %2 fold: an axis that is folded: none", [](KernelIR& k) { k.folded = 0; }},
      {"node %2 fold: a known fold: 9", [](KernelIR& k) { k.body[2].number = 9; }},
      {"node %2 fold: its type is f32: f64", [](KernelIR& k) { k.body[2].type = DType::f64; }},
      {"node %5 fold: operands with an element at each place of a row: %4 has one",
       [](KernelIR& k) { k.body[5].primitive = Primitive::fold; }},
      {"node %5 log_softmax: operands with an element at each place of a row: %4 has one",
       [](KernelIR& k) { k.body[5].primitive = Primitive::log_softmax; }},
      {"node %6 softmax_backward: operands with an element at each place of a row: %5 has one",
       [](KernelIR& k) { k.body[6].primitive = Primitive::softmax_backward; }},
      {"output 1: each axis of its value once, as it is: axis 1",
       [](KernelIR& k) { k.outputs[1].map = k.outputs[0].map; }},
      {"output 0: each axis of its value once, as it is: without i1",
       [](KernelIR& k) { k.outputs[0].map = k.outputs[1].map; }},
  };
  return kAll;
}

void expect_all(const KernelIR& good, const std::vector<Mistake>& mistakes) {
  ASSERT_EQ(text(good), "no error") << to_string(good);
  for (const Mistake& mistake : mistakes) {
    KernelIR bad = good;
    mistake.make(bad);
    EXPECT_EQ(text(bad), "kernel: " + mistake.sentence);
  }
}

TEST(KernelVerifier, NamesEachBrokenRuleOfABody) {
  expect_all(testing::scale_bias_relu(), plain_mistakes());
}

TEST(KernelVerifier, NamesEachBrokenRuleOfAFold) {
  expect_all(testing::root_mean_square(), fold_mistakes());
}

// ---- kernels of the builder ----

// A random kernel of up to three axes, whose operands the types allow.
// NOLINTNEXTLINE(readability-function-cognitive-complexity): a choice at each line
KernelIR random_kernel(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  const int axes = static_cast<int>(below(4));
  std::vector<std::int32_t> symbols;
  symbols.reserve(static_cast<std::size_t>(axes));
  for (int i = 0; i < axes; ++i) {
    symbols.push_back(static_cast<std::int32_t>(below(2)) == 0 ? i : 0);
  }
  for (std::size_t i = 1; i < symbols.size(); ++i) {  // in the order of the axes
    symbols[i] = std::min(symbols[i], symbols[i - 1] + 1);
  }
  const std::uint32_t folded =
      axes > 0 && below(2) == 0
          ? static_cast<std::uint32_t>(1 + below((std::size_t{1} << axes) - 1))
          : 0;
  KernelBuilder b(symbols, folded);
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::i8};
  std::vector<KernelValue> values;
  const auto some = [&](DType type) { return b.convert(values[below(values.size())], type); };
  for (std::size_t i = 0; i < 1 + below(3); ++i) {
    std::vector<AffineIndex> map;
    for (int a = 0; a < axes; ++a) {
      if (below(3) != 0) {
        const IndexTerm term{.axis = a,
                             .step = below(2) == 0 ? 1 : -2,
                             .divisor = 1 + static_cast<std::int64_t>(below(2)),
                             .modulus = below(3) == 0 ? 4 : 0};
        map.push_back({.start = static_cast<std::int64_t>(below(3)), .terms = {term}});
      }
    }
    values.push_back(b.input(static_cast<DType>(below(kDTypeCount)), map));
  }
  values.push_back(b.parameter(kTypes[below(6)]));
  constexpr std::array kIntegers{DType::i32, DType::i64, DType::u8, DType::i8};
  const auto grow = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const DType type = kTypes[below(6)];
      const DType real = below(2) == 0 ? DType::f32 : DType::f64;
      const DType whole = kIntegers[below(4)];
      switch (below(8)) {
        case 0:
          values.push_back(some(type) * some(type));
          break;
        case 1:
          values.push_back(erf(some(real)));
          break;
        case 2:
          values.push_back(select(less(some(type), some(type)), some(type), some(type)));
          break;
        case 3:
          values.push_back(random_word(some(DType::i64), some(DType::i64), b.position()));
          break;
        case 4:
          values.push_back(logical_not(equal(some(type), some(type))));
          break;
        case 5:
          values.push_back(shift_left(some(whole), bit_xor(some(whole), some(whole))));
          break;
        case 6:
          values.push_back(shift_right(some(whole), bit_and(some(whole), some(whole))));
          values.push_back(bit_or(some(whole), b.convert(atan(some(real)), whole)));
          break;
        default:
          values.push_back(-some(type) + 3.0);
      }
    }
  };
  grow(1 + below(12));
  if (folded != 0) {
    const KernelValue real = some(DType::f32);
    values.push_back(b.fold(FoldOp::mean, real));
    values.push_back(b.fold(FoldOp::min, some(kTypes[below(5)])));
    values.push_back(b.apply(Primitive::softmax, DType::f32, std::array{real}));
    grow(below(6));
  }
  for (const KernelValue& value : std::vector(values)) {  // so that each input is used
    b.output(value);
  }
  return b.take();
}

TEST(KernelVerifier, TakesWhateverTheBuilderMakes) {
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const KernelIR kernel = random_kernel(seed);
    const std::string verdict = text(kernel);
    // A folded value must vary along a row: this check is left to the caller of the builder.
    const bool has_no_row = verdict.find("an element at each place of a row") != std::string::npos;
    EXPECT_TRUE(verdict == "no error" || has_no_row) << "seed " << seed << ": " << verdict << "\n"
                                                     << to_string(kernel);
    refused += has_no_row ? 1 : 0;
    EXPECT_EQ(kernel, random_kernel(seed));
  }
  EXPECT_LT(refused, 1500);
}

}  // namespace
}  // namespace hearth
