// floor, ceil, round, trunc, sign, floor_divide and remainder by the rules of C and Python, on each
// backend that runs on this machine's cores.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using testing::thrown_text;
using Tensors = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class RoundTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  template <class T>
  [[nodiscard]] Tensor of(const std::vector<T>& values) const {
    return Tensor::from(device(), values, {static_cast<std::int64_t>(values.size())});
  }

 private:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

// Python's remainder, which has the sign of b.
double python_remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

TEST_P(RoundTest, RoundsToWholeNumbersBitForBit) {
  std::vector<double> in{0.0,        -0.0,      0.5,        -0.5,   1.5,
                         2.5,        -2.5,      0.49999997, -0.3,   0.7,
                         8388607.5,  8388609.0, -1e10,      1e300,  kInfinity,
                         -kInfinity, 3.0,       -3.0,       0x1p52, 4503599627370495.5,
                         1e-310,     -1e-310};
  for (int i = 0; i < 40; ++i) {
    in.push_back(-5 + i * 0.3125);
  }
  const std::vector<float> narrow(in.begin(), in.end());
  const auto same_bits = [](auto got, auto want) {
    return std::signbit(got) == std::signbit(want) && got == want;
  };
  const auto check = [&](const std::string& name, Tensor (*op)(Arg), double (*exact)(double)) {
    const std::vector<double> wide_out = op(of(in)).to_vector<double>();
    const std::vector<float> narrow_out = op(of(narrow)).to_vector<float>();
    for (std::size_t i = 0; i < in.size(); ++i) {
      EXPECT_TRUE(same_bits(wide_out[i], exact(in[i])))
          << name << "(" << in[i] << ") = " << wide_out[i];
      const auto want = static_cast<float>(exact(static_cast<double>(narrow[i])));
      EXPECT_TRUE(same_bits(narrow_out[i], want))
          << name << "(" << narrow[i] << ") = " << narrow_out[i];
    }
    EXPECT_TRUE(std::isnan(op(of<double>({NAN})).item())) << name;
    EXPECT_THAT(op(of<std::int32_t>({-3, 7})).to_vector<std::int32_t>(), ElementsAre(-3, 7))
        << name;
  };
  check("floor", floor, std::floor);
  check("ceil", ceil, std::ceil);
  check("round", round, std::nearbyint);
  check("trunc", trunc, std::trunc);
}

// The device may run the ops one by one, or as one kernel.
TEST_P(RoundTest, ChainsGiveWhatTheirPartsGive) {
  std::vector<float> in;
  for (int i = 0; i < 300; ++i) {
    in.push_back(static_cast<float>(i - 150) * 0.37F);
  }
  const Tensor x = of(in);
  const std::vector<float> got =
      (floor(x * 0.5) + ceil(x * 0.25) + round(x) + trunc(x * 1.5)).to_vector<float>();
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(got[i],
              std::floor(in[i] * 0.5F) + std::ceil(in[i] * 0.25F) + std::nearbyint(in[i]) +
                  std::trunc(in[i] * 1.5F))
        << in[i];
  }
}

TEST_P(RoundTest, SignIsOneOfThree) {
  EXPECT_THAT(sign(of<float>({-2.5F, -0.0F, 0, 1e-30F, NAN})).to_vector<float>(),
              ElementsAre(-1, 0, 0, 1, 0));
  EXPECT_THAT(sign(of<std::int64_t>({-9, 0, 4})).to_vector<std::int64_t>(), ElementsAre(-1, 0, 1));
  EXPECT_THAT(sign(of<std::uint8_t>({0, 200})).to_vector<std::uint8_t>(), ElementsAre(0, 1));
}

TEST_P(RoundTest, IntegersDivideAsInPython) {
  std::vector<std::int32_t> a;
  std::vector<std::int32_t> b;
  for (const std::int32_t x : {-7, -6, -1, 0, 1, 6, 7, 2147483647, -2147483647 - 1}) {
    for (const std::int32_t y : {-7, -3, -1, 1, 2, 5, 2147483647, -2147483647 - 1}) {
      if (y != -1 || x != -2147483647 - 1) {
        a.push_back(x);
        b.push_back(y);
      }
    }
  }
  const std::vector<std::int32_t> quotients = floor_divide(of(a), of(b)).to_vector<std::int32_t>();
  const std::vector<std::int32_t> rests = remainder(of(a), of(b)).to_vector<std::int32_t>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto exact = static_cast<std::int32_t>(
        std::floor(static_cast<double>(a[i]) / static_cast<double>(b[i])));
    EXPECT_EQ(quotients[i], exact) << a[i] << " // " << b[i];
    EXPECT_EQ(rests[i], static_cast<std::int32_t>(python_remainder(a[i], b[i])))
        << a[i] << " % " << b[i];
  }
  EXPECT_THAT(remainder(of<std::uint8_t>({200, 7}), 16).to_vector<std::uint8_t>(),
              ElementsAre(8, 7));
  EXPECT_THAT(floor_divide(-7, of<std::int64_t>({2, -2})).to_vector<std::int64_t>(),
              ElementsAre(-4, 3));
  EXPECT_THAT(remainder(of<std::int64_t>({-7, 7}), -3).to_vector<std::int64_t>(),
              ElementsAre(-1, -2));
}

TEST_P(RoundTest, FloatsDivideAsInPython) {
  std::vector<float> a;
  std::vector<float> b;
  for (const float x : {-7.5F, -6.0F, -0.3F, 0.0F, 0.6F, 6.0F, 7.25F, 1e6F, 3.0e7F}) {
    for (const float y : {-2.5F, -3.0F, -0.1F, 0.2F, 1.0F, 2.0F, 7.25F}) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  const std::vector<float> quotients = floor_divide(of(a), of(b)).to_vector<float>();
  const std::vector<float> rests = remainder(of(a), of(b)).to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double rest = python_remainder(a[i], b[i]);
    EXPECT_EQ(rests[i], static_cast<float>(rest)) << a[i] << " % " << b[i];
    EXPECT_EQ(quotients[i], static_cast<float>(std::nearbyint((a[i] - rest) / b[i])))
        << a[i] << " // " << b[i];
  }
  const Tensor x = of<float>({5, -5, 1, 0});
  EXPECT_THAT(remainder(x, kInfinity).to_vector<float>(),
              ElementsAre(5, std::numeric_limits<float>::infinity(), 1, 0));
  EXPECT_THAT(floor_divide(x, kInfinity).to_vector<float>(), ElementsAre(0, -1, 0, 0));
  EXPECT_TRUE(std::isnan(remainder(of<float>({1}), 0).item()));
  EXPECT_EQ(floor_divide(of<float>({1}), 0).item(), kInfinity);
  EXPECT_EQ(remainder(of<std::int32_t>({7}), 2.5).dtype(), DType::f32);
}

TEST_P(RoundTest, DividingAnIntegerByZeroPoisons) {
  try {
    static_cast<void>(
        remainder(of<std::int32_t>({1, 2}), of<std::int32_t>({1, 0})).read_bytes().get());
    ADD_FAILURE() << "it was divided";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.error().text, StartsWith("remainder: division by zero at element 1"));
  }
}

TEST_P(RoundTest, GradientsOfStepsAreZeroAndOfTheRestAreItsSlopes) {
  const Tensor a = of<double>({7.5, -7.5, 4});
  const Tensor b = of<double>({2, 2, -3});
  const std::vector<Tensor> of_rest =
      grad([](const Tensors& in) { return sum(remainder(in[0], in[1])); }, {a, b});
  EXPECT_THAT(of_rest[0].to_vector<double>(), ElementsAre(1, 1, 1));
  EXPECT_THAT(of_rest[1].to_vector<double>(), ElementsAre(-3, 4, 2));
  const std::vector<Tensor> of_steps =
      grad([](const Tensors& in) { return sum(floor(in[0]) + sign(in[0]) + round(in[0]) * in[0]); },
           {a});
  EXPECT_THAT(of_steps[0].to_vector<double>(), ElementsAre(8, -8, 4));
}

TEST_P(RoundTest, BoolsHaveNoRest) {
  const Tensor mask = cast(of<float>({1}), DType::boolean);
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)remainder(mask, mask); }),
            "remainder: takes numbers, not bool[1]");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)floor(mask); }),
            "floor: takes numbers, not bool[1]");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)sign(mask); }), "sign: takes numbers, not bool[1]");
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         RoundTest,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0", "sim:0"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace
}  // namespace hearth
