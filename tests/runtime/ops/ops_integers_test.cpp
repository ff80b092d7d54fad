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

TEST_P(IntegersTest, OperatorsWorkOnTheirBits) {
  const Tensor a = Tensor::from(device(), std::vector<std::int32_t>{12, -1, 6}, {3});
  const Tensor b = Tensor::from(device(), std::vector<std::int32_t>{10, 255, -8}, {3});
  EXPECT_THAT((a & b).to_vector<std::int32_t>(), ElementsAre(8, 255, 0));
  EXPECT_THAT((a | 1).to_vector<std::int32_t>(), ElementsAre(13, -1, 7));
  EXPECT_THAT((a ^ b).to_vector<std::int32_t>(), ElementsAre(6, -256, -2));
  EXPECT_THAT((~a).to_vector<std::int32_t>(), ElementsAre(-13, 0, -7));
  EXPECT_EQ((a & (b == 10)).dtype(), DType::i32);
  const Tensor x = ones(device(), {2});
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)(x & x); }),
            "operator&: takes bools and integers, not f32[2]: compare first, or call logical_and "
            "and its kin, for which all but 0 is true");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)(a | 2.5); }).substr(0, 10), "operator|:");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)!a; }),
            "operator!: takes bools, not i32[3]: compare first, or call logical_and and its kin, "
            "for which all but 0 is true");
}

TEST_P(IntegersTest, BitsOfEachTypeAreThoseOfPlainCode) {
  for (const DType type : {DType::i32, DType::i64, DType::u8, DType::i8}) {
    const std::vector<std::int64_t> values = type == DType::u8
                                                 ? std::vector<std::int64_t>{0, 1, 85, 170, 255}
                                                 : std::vector<std::int64_t>{0, 1, 85, -86, -128};
    const Tensor x = cast(Tensor::from(device(), values, {5, 1}), type);
    const Tensor y = cast(Tensor::from(device(), values, {5}), type);
    const auto read = [](const Tensor& t) { return cast(t, DType::i64).to_vector<std::int64_t>(); };
    const std::vector<std::int64_t> all[] = {
        read(bitwise_and(x, y)), read(bitwise_or(x, y)), read(bitwise_xor(x, y))};
    const std::vector<std::int64_t> inverted = read(bitwise_not(y));
    for (std::size_t i = 0; i < 25; ++i) {
      const std::int64_t a = values[i / 5];
      const std::int64_t b = values[i % 5];
      EXPECT_EQ(all[0][i], a & b) << name(type);
      EXPECT_EQ(all[1][i], a | b) << name(type);
      EXPECT_EQ(all[2][i], a ^ b) << name(type);
      EXPECT_EQ(inverted[i % 5], type == DType::u8 ? 255 - b : ~b) << name(type);
    }
  }
}

// Places below 0 and from the width on move all bits out, on every device alike.
TEST_P(IntegersTest, ShiftsMoveBitsOut) {
  for (const DType type : {DType::i32, DType::i64, DType::u8, DType::i8}) {
    const std::int64_t width = 8 * size_bytes(type);
    const std::vector<std::int64_t> values = type == DType::u8
                                                 ? std::vector<std::int64_t>{1, 100, 255}
                                                 : std::vector<std::int64_t>{1, 100, -100};
    std::vector<std::int64_t> places{0, 1, 3, width - 1, width, width + 1};
    if (type != DType::u8) {
      places.insert(places.end(), {-1, -128});
    }
    const auto count = static_cast<std::int64_t>(places.size());
    const Tensor x = cast(Tensor::from(device(), values, {3, 1}), type);
    const Tensor by = cast(Tensor::from(device(), places, {count}), type);
    const auto read = [](const Tensor& t) { return cast(t, DType::i64).to_vector<std::int64_t>(); };
    const std::vector<std::int64_t> left = read(shift_left(x, by));
    const std::vector<std::int64_t> right = read(shift_right(x, by));
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::int64_t value = values[i / places.size()];
      const std::int64_t place = places[i % places.size()];
      const bool is_inside = place >= 0 && place < width;
      const std::int64_t moved =
          is_inside ? static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << place) : 0;
      const std::int64_t wanted = type == DType::i64   ? moved
                                  : type == DType::i32 ? static_cast<std::int32_t>(moved)
                                  : type == DType::i8  ? static_cast<std::int8_t>(moved)
                                                       : static_cast<std::uint8_t>(moved);
      EXPECT_EQ(left[i], wanted) << name(type) << ": " << value << " << " << place;
      EXPECT_EQ(right[i], value >> (is_inside ? place : 63))
          << name(type) << ": " << value << " >> " << place;
    }
  }
  EXPECT_THAT(shift_left(ones(device(), {2}, DType::u8), 7).to_vector<std::uint8_t>(),
              ElementsAre(128, 128));
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
