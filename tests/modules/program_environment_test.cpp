// A program's settings of its floating-point environment change no bit of the library's results,
// and the library preserves them.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/learning_rate_schedule.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/runtime/all.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace hearth {
namespace {

using Setting = std::function<void()>;

struct Net {
  Linear first;
  Linear last;

  HEARTH_MODULE(first, last)
};

std::vector<std::uint32_t> bits_of(const Tensor& x) {
  std::vector<std::uint32_t> bits;
  for (const float value : cast(x, DType::f32).to_vector<float>()) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

// The weights after some steps, and sums and products over several threads. The program changes its
// environment before or after the devices are opened.
std::vector<std::uint32_t> train(const Setting& set, bool is_before) {
  if (is_before) {
    set();
  }
  const Runtime runtime;
  const Device device = runtime.device("cpu:0");
  if (!is_before) {
    set();
  }
  Generator generator(1);
  Net net{.first = Linear({.in = 8, .out = 24}, device, generator),
          .last = Linear({.in = 24, .out = 3}, device, generator)};
  Adam adam({.learning_rate = 1e-2, .weight_decay = 1e-3});
  const LearningRateSchedule schedule = CosineRate{.end = 0.1};
  const Tensor targets = zeros(device, {37}, DType::i64);
  for (int i = 0; i < 12; ++i) {
    adam.set_learning_rate(1e-2 * rate_factor(schedule, i, 12));
    const Tensor x = random_normal(device, {37, 8}, generator);
    auto [loss, gradients] = value_and_grad(net, [&](const Net& m) {
      const Tensor hidden = layer_norm(gelu(m.first.forward(x * 0.1)));
      return cross_entropy(m.last.forward(dropout(hidden, 0.3, generator)), targets);
    });
    static_cast<void>(loss.item());
    adam.step(net, std::move(gradients)).get();
  }
  std::vector<std::uint32_t> all = bits_of(net.first.weight);
  const Tensor wide = random_normal(device, {300, 300}, generator);
  const Tensor made = softmax(matmul(wide, wide) * 0.01, 1);
  for (const Tensor& each : {net.last.weight, made, sum(made, 0), attention(wide, made, wide)}) {
    const std::vector<std::uint32_t> more = bits_of(each);
    all.insert(all.end(), more.begin(), more.end());
  }
  std::fesetenv(FE_DFL_ENV);
  return all;
}

class ProgramEnvironment : public ::testing::Test {
 protected:
  ~ProgramEnvironment() override { std::fesetenv(FE_DFL_ENV); }
};

void expect_same_bits(const Setting& set, const std::string& what) {
  static const std::vector<std::uint32_t> kPlain = train([] {}, true);
  for (const bool is_before : {true, false}) {
    EXPECT_TRUE(train(set, is_before) == kPlain)
        << what << (is_before ? ", set before the devices" : ", set behind the devices");
  }
}

TEST_F(ProgramEnvironment, RoundsNothingOfTheLibrarys) {
  expect_same_bits([] { std::fesetround(FE_DOWNWARD); }, "down");
  expect_same_bits([] { std::fesetround(FE_UPWARD); }, "up");
  expect_same_bits([] { std::fesetround(FE_TOWARDZERO); }, "towards zero");
}

// In f64 no conversion hides a host factor that was rounded otherwise.
TEST_F(ProgramEnvironment, RoundsNoStatisticOfALayer) {
  const auto variances = [](int rounding) {
    const Runtime runtime;
    const Device device = runtime.device("cpu:0");
    Generator generator(1);
    BatchNorm2d norm({.channels = 1}, device, DType::f64);
    const Tensor x = random_normal(device, {1, 1, 2, 2}, generator, 0, 1, DType::f64);
    std::fesetround(rounding);
    StateUpdates updates;
    static_cast<void>(norm.forward(x, Mode::train, updates));
    static_cast<void>(norm.forward(x * 0.3, Mode::train, updates));
    updates.commit(norm).get();
    std::fesetround(FE_TONEAREST);
    return norm.running_variance.to_vector<double>();
  };
  const std::vector<double> plain = variances(FE_TONEAREST);
  EXPECT_EQ(variances(FE_DOWNWARD), plain);
  EXPECT_EQ(variances(FE_UPWARD), plain);
}

TEST_F(ProgramEnvironment, StaysAsItWas) {
  std::fesetround(FE_UPWARD);
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_UNDERFLOW);
  const Runtime runtime;
  const Tensor x = full(runtime.device("cpu:0"), {1000}, 0.1);
  const float least = min(log(x - 0.1F) / x).item<float>();
  std::feclearexcept(FE_INEXACT);  // set by the test's own arithmetic
  EXPECT_LT(least, 0);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT), FE_UNDERFLOW);
}

#ifdef __x86_64__
TEST_F(ProgramEnvironment, FlushesNoDenormalOfTheLibrarys) {
  constexpr unsigned kFlushAll = 0x8040;
  const auto flush = [] { _mm_setcsr(_mm_getcsr() | kFlushAll); };
  expect_same_bits(flush, "flush to zero");
  flush();
  const Runtime runtime;
  const Device device = runtime.device("cpu:0");
  const std::vector<std::uint32_t> small = bits_of(full(device, {70'000}, 1e-40) * 0.5);
  EXPECT_EQ(small.front(), std::bit_cast<std::uint32_t>(5e-41F));
  EXPECT_EQ(small.back(), std::bit_cast<std::uint32_t>(5e-41F));
  EXPECT_EQ(_mm_getcsr() & kFlushAll, kFlushAll);
}
#endif

#ifdef __GLIBC__
TEST_F(ProgramEnvironment, OfSignalsDoesNotEndATrainingStep) {
  constexpr int kTrapped = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;
  expect_same_bits([] { feenableexcept(kTrapped); }, "signals");
  std::feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(kTrapped);
  const Runtime runtime;
  const Device device = runtime.device("cpu:0");
  const Tensor x = Tensor::from(device, std::vector<float>{-1, 0, 3e38F}, {3});
  const Tensor strange = concat({log(x), x / 0.0, x * 1e30}, 0);
  EXPECT_NE(strange.to_string().find("nan"), std::string::npos);
  EXPECT_EQ(cast(strange, DType::i32).to_vector<std::int32_t>().size(), 9U);
  EXPECT_TRUE(std::isnan(sum(strange * 0.0).item()));
  EXPECT_EQ(fegetexcept(), kTrapped);
}
#endif

// The program's functions run in the library's environment; their changes of it end with the call.
TEST_F(ProgramEnvironment, IsNotThatOfItsKernels) {
  std::fesetround(FE_DOWNWARD);
  const Runtime runtime;
  int rounding = -1;
  CustomKernelConfig config{.name = "look", .inputs = {{"x", {DType::f32}}}, .outputs = {"y"}};
  config.rule = [](std::span<const TensorForm> in) { return std::vector{in[0]}; };
  config.host = [&rounding](const HostKernelCall& call) {
    rounding = std::fegetround();
    call.output<float>(0)[0] = call.input<float>(0)[0];
    std::fesetround(FE_UPWARD);
  };
  const CustomKernel look = custom_op(config);
  const Tensor third = look({full(runtime.device("cpu:0"), {1}, 1.0)}) / 3.0;
  EXPECT_EQ(third.item<float>(), 1.0F / 3.0F);
  EXPECT_EQ(rounding, FE_TONEAREST);
  EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
}

}  // namespace
}  // namespace hearth
