// Integer ops and composed ops on a Vulkan device against the reference: equal elements, also where
// sums wrap, and equal random numbers.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/custom_kernel.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

class VulkanOps : public ::testing::Test {
 protected:
  /// Expects equal results of a function on the Vulkan device and on the reference.
  template <class Make>
  void expect_alike(const Make& make, const std::string& what) const {
    const Tensor got = make(runtime_.device("vulkan:0"));
    const Tensor want = make(runtime_.device("reference:0"));
    ASSERT_EQ(describe(got.dtype(), got.shape()), describe(want.dtype(), want.shape())) << what;
    EXPECT_EQ(got.read_bytes().get(), want.read_bytes().get()) << what;
  }

  Runtime runtime_{RuntimeOptions{.devices = {{.name = "vulkan:0"}, {.name = "reference:0"}},
                                  .blocking_compiles = true}};
};

// Large values, so that sums and products wrap. Drawn numbers have 53 bits.
Tensor integers(const Device& device, const Shape& shape, DType dtype) {
  Generator generator(7);
  if (dtype == DType::u8) {
    return randint(device, shape, generator, 0, 256, dtype);
  }
  if (dtype == DType::i8) {
    return randint(device, shape, generator, -128, 128, dtype);
  }
  const std::int64_t most = dtype == DType::i32 ? std::int64_t{1} << 31 : std::int64_t{1} << 51;
  const Tensor drawn = randint(device, shape, generator, -most, most, dtype);
  return dtype == DType::i32 ? drawn : drawn * 4099;
}

TEST_F(VulkanOps, SumsOfIntegersWrap) {
  for (const DType dtype : {DType::u8, DType::i8, DType::i32, DType::i64}) {
    for (const Shape& shape : {Shape{1, 7}, Shape{40, 33}, Shape{3, 5000}, Shape{5000, 3}}) {
      for (const std::vector<int>& axes : {std::vector<int>{0}, {1}, {0, 1}}) {
        const std::string what = describe(dtype, shape);
        expect_alike([&](const Device& d) { return sum(integers(d, shape, dtype), axes); }, what);
        expect_alike([&](const Device& d) { return max(integers(d, shape, dtype), axes); }, what);
        expect_alike([&](const Device& d) { return min(integers(d, shape, dtype), axes); }, what);
      }
      expect_alike([&](const Device& d) { return prod(integers(d, shape, dtype), {1}); }, "prod");
      expect_alike([&](const Device& d) { return cumsum(integers(d, shape, dtype), 1); }, "cumsum");
      expect_alike([&](const Device& d) { return argmax(integers(d, shape, dtype), 0); }, "argmax");
    }
  }
}

TEST_F(VulkanOps, DivideByPythonsRules) {
  for (const DType dtype : {DType::u8, DType::i8, DType::i32, DType::i64}) {
    const auto divisor = [&](const Device& d) {
      const Tensor x = integers(d, {30, 20}, dtype);
      return where(x == 0, x + 3, x);
    };
    const auto dividend = [&](const Device& d) { return transpose(integers(d, {20, 30}, dtype)); };
    expect_alike([&](const Device& d) { return floor_divide(dividend(d), divisor(d)); }, "//");
    expect_alike([&](const Device& d) { return remainder(dividend(d), divisor(d)); }, "%");
    expect_alike([&](const Device& d) { return remainder(dividend(d), 7); }, "% 7");
  }
  const auto halves = [](const Device& d) { return arange(d, -40, 40, 1.0, DType::f32) * 0.5; };
  expect_alike([&](const Device& d) { return floor_divide(halves(d), 1.5); }, "// of floats");
  expect_alike([&](const Device& d) { return remainder(halves(d), -2); }, "% of floats");
}

TEST_F(VulkanOps, DrawTheReferencesNumbers) {
  for (const DType dtype : {DType::u8, DType::i8, DType::i32, DType::i64}) {
    expect_alike([&](const Device& d) { return integers(d, {77, 13}, dtype); }, "randint");
  }
  expect_alike(
      [](const Device& d) {
        Generator generator(3);
        const Tensor weights =
            Tensor::from(d, std::vector<float>{1, 0, 3, 4, 0.5F, 8, 2, 2}, {2, 4});
        return multinomial(weights, 50, generator, {.with_replacement = true});
      },
      "multinomial");
  expect_alike(
      [](const Device& d) {
        Generator generator(3);
        const Tensor weights = arange(d, 1, 101, 1.0, DType::f32);
        return multinomial(weights, 40, generator);
      },
      "multinomial without replacement");
}

// Each remainder of a position by the stride is a separate dispatch: more than the parameters of
// one batch. The next launch reads the result of the last of them.
TEST_F(VulkanOps, AConvolutionHasItsGradientAtAnyStride) {
  const auto gradient = [](const Device& device) {
    constexpr std::int64_t kSize = 140;
    const Tensor w =
        reshape(arange(device, 0, kSize * kSize, 1.0, DType::f32) * 0.25, {1, 1, kSize, kSize});
    const Tensor x = zeros(device, {1, 1, kSize, kSize});
    const std::vector<Tensor> of = grad(
        [&](const std::vector<Tensor>& in) { return sum(conv2d(in[0], w, {.stride = kSize})); },
        {x});
    return of.front() + 1;
  };
  expect_alike(gradient, "stride 140");
}

// 1024 and then terms too small for f16 to add one by one: the exact sum is 1031.98.
TEST(VulkanSums, AreOfF16WhereTheProgramAllowsIt) {
  std::string description;
  const auto sum_of = [&description](bool allows_f16_sums) {
    const Runtime runtime({.devices = {{.name = "vulkan:0"}},
                           .blocking_compiles = true,
                           .allow_f16_sums = allows_f16_sums});
    const Device device = runtime.device();
    description = device.description();
    constexpr std::int64_t kDepth = 512;
    const Tensor first = full(device, {16, 1}, 1024.0, DType::f16);
    const Tensor rest = full(device, {16, kDepth - 1}, 1.0 / 64, DType::f16);
    const Tensor ones = full(device, {kDepth, 16}, 1.0, DType::f16);
    const Tensor product = matmul(concat({first, rest}, 1), ones);
    return static_cast<double>(product.to(DType::f32).to_vector<float>().front());
  };
  EXPECT_NEAR(sum_of(false), 1032.0, 0.5) << "a product may go on as f32 to the next op";
  const double less = sum_of(true);
  const bool is_card = description.find("llvmpipe") == std::string::npos;  // not emulated
  if (is_card && description.find("sums of f16") == std::string::npos) {
    GTEST_SKIP() << "the permission is no promise: " << description;
  }
  EXPECT_GE(less, 1024.0);
  EXPECT_LT(less, 1031.0);
}

// Mesa's driver in software leaves a shader's loops after 65,535 steps, without an error.
TEST_F(VulkanOps, LongSumsAreWhole) {
  const auto ones = [this](const Shape& shape, DType dtype) {
    return full(runtime_.device("vulkan:0"), shape, 1.0, dtype);
  };
  constexpr std::int64_t kDepth = 70000;
  const std::vector<float> thin =
      matmul(ones({2, kDepth}, DType::f32), ones({kDepth, 3}, DType::f32)).to_vector<float>();
  EXPECT_EQ(thin, std::vector<float>(6, kDepth));
  const std::vector<float> tiles =
      matmul(ones({33, kDepth}, DType::f32), ones({kDepth, 33}, DType::f32)).to_vector<float>();
  EXPECT_EQ(tiles, std::vector<float>(33 * 33, kDepth));
  const Tensor units = matmul(ones({192, 2048}, DType::bf16), ones({2048, 192}, DType::bf16));
  EXPECT_EQ(units.to(DType::f32).to_vector<float>(), std::vector<float>(192 * 192, 2048));
  constexpr std::int64_t kKeys = 1500;
  for (const DType dtype : {DType::f32, DType::f16}) {
    const std::vector<Tensor> of =
        grad([](const std::vector<Tensor>& in) { return sum(attention(in[0], in[1], in[2])); },
             {ones({1, 70, 8}, dtype), ones({1, kKeys, 8}, dtype), ones({1, kKeys, 8}, dtype)});
    // Each key has an equal weight in each of the rows.
    for (const float each : of[2].to(DType::f32).to_vector<float>()) {
      ASSERT_NEAR(each, 70.0 / kKeys, 1e-3) << name(dtype);
    }
  }
}

TEST(VulkanLoops, ThatADriverLeavesAreALossThatSaysSo) {
  const Runtime runtime({.devices = {{.name = "vulkan:0"}}, .blocking_compiles = true});
  const Device device = runtime.device();
  CustomKernelConfig config{.name = "count", .inputs = {{"x"}}, .numbers = {{"steps", DType::i32}}};
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> { return {in[0]}; };
  config.glsl.text = R"(void kernel() {
  float sum = 0.0;
  for(int i = 0; i < steps; ++i) {
    sum += x(ID);
  }
  set_y(ID, sum);
})";
  const CustomKernel count = custom_op(config);
  const Tensor ones = full(device, {4}, 1.0);
  EXPECT_EQ(count({ones}, {60000}).to_vector<float>(), std::vector<float>(4, 60000));
  std::string error;
  try {
    EXPECT_EQ(count({ones}, {70000}).to_vector<float>(), std::vector<float>(4, 70000));
    GTEST_SKIP() << "this driver leaves no loop";
  } catch (const DeviceError& lost) {
    error = lost.what();
  }
  EXPECT_NE(error.find("65,535"), std::string::npos) << error;
  device.restart();
  EXPECT_EQ(sum(full(device, {100}, 1.0)).item<float>(), 100.0F);
}

}  // namespace
}  // namespace hearth
