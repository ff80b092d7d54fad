#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/custom_op.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/runtime/update_rule.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using ::testing::AllOf;
using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using ::testing::StartsWith;
using Tensors = std::vector<Tensor>;

// Custom ops, on each backend that computes.
class CustomOps : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  [[nodiscard]] Tensor f32(const std::vector<float>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }

 private:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

template <class Error, class Call>
std::string text_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.error().text;
  }
  return "nothing was thrown";
}

CustomOp make_swish() {
  return custom_op("swish",
                   [](const Tensor& x, const Tensor& slope) { return x * sigmoid(slope * x); });
}

TEST_P(CustomOps, GiveTheBitsOfTheirParts) {
  const CustomOp swish = make_swish();
  const std::vector<float> values{-3, -0.5F, 0, 0.25F, 7};
  const Tensor x = f32(values, {5});
  const Tensor slope = f32({0.5F}, {1});
  const Tensor parts = x * sigmoid(slope * x);
  const std::vector<float> want = parts.to_vector<float>();
  const std::vector<float> got = swish(x, slope).to_vector<float>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-6F * (1 + std::abs(want[i]))) << i;
  }
}

TEST_P(CustomOps, TakeActivationsAndBoundsAsTheirParts) {
  const CustomOp chain = custom_op("chain", [](const Tensor& x) {
    const Tensor gated = gelu(silu(x), GeluForm::tanh) + log1p(square(x)) * expm1(x);
    return masked_fill(clamp(gated, -1, 2), logical_and(x<0, x> - 1), 0.5);
  });
  const Tensor x = f32({-3, -0.5F, 0, 0.25F, 7}, {5});
  const Tensor gated = gelu(silu(x), GeluForm::tanh) + log1p(square(x)) * expm1(x);
  const std::vector<float> want =
      masked_fill(clamp(gated, -1, 2), logical_and(x<0, x> - 1), 0.5).to_vector<float>();
  const std::vector<float> got = chain(x).to_vector<float>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-6F * (1 + std::abs(want[i]))) << i;
  }
}

TEST_P(CustomOps, Broadcast) {
  const CustomOp scaled = custom_op(
      "scaled", [](const Tensor& x, const Tensor& a, const Tensor& b) { return x * a + b; });
  const Tensor x = f32({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor a = f32({10, 100}, {2, 1});
  EXPECT_THAT(scaled(x, a, f32({1, 2, 3}, {3})).to_vector<float>(),
              ElementsAre(11, 22, 33, 401, 502, 603));
  EXPECT_THAT(scaled(transpose(x, 0, 1), f32({2}, {}), f32({1, 2}, {2})).to_vector<float>(),
              ElementsAre(3, 10, 5, 12, 7, 14));
}

TEST_P(CustomOps, TakeNumbersThatChange) {
  const CustomOp clip =
      custom_op("clip", [](const Tensor& x, const Tensor& most) { return minimum(x, most); });
  const Tensor x = f32({1, 2, 3}, {3});
  EXPECT_THAT(clip(x, 2).to_vector<float>(), ElementsAre(1, 2, 2));
  EXPECT_THAT(clip(x, 1.5).to_vector<float>(), ElementsAre(1, 1.5F, 1.5F));
}

TEST_P(CustomOps, TakeIntegersExactly) {
  const CustomOp plus = custom_op("plus", [](const Tensor& x, const Tensor& y) { return x + y; });
  const Tensor x = Tensor::from(device(), std::vector<std::int64_t>{0, 1}, {2});
  for (const std::int64_t number : {(std::int64_t{1} << 53) + 1,
                                    std::numeric_limits<std::int64_t>::max() - 1,
                                    std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_THAT(plus(x, number).to_vector<std::int64_t>(), ElementsAre(number, number + 1));
    EXPECT_THAT(plus(number, x).to_vector<std::int64_t>(), ElementsAre(number, number + 1));
  }
  const CustomOp around = custom_op("around", [&](const Tensor& each) { return plus(each, -7); });
  EXPECT_THAT(around(x).to_vector<std::int64_t>(), ElementsAre(-7, -6));
}

TEST_P(CustomOps, RefuseTheNumbersThatAPlainOpRefuses) {
  const CustomOp plus = custom_op("add", [](const Tensor& x, const Tensor& y) { return x + y; });
  const CustomOp around =
      custom_op("around", [&](const Tensor& x) { return plus(x, std::int64_t{3'000'000'000}); });
  const Tensor i32 = Tensor::from(device(), std::vector<std::int32_t>{0, 1}, {2});
  const Tensor i64 = Tensor::from(device(), std::vector<std::int64_t>{0, 1}, {2});
  const auto expect_alike = [&](const Tensor& x, Arg number) {
    const std::string plain = text_of<ArgumentError>([&] { static_cast<void>(x + number); });
    EXPECT_THAT(plain, HasSubstr("cast the tensor first"));
    EXPECT_EQ(text_of<ArgumentError>([&] { static_cast<void>(plus(x, number)); }), plain);
    EXPECT_EQ(text_of<ArgumentError>([&] { static_cast<void>(plus(number, x)); }), plain);
  };
  expect_alike(i32, std::int64_t{3'000'000'000});
  expect_alike(i64, std::uint64_t{1} << 63);
  expect_alike(cast(i64, DType::u8), -1);
  // An expression has the types of its operands: a number takes that of the first tensor.
  EXPECT_THAT(text_of<DtypeError>([&] { static_cast<void>(plus(i32, 1.5)); }),
              HasSubstr("add: the number 1.5 is a float and the tensor is i32[2]"));
  EXPECT_THAT(text_of<ArgumentError>([&] { static_cast<void>(around(i32)); }),
              HasSubstr("the number 3000000000 does not fit i32[1]: cast the tensor first"));
}

TEST_P(CustomOps, MakeOtherTypes) {
  const CustomOp above =
      custom_op("above", [](const Tensor& x, const Tensor& y) { return greater(x, y); });
  const Tensor result = above(f32({1, 5}, {2}), f32({3}, {}));
  EXPECT_EQ(result.dtype(), DType::boolean);
  EXPECT_THAT(result.to_vector<std::uint8_t>(), ElementsAre(0, 1));
  const CustomOp count = custom_op("count", [](const Tensor& x) { return x * 3 + 1; });
  const Tensor ints = Tensor::from(device(), std::vector<std::int64_t>{5, -1}, {2});
  EXPECT_THAT(count(ints).to_vector<std::int64_t>(), ElementsAre(16, -2));
}

TEST_P(CustomOps, HaveNoRoundingIn16BitsInBetween) {
  const CustomOp there_and_back =
      custom_op("there and back", [](const Tensor& x) { return x * 4096.0 * 4096.0 / 16777216.0; });
  const Tensor x = cast(f32({3, 0.5F}, {2}), DType::f16);
  // 3 * 4096 * 4096 is beyond f16.
  EXPECT_THAT(cast(there_and_back(x), DType::f32).to_vector<float>(), ElementsAre(3, 0.5F));
}

TEST_P(CustomOps, AreCapturedOnceForAllThreads) {
  int calls = 0;
  const CustomOp twice = custom_op("twice", [&calls](const Tensor& x) {
    ++calls;
    return x + x;
  });
  static_cast<void>(twice(f32({1}, {1})));
  const int first = calls;
  std::vector<float> seen;
  std::jthread([&] { seen = twice(f32({4, 5}, {2})).to_vector<float>(); }).join();
  EXPECT_THAT(seen, ElementsAre(8, 10));
  EXPECT_EQ(calls, first);
}

TEST_P(CustomOps, OfOtherCustomOpsAreOne) {
  const CustomOp swish = make_swish();
  const CustomOp both =
      custom_op("both", [&](const Tensor& x) { return swish(x, 1.0) + swish(x, 1.0); });
  EXPECT_THAT(both(f32({0, 1}, {2})).to_vector<float>(),
              ElementsAre(0, ::testing::FloatNear(1.4621172F, 1e-6F)));
}

TEST_P(CustomOps, MayRunInPlace) {
  const CustomOp next = custom_op("next", [](const Tensor& x) { return x + 1; });
  Tensor x = f32({1, 2, 3}, {3});
  for (int i = 0; i < 3; ++i) {
    x = next(std::move(x));
  }
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(4, 5, 6));
}

INSTANTIATE_TEST_SUITE_P(On,
                         CustomOps,
                         HEARTH_TESTED_DEVICES("reference:0", "cpu:0", "sim:0"),
                         [](const auto& tested) {
                           const std::string name = tested.param;
                           return name.substr(0, name.find(':'));
                         });

class Captures : public ::testing::Test {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device("reference:0"); }
  [[nodiscard]] Tensor ones3() const { return ones(device(), {3}); }
  Runtime runtime_{RuntimeOptions{.devices = {{.name = "reference:0"}, {.name = "sim:0"}}}};
};

TEST_F(Captures, DeriveGradientsFromTheParts) {
  const CustomOp swish = make_swish();
  const CustomOp mixed = custom_op("mixed", [](const Tensor& x, const Tensor& y, const Tensor& z) {
    return where(greater(x, y), x * exp(-square(z)), maximum(y, z) / (1 + abs(x)));
  });
  HostRandom random(3);
  check_gradients(device(),
                  [&](const Tensors& in) { return swish(in[0], in[1]); },
                  {random.signed_values({3, 4}), random.signed_values({4})});
  check_gradients(
      device(),
      [&](const Tensors& in) { return mixed(in[0], in[1], in[2]); },
      {random.distinct({2, 3}), random.signed_values({2, 1}), random.signed_values({3})});
  check_gradients(
      device(), [&](const Tensors& in) { return swish(in[0], 0.7); }, {random.signed_values({5})});
}

TEST_F(Captures, SayWhichPartHasNoGradient) {
  const CustomOp step = custom_op("step", [](const Tensor& x) { return cast(x > 0, DType::f32); });
  const int line = __LINE__ - 1;
  EXPECT_EQ(step(ones3()).to_vector<float>(), (std::vector<float>{1, 1, 1}));
  const auto differentiate = [&] {
    static_cast<void>(grad([&](const Tensors& in) { return sum(step(in[0])); }, {ones3()}));
  };
  const std::string text = text_of<ArgumentError>(differentiate);
  EXPECT_THAT(text, HasSubstr("step: it has no gradient, because greater ("));
  EXPECT_THAT(text, HasSubstr("expression_test.cpp:" + std::to_string(line)));
}

TEST_F(Captures, RefuseWhatIsNotElementwiseAndNameItsLine) {
  const CustomOp row = custom_op("row", [](const Tensor& x) { return x / sum(x); });
  const auto line = static_cast<std::uint32_t>(__LINE__ - 1);
  try {
    static_cast<void>(row(ones3()));
    FAIL() << "a sum was captured";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.error().text, HasSubstr("row: sum is not elementwise"));
    EXPECT_EQ(error.error().op, "row");
    EXPECT_EQ(error.error().location.line, line);
  }
}

TEST_F(Captures, RefuseReadsAtOnce) {
  bool was_read = false;
  const CustomOp branch = custom_op("branch", [&](const Tensor& x) {
    const bool is_large = x.item() > 1;
    was_read = true;
    return is_large ? x : -x;
  });
  EXPECT_THAT(text_of<ArgumentError>([&] { static_cast<void>(branch(ones3())); }),
              HasSubstr("branch: readback finds no value to read"));
  EXPECT_FALSE(was_read);
}

TEST_F(Captures, RefuseWhatIsNoElement) {
  Generator generator(1);
  const auto text = [&](auto function) {
    return text_of<ArgumentError>([&] { static_cast<void>(custom_op("bad", function)(ones3())); });
  };
  EXPECT_THAT(text([&](const Tensor& x) { return dropout(x, 0.5, generator); }),
              HasSubstr("bad: dropout gives other numbers at each place"));
  EXPECT_THAT(
      text([](const Tensor& x) { return x + ones(x.device(), {3}); }),
      HasSubstr("bad: ones makes f32[3]: an elementwise function makes tensors of the shape of "
                "its operands, which is [1]"));
  EXPECT_THAT(text([](const Tensor& x) {
                return reshape(x, {1, 1});
              }),
              HasSubstr("bad: reshape is not elementwise"));
  EXPECT_THAT(text([&](const Tensor&) { return ones3(); }),
              HasSubstr("bad: the function returned a tensor that it has not made"));
  EXPECT_THAT(text([](const Tensor& x) { return full(x.device(), {}, 1); }),
              HasSubstr("bad: the function uses 0 of its 1 tensors"));
}

TEST_F(Captures, RefuseATensorThatIsNoOperand) {
  const Tensor other = ones3();
  const CustomOp shifted = custom_op("shifted", [&](const Tensor& x) { return x + other; });
  const auto line = static_cast<std::uint32_t>(__LINE__ - 1);
  try {
    static_cast<void>(shifted(ones3()));
    FAIL() << "a tensor from outside was captured";
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.error().text,
              "shifted: add uses f32[3] of reference:0, which is no operand of the function: pass "
              "it as one");
    EXPECT_EQ(error.error().op, "shifted");
    EXPECT_EQ(error.error().location.line, line);
  }
}

// For a single element these are elementwise.
TEST_F(Captures, RefuseWhatDependsOnTheShape) {
  const Tensor x = Tensor::from(device(), std::vector<float>{1, 2, 3}, {3});
  const auto text = [&](auto function) {
    return text_of<ArgumentError>([&] { static_cast<void>(custom_op("bad", function)(x)); });
  };
  EXPECT_THAT(text([](const Tensor& a) {
                return a - slice(a, 0, {0, 1});
              }),
              HasSubstr("bad: slice is not elementwise"));
  EXPECT_THAT(text([](const Tensor& a) {
                return a - slice(a, 0, {0, 4});
              }),
              HasSubstr("bad: slice is not elementwise"));
  EXPECT_THAT(text([](const Tensor& a) { return a + slice(a, 0, {.step = -1}); }),
              HasSubstr("bad: slice is not elementwise"));
  EXPECT_THAT(text([](const Tensor& a) { return a - sum(a, -1, {.keep_dims = true}); }),
              HasSubstr("bad: sum is not elementwise"));
  EXPECT_THAT(text([](const Tensor& a) { return a * transpose(a, -1, -2); }),
              HasSubstr("bad: transpose is not elementwise"));
  constexpr const char* kDepends =
      "bad: what the function computes depends on the shape of its operands";
  EXPECT_THAT(text([](const Tensor& a) { return a * a.element_count(); }), HasSubstr(kDepends));
  EXPECT_THAT(text([](const Tensor& a) { return a.rank() == 1 ? a : -a; }), HasSubstr(kDepends));
  EXPECT_THAT(text([calls = std::make_shared<int>(0)](const Tensor& a) { return a + ++*calls; }),
              HasSubstr("or is not the same in each call"));
}

TEST_F(Captures, SayWhichShapesAFunctionIsCapturedWith) {
  const CustomOp picky = custom_op("picky", [](const Tensor& a) { return reshape(a, {1}); });
  EXPECT_THAT(text_of<ShapeError>([&] { static_cast<void>(picky(ones3())); }),
              AllOf(HasSubstr("picky: reshape: "),
                    HasSubstr("an elementwise function takes tensors of each shape, and is "
                              "captured with [1] and [1009, 61, 67]")));
}

TEST_F(Captures, LeaveAMistakeOfEachShapeAsItIs) {
  const CustomOp wrong =
      custom_op("wrong", [](const Tensor& a) { return exp(cast(a, DType::i32)); });
  EXPECT_THAT(text_of<DtypeError>([&] { static_cast<void>(wrong(ones3())); }), StartsWith("exp: "));
  const CustomOp own = custom_op("own", [](const Tensor& a) -> Tensor {
    throw ArgumentError(Error{.code = ErrorCode::invalid_argument, .text = "not today"});
    return a;
  });
  EXPECT_EQ(text_of<ArgumentError>([&] { static_cast<void>(own(ones3())); }), "not today");
}

TEST_F(Captures, TakeWhatChangesNothingOrHasTheShapeOfAnOperand) {
  const CustomOp harmless = custom_op("harmless", [](const Tensor& a, const Tensor& b) {
    return reshape(expand(a, a.shape()), a.shape().dims()) + full(a.device(), a.shape(), 2) +
           full(a.device(), {1}, 3) * slice(b, 0, {});
  });
  EXPECT_EQ(harmless(ones(device(), {2, 3}), ones(device(), {3})).to_vector<float>(),
            std::vector<float>(6, 6));
}

TEST_F(Captures, CallTheFunctionTwiceAndOnceForEachGradient) {
  int calls = 0;
  const CustomOp counted = custom_op("counted", [&](const Tensor& a, const Tensor& b) {
    ++calls;
    return a * b;
  });
  static_cast<void>(counted(ones3(), ones3()));
  EXPECT_EQ(calls, 4);
  static_cast<void>(counted(ones3(), ones3()));
  EXPECT_EQ(calls, 4);
}

TEST_F(Captures, NameTheFunctionThatWasCalled) {
  const Tensor vector = ones3();
  const auto text = [&](auto function) {
    return text_of<ArgumentError>([&] { static_cast<void>(custom_op("bad", function)(vector)); });
  };
  EXPECT_THAT(text([](const Tensor& a) { return matmul(a, a); }),
              HasSubstr("bad: matmul is not elementwise"));
  EXPECT_THAT(text([](const Tensor& a) { return exp(unsqueeze(sin(a), 0)); }),
              HasSubstr("bad: unsqueeze is not elementwise"));
  EXPECT_THAT(text([](const Tensor& a) {
                return stack({a, a});
              }),
              HasSubstr("bad: stack is not elementwise"));
  const CustomOp finite =
      custom_op("finite", [](const Tensor& a) { return cast(is_finite(a), DType::f32); });
  EXPECT_THAT(
      text_of<ArgumentError>([&] {
        static_cast<void>(grad([&](const Tensors& in) { return sum(finite(in[0])); }, {vector}));
      }),
      HasSubstr("finite: it has no gradient, because is_finite ("));
}

TEST_F(Captures, NameTheOpAndTheLineOfAWrongCall) {
  const CustomOp swish = make_swish();
  try {
    static_cast<void>(swish(ones(device(), {3}), ones(device(), {4})));
    FAIL() << "shapes that do not broadcast";
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.error().location.line, static_cast<std::uint32_t>(__LINE__ - 3));
    EXPECT_EQ(error.error().op, "swish");
    EXPECT_THAT(error.error().text, HasSubstr("swish: shapes do not broadcast"));
  }
}

TEST_F(Captures, LongFunctionsDrainTheirLane) {
  const CustomOp many = custom_op("many", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 1000; ++i) {
      y = y + 1;
    }
    return y;
  });
  EXPECT_EQ(many(ones3()).to_vector<float>(), (std::vector<float>{1001, 1001, 1001}));
}

TEST_F(Captures, AFunctionThatThrowsLeavesNothingBehind) {
  bool fails = true;
  const CustomOp moody = custom_op("moody", [&](const Tensor& x) {
    Tensor y = x + 1;
    if (fails) {
      throw std::runtime_error("not today");
    }
    return y;
  });
  EXPECT_THROW(static_cast<void>(moody(ones3())), std::runtime_error);
  fails = false;
  EXPECT_EQ(moody(ones3()).to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST_F(Captures, AFailedOpCarriesTheNameOfTheExpression) {
  const CustomOp share = custom_op("share", [](const Tensor& x, const Tensor& y) { return x / y; });
  const Tensor bad = share(Tensor::from(device(), std::vector<std::int32_t>{1, 2}, {2}),
                           Tensor::from(device(), std::vector<std::int32_t>{1, 0}, {2}));
  try {
    static_cast<void>(bad.to_vector<std::int32_t>());
    FAIL() << "a division by zero";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.error().op, "share");
    EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
  }
}

// ---- a program's own updates ----

UpdateRule make_decay() {
  return UpdateRule({.name = "decay", .state_count = 1, .scalar_count = 2},
                    [](const UpdateRule::Operands& o) -> Tensors {
                      const Tensor state = o.scalars[1] * o.state[0] + o.gradient;
                      return {o.parameter - o.scalars[0] * state, state};
                    });
}

TEST_F(Captures, AnUpdateRuleReplacesParameterAndState) {
  UpdateRule rule = make_decay();
  Tensor p = full(device(), {2}, 10);
  Tensor state = full(device(), {2}, 4);
  for (int step = 0; step < 2; ++step) {
    UpdateGroup group(device());
    Tensor* const states[] = {&state};
    const double scalars[] = {0.5, 0.25};
    group.update(rule, p, ones(device(), {2}), states, scalars);
    group.commit().get();
  }
  EXPECT_EQ(state.to_vector<float>(), (std::vector<float>{1.5F, 1.5F}));
  EXPECT_EQ(p.to_vector<float>(), (std::vector<float>{8.25F, 8.25F}));
}

TEST_F(Captures, AnUpdateRuleOfAPoisonedGradientChangesNothing) {
  UpdateRule rule = make_decay();
  Tensor p = full(device(), {2}, 10);
  Tensor state = full(device(), {2}, 4);
  const Tensor zero = Tensor::from(device(), std::vector<std::int32_t>{0, 0}, {2});
  const Tensor poisoned = cast(div(Arg(1), zero), DType::f32);
  UpdateGroup group(device());
  Tensor* const states[] = {&state};
  const double scalars[] = {0.5, 0.25};
  group.update(rule, p, poisoned, states, scalars);
  EXPECT_THROW(group.commit().get(), DeviceError);
  EXPECT_EQ(p.to_vector<float>(), (std::vector<float>{10, 10}));
  EXPECT_EQ(state.to_vector<float>(), (std::vector<float>{4, 4}));
}

TEST_F(Captures, AnUpdateRuleThatDoesNotFitIsRefused) {
  UpdateRule rule = make_decay();
  Tensor p = full(device(), {2}, 10);
  Tensor state = full(device(), {2}, 4);
  UpdateGroup group(device());
  Tensor* const states[] = {&state};
  const double one[] = {0.5};
  EXPECT_THAT(
      text_of<ArgumentError>([&] { group.update(rule, p, ones(device(), {2}), states, one); }),
      "decay: takes 1 states, 2 scalars and 0 inputs, was given 1, 1 and 0");
  UpdateRule forgetful({.name = "forgetful", .state_count = 1},
                       [](const UpdateRule::Operands& o) -> Tensors { return {o.parameter}; });
  EXPECT_THAT(
      text_of<ArgumentError>([&] { group.update(forgetful, p, ones(device(), {2}), states, {}); }),
      HasSubstr(
          "forgetful: the function returned 1 tensors; the new parameter and 1 states are 2"));
  EXPECT_TRUE(p.is_valid());
}

TEST_F(Captures, AnUpdateRuleThatIsNotElementwiseIsRefused) {
  Tensor p = full(device(), {3}, 10);
  UpdateGroup group(device());
  const auto text = [&](const UpdateRule::Function& function) {
    UpdateRule rule({.name = "centred"}, function);
    return text_of<ArgumentError>([&] { group.update(rule, p, ones3(), {}, {}); });
  };
  EXPECT_THAT(text([](const UpdateRule::Operands& o) -> Tensors {
                return {o.parameter - (o.gradient - slice(o.gradient, 0, {0, 1}))};
              }),
              HasSubstr("centred: slice is not elementwise"));
  EXPECT_THAT(text([](const UpdateRule::Operands& o) -> Tensors {
                return {o.parameter - o.gradient / o.gradient.element_count()};
              }),
              HasSubstr("centred: what the function computes depends on the shape"));
  EXPECT_EQ(p.to_vector<float>(), (std::vector<float>{10, 10, 10}));
}

TEST_F(Captures, AnUpdateOfTensorsThatDoNotGoTogetherNamesTheMismatch) {
  UpdateRule rule({.name = "plain"}, [](const UpdateRule::Operands& o) -> Tensors {
    return {o.parameter - o.gradient};
  });
  const Device other = runtime_.device("sim:0");
  Tensor p = ones3();
  Tensor elsewhere = ones(other, {3});
  UpdateGroup group(device());
  EXPECT_EQ(
      text_of<DtypeError>([&] { group.update(rule, p, ones(device(), {3}, DType::f64), {}, {}); }),
      "plain: parameter f32[3] and gradient f64[3] have different types; cast one");
  EXPECT_EQ(text_of<ShapeError>([&] { group.update(rule, p, ones(device(), {2}), {}, {}); }),
            "plain: parameter f32[3] and gradient f32[2] differ");
  EXPECT_EQ(text_of<DeviceMismatch>([&] { group.update(rule, p, ones(other, {3}), {}, {}); }),
            "plain: gradient f32[3] is on sim:0, the update group on reference:0; move it with "
            "to(device)");
  EXPECT_EQ(
      text_of<DeviceMismatch>([&] { group.update(rule, elsewhere, ones(other, {3}), {}, {}); }),
      "plain: parameter f32[3] is on sim:0, the update group on reference:0; move it with "
      "to(device)");
}

}  // namespace
}  // namespace hearth
