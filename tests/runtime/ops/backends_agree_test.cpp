// For undefined values, devices refuse with equal codes and words. The updates of a group read the
// old values. Results that a driver once had wrong are right.
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/update_group.hpp>

#include <gmock/gmock.h>

#include <cstdlib>
#include <vector>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::StartsWith;

class BackendsAgree : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  [[nodiscard]] Tensor i64(const std::vector<std::int64_t>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  static std::string refusal(const Tensor& tensor) {
    try {
      static_cast<void>(tensor.read_bytes().get());
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
      return error.error().text;
    }
    return "none";
  }

 private:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

TEST_P(BackendsAgree, ZeroHasNoNegativePowerAmongIntegers) {
  const Tensor bases = i64({2, -1, 0, 0}, {4});
  const auto kRefused = StartsWith("pow: zero to a negative power at element 2");
  EXPECT_THAT(refusal(pow(bases, -1)), kRefused);
  EXPECT_THAT(refusal(pow(bases, i64({-1, -1, -1, 3}, {4}))), kRefused);
  EXPECT_THAT(refusal(pow(bases, i64({-3}, {1}))), kRefused);
  EXPECT_THAT(refusal(pow(0, i64({0, 1, -2, -3}, {4}))), kRefused);
  EXPECT_THAT(refusal(pow(transpose(i64({2, 0, 5, 1}, {2, 2})), -2)), kRefused);
  EXPECT_EQ(refusal(pow(bases, 0)), "none");
}

TEST_P(BackendsAgree, OtherNegativePowersOfIntegersAreRoundedTowardsZero) {
  EXPECT_THAT(pow(i64({1, -1, 2, -3}, {4}), -3).to_vector<std::int64_t>(),
              ElementsAre(1, -1, 0, 0));
}

TEST_P(BackendsAgree, ZeroToANegativePowerIsInfiniteAmongFloats) {
  const Tensor zeros_of_both_signs = Tensor::from(device(), {0.0F, -0.0F}, {2});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(pow(zeros_of_both_signs, -1).to_vector<float>(), ElementsAre(kInfinity, -kInfinity));
  EXPECT_THAT(pow(zeros_of_both_signs, -2).to_vector<float>(), ElementsAre(kInfinity, kInfinity));
  EXPECT_THAT(pow(zeros_of_both_signs, -0.5).to_vector<float>(), ElementsAre(kInfinity, kInfinity));
}

TEST_P(BackendsAgree, IntegersAreNotDividedByZero) {
  EXPECT_THAT(refusal(i64({1, 2}, {2}) / i64({1, 0}, {2})),
              StartsWith("div: division by zero at element 1"));
}

// A driver in software compared widened integers with constants wrongly (widening_rewrite).
TEST_P(BackendsAgree, WidenedIntegersKeepTheirSign) {
  const std::vector<std::int32_t> values{-1, 2, 3, -7, 0, 1 << 30, -(1 << 30)};
  for (const DType type : {DType::i32, DType::i8}) {
    const Tensor x = cast(Tensor::from(device(), values, {7}), type);
    device().sync();
    std::vector<std::int64_t> whole;
    std::vector<float> rounded;
    for (const std::int32_t value : values) {
      whole.push_back(type == DType::i8 ? static_cast<std::int8_t>(value) : value);
      rounded.push_back(static_cast<float>(whole.back()));
    }
    const auto wide = [&x] { return cast(x, DType::i64); };
    EXPECT_EQ(wide().to_vector<std::int64_t>(), whole);
    EXPECT_EQ(cast(cast(wide(), DType::bf16), DType::f32).to_vector<float>(), rounded);
    EXPECT_EQ(cast(wide(), DType::f32).to_vector<float>(), rounded);
    for (std::int64_t& value : whole) {
      value = std::abs(value);
    }
    EXPECT_EQ(abs(wide()).to_vector<std::int64_t>(), whole);
    EXPECT_EQ(maximum(wide(), -wide()).to_vector<std::int64_t>(), whole);
    EXPECT_EQ(where(wide() < 0, -wide(), wide()).to_vector<std::int64_t>(), whole);
    EXPECT_EQ((wide() * sign(wide())).to_vector<std::int64_t>(), whole);
  }
}

// Of both types, below and above, with and without options.
TEST_P(BackendsAgree, ATargetThatIsNoClassIsToldOf) {
  const Tensor logits = reshape(arange(device(), 0, 6), {2, 3});
  const auto is_refused = [](const Tensor& loss) {
    try {
      static_cast<void>(loss.read_bytes().get());
      return false;
    } catch (const DeviceError& error) {
      return error.code() == ErrorCode::out_of_range;
    }
  };
  for (const DType type : {DType::i32, DType::i64}) {
    for (const std::int32_t wrong : {-1, -7, 3, 100}) {
      const Tensor targets = cast(Tensor::from(device(), {1, wrong}, {2}), type);
      EXPECT_TRUE(is_refused(cross_entropy(logits, targets))) << wrong;
      EXPECT_TRUE(is_refused(cross_entropy_per_row(logits, targets))) << wrong;
      EXPECT_TRUE(is_refused(cross_entropy(logits, targets, {.label_smoothing = 0.1}))) << wrong;
      EXPECT_TRUE(is_refused(cross_entropy(logits, targets, {.ignore_index = -100}))) << wrong;
    }
    const Tensor ignored = cast(Tensor::from(device(), {1, -7}, {2}), type);
    EXPECT_FALSE(is_refused(cross_entropy(logits, ignored, {.ignore_index = -7})));
  }
}

// The first update is not contiguous, and the cpu runs such updates of a batch last.
TEST_P(BackendsAgree, AnUpdateReadsWhatALaterOneOfItsGroupReplaces) {
  Tensor a = transpose(zeros(device(), {3, 2}), 0, 1);
  Tensor b = ones(device(), {2, 3});
  Tensor none;
  UpdateGroup group(device());
  group.sgd(a, b, none, {.learning_rate = 1});
  group.sgd(b, full(device(), {2, 3}, 5), none, {.learning_rate = 1});
  group.commit().get();
  EXPECT_THAT(a.to_vector<float>(), Each(-1));
  EXPECT_THAT(b.to_vector<float>(), Each(-4));
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         BackendsAgree,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0"),
                         [](const auto& param) { return std::string(param.param).substr(0, 3); });

}  // namespace
}  // namespace hearth
