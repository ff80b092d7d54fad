// Sums, products and means of integers and bools on each backend of this machine: they do not wrap
// at the width of the operand. Also the operators of bools.
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using testing::thrown_text;

class IntegersTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }

 private:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

TEST_P(IntegersTest, SumsAreOf64Bits) {
  for (const DType type : {DType::u8, DType::boolean, DType::i8, DType::i32, DType::i64}) {
    const Tensor total = sum(ones(device(), {300}, type));
    EXPECT_EQ(total.dtype(), DType::i64) << name(type);
    EXPECT_EQ(total.item<std::int64_t>(), 300) << name(type);
    EXPECT_EQ(sum(ones(device(), {2, 300}, type), 1, {.keep_dims = true}).shape(), (Shape{2, 1}));
    EXPECT_EQ(prod(ones(device(), {4}, type)).dtype(), DType::i64);
    const Tensor running = cumsum(ones(device(), {300}, type), 0);
    EXPECT_EQ(running.dtype(), DType::i64);
    EXPECT_EQ(slice(running, 0, {.start = 299}).item<std::int64_t>(), 300);
    EXPECT_EQ(sum(ones(device(), {}, type)).dtype(), DType::i64) << "of rank 0 too";
  }
  const Tensor large = full(device(), {3}, 2147483647, DType::i32);
  EXPECT_EQ(sum(large).item<std::int64_t>(), 6442450941);
  EXPECT_EQ(prod(large).item<std::int64_t>(), 4611686024869838847) << "(2^31 - 1)^3 wraps at 2^64";
}

TEST_P(IntegersTest, MeansAreOfFloats) {
  for (const DType type : {DType::u8, DType::boolean, DType::i8, DType::i32, DType::i64}) {
    const Tensor half = mean(cast(arange(device(), 0, 2, 1, DType::i32), type));
    EXPECT_EQ(half.dtype(), DType::f32) << name(type);
    EXPECT_EQ(half.item(), 0.5) << name(type);
  }
  EXPECT_EQ(mean(full(device(), {300}, 255, DType::u8)).item(), 255);
  EXPECT_EQ(mean(full(device(), {300}, -128, DType::i8)).item(), -128);
  EXPECT_TRUE(std::isnan(mean(zeros(device(), {0}, DType::i32)).item()));
  const Tensor rows =
      Tensor::from(device(), std::vector<std::int32_t>{1, 2, 4, -1, -1, -1}, {2, 3});
  EXPECT_THAT(mean(rows, 1).to_vector<float>(), ElementsAre(7.0F / 3, -1));
}

TEST_P(IntegersTest, LargestAndSmallestKeepTheirType) {
  const Tensor x = full(device(), {3}, 200, DType::u8);
  EXPECT_EQ(max(x).dtype(), DType::u8);
  EXPECT_EQ(min(x).item<std::uint8_t>(), 200);
}

TEST_P(IntegersTest, BoolsHaveOperators) {
  const Tensor a =
      cast(Tensor::from(device(), std::vector<std::uint8_t>{0, 0, 1, 1}, {4}), DType::boolean);
  const Tensor b =
      cast(Tensor::from(device(), std::vector<std::uint8_t>{0, 1, 0, 1}, {4}), DType::boolean);
  EXPECT_THAT((a & b).to_vector<std::uint8_t>(), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT((a | b).to_vector<std::uint8_t>(), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT((a ^ b).to_vector<std::uint8_t>(), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT((!a).to_vector<std::uint8_t>(), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT((a & true).to_vector<std::uint8_t>(), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ((a & b).dtype(), DType::boolean);
  const Tensor x = arange(device(), 0, 4);
  EXPECT_THAT(((x > 0) & !(x == 2)).to_vector<std::uint8_t>(), ElementsAre(0, 1, 0, 1));
}

TEST_P(IntegersTest, BitsHaveNone) {
  const Tensor n = ones(device(), {2}, DType::i32);
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)(n & n); }),
            "operator&: takes bools, not i32[2]: compare first, or call logical_and and its kin, "
            "for which all but 0 is true; no op works on bits");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)((n == 1) | 2); }),
            "operator|: takes bools, not the number 2: compare first, or call logical_and and its "
            "kin, for which all but 0 is true; no op works on bits");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)!n; }).substr(0, 10), "operator!:");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)(n ^ n); }).substr(0, 10), "operator^:");
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         IntegersTest,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0", "sim:0"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace
}  // namespace hearth
