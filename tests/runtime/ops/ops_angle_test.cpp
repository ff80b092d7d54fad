// atan, asin, acos and atan2: values beside the C library's, ends, quadrants, types and gradients.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown_text;
using Tensors = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

class AngleTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  [[nodiscard]] Tensor made(const std::vector<double>& values, DType dtype) const {
    return cast(Tensor::from(device(), values, Shape{static_cast<std::int64_t>(values.size())}),
                dtype);
  }
  [[nodiscard]] static std::vector<double> reals(const Tensor& tensor) {
    return cast(tensor, DType::f64).to_vector<double>();
  }
  static void expect_near(double got, double want, DType dtype) {
    const auto limit = testing::tolerance(testing::Precision::function, dtype);
    EXPECT_TRUE((std::isnan(got) && std::isnan(want)) ||
                (limit.accepts(got, want) && std::signbit(got) == std::signbit(want)))
        << got << ", not " << want << " in " << name(dtype);
  }

 private:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

TEST_P(AngleTest, AreThoseOfTheCLibrary) {
  std::vector<double> values{0.0, -0.0, 1, -1, 0.5, -0.5, 0.999, -0.999, 1e-3, 2, -2, NAN};
  for (double x = -0.96; x < 1; x += 0.0625) {
    values.push_back(x);
  }
  for (const DType dtype : kFloats) {
    const Tensor x = made(values, dtype);
    const std::vector<double> rounded = reals(x);
    const std::vector<double> arcs[] = {reals(asin(x)), reals(acos(x)), reals(atan(x))};
    EXPECT_EQ(acos(x).dtype(), dtype);
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      expect_near(arcs[0][i], std::asin(rounded[i]), dtype);
      expect_near(arcs[1][i], std::acos(rounded[i]), dtype);
      expect_near(arcs[2][i], std::atan(rounded[i]), dtype);
    }
  }
  EXPECT_THAT(reals(atan(made({kInfinity, -kInfinity}, DType::f64))),
              ElementsAre(std::atan(kInfinity), -std::atan(kInfinity)));
}

// All pairs of zeros, infinities, NaN and numbers, also as numbers beside a tensor.
TEST_P(AngleTest, OfPointsLieInAllQuadrants) {
  const std::vector<double> sides{
      0.0, -0.0, 1, -1, 2.5, -2.5, kInfinity, -kInfinity, NAN, 1e-3, -300, 0.125};
  for (const DType dtype : kFloats) {
    const Tensor x = made(sides, dtype);
    const std::vector<double> rounded = reals(x);
    const Tensor all = atan2(reshape(x, {-1, 1}), x);
    EXPECT_EQ(all.shape(), (Shape{12, 12}));
    const std::vector<double> got = reals(all);
    for (std::size_t i = 0; i < sides.size(); ++i) {
      for (std::size_t j = 0; j < sides.size(); ++j) {
        expect_near(got[i * sides.size() + j], std::atan2(rounded[i], rounded[j]), dtype);
      }
    }
  }
  const Tensor x = made({1, -1}, DType::f64);
  EXPECT_THAT(reals(atan2(x, 0.0)), ElementsAre(std::atan2(1, 0), std::atan2(-1, 0)));
  EXPECT_THAT(reals(atan2(0.0, x)), ElementsAre(0, std::atan2(0, -1)));
}

TEST_P(AngleTest, TakeFloatsOnly) {
  const Tensor n = ones(device(), {2}, DType::i32);
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)atan2(n, n); }), HasSubstr("atan2: does not"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)acos(n); }),
              HasSubstr("acos: does not take i32"));
}

// The steps of a fused kernel are those of the op.
TEST_P(AngleTest, AreTheSameInAFusedKernel) {
  std::vector<double> values;
  for (int i = -200; i < 200; ++i) {
    values.push_back(i * 0.37);
  }
  const Tensor x = made(values, DType::f32);
  const Tensor y = made({values.rbegin(), values.rend()}, DType::f32);
  const std::vector<double> alone = reals(atan2(y, x));
  const std::vector<double> fused = reals(atan2(y * 2, x * 2) * 4);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(fused[i], alone[i] * 4, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         AngleTest,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0", "sim:0"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find(':'));
                         });

using AngleGradientTest = testing::ReferenceTest;

TEST_F(AngleGradientTest, MatchDifferences) {
  testing::HostRandom random(12);
  const testing::HostTensor inside = random.uniform({7}, -0.9, 0.9);
  check_gradients(device(), [](const Tensors& in) { return asin(in[0]); }, {inside});
  check_gradients(device(), [](const Tensors& in) { return acos(in[0]); }, {inside});
  const testing::HostTensor x = random.signed_values({3, 4});
  check_gradients(device(), [](const Tensors& in) { return atan(in[0]); }, {x});
  check_gradients(device(),
                  [](const Tensors& in) { return atan2(in[0], in[1]); },
                  {random.signed_values({4}), x});
  check_gradients(device(), [](const Tensors& in) { return atan2(in[0], -0.7); }, {x});
  check_gradients(device(), [](const Tensors& in) { return atan2(1.5, in[0]); }, {x});
}

TEST_F(AngleGradientTest, AreInfiniteAtTheEndsOfArcs) {
  const Tensor ends = f64({1, -1}, {2});
  const auto slope = [&](Tensor (*arc)(Arg)) {
    return reals(grad([&](const Tensors& in) { return sum(arc(in[0])); }, {ends})[0]);
  };
  EXPECT_THAT(slope(asin), Each(kInfinity));
  EXPECT_THAT(slope(acos), Each(-kInfinity));
}

TEST_F(AngleGradientTest, OfFarAndNearPointsNeitherOverflowNorVanish) {
  for (const double size : {1e-30, 1e30}) {
    const auto loss = [](const Tensors& in) { return sum(atan2(in[0], in[1])); };
    const auto side = static_cast<float>(size);
    const Tensors slopes = grad(loss, {f32({side}, {1}), f32({side}, {1})});
    EXPECT_NEAR(reals(slopes[0])[0] * size, 0.5, 1e-6);
    EXPECT_NEAR(reals(slopes[1])[0] * size, -0.5, 1e-6);
  }
  const auto far = [](const Tensors& in) { return sum(atan(in[0])); };
  EXPECT_THAT(reals(grad(far, {f64({kInfinity, -kInfinity}, {2})})[0]), ElementsAre(0, 0));
}

}  // namespace
}  // namespace hearth
