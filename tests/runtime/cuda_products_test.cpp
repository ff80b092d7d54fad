// Products that CUDA's library computes, on the host's driver and its library of products
// (tests/backends/cuda/host_products.cpp), or on a card if HEARTH_CUDA_LIBRARY_PATH names the
// folders of NVRTC and cuBLASLt.
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/environment_variable.hpp"

namespace hearth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string library_folders() {
  const char* const folders = std::getenv("HEARTH_CUDA_LIBRARY_PATH");
  return folders == nullptr ? HEARTH_HOST_CUDA : folders;
}

class CudaProducts : public ::testing::Test {
 protected:
  [[nodiscard]] static RuntimeOptions options(bool allows_tf32) {
    return {.devices = {{.name = "cuda:0"}, {.name = "cpu:0"}},
            .blocking_compiles = true,
            .allow_tf32 = allows_tf32};
  }
  const testing::EnvironmentVariable folders_{"HEARTH_CUDA_LIBRARY_PATH", library_folders()};
  const testing::EnvironmentVariable no_cache_{"HEARTH_CACHE_DIR", "/dev/null"};
};

constexpr float kBits = 0x1p-12F;  // TF32 keeps 2^-10 beside 1.

// A sum of products of 1 + 2^-12 and 1.
double sum_of_factors(const Device& device, std::int64_t size) {
  const Tensor a = full(device, {size, size}, 1.0 + static_cast<double>(kBits));
  const Tensor b = ones(device, {size, size});
  const std::vector<float> y = matmul(a, b).to_vector<float>();
  for (const float value : y) {
    EXPECT_EQ(value, y.front());
  }
  return static_cast<double>(y.front());
}

double exact(std::int64_t size) {
  return static_cast<double>(size) * (1 + static_cast<double>(kBits));
}

// Both devices at once: a program's permission is that of its runtime.
TEST_F(CudaProducts, RoundFactorsToTf32WhereTheProgramAllowsIt) {
  const Runtime strict(options(false));
  const Runtime loose(options(true));
  for (const std::int64_t size : {512, 515}) {  // rows at multiples of 16 bytes, and elsewhere
    EXPECT_NEAR(sum_of_factors(strict.device(), size), exact(size), 0.01) << size;
    EXPECT_EQ(sum_of_factors(loose.device(), size), static_cast<double>(size));
    EXPECT_NEAR(sum_of_factors(strict.device(), size), exact(size), 0.01) << size;
  }
  EXPECT_THAT(std::string(strict.device().description()), Not(HasSubstr("TF32")));
  EXPECT_THAT(std::string(loose.device().description()), HasSubstr(", products of f32 by TF32"));
}

// An op that follows a product does not turn it into a kernel of Hearth.
TEST_F(CudaProducts, RoundFactorsToTf32BeforeAnOpThatFollows) {
  const Runtime loose(options(true));
  const Tensor a = full(loose.device(), {512, 512}, 1.0 + static_cast<double>(kBits));
  const Tensor b = ones(loose.device(), {512, 512});
  EXPECT_EQ(relu(matmul(a, b) + 1.0).to_vector<float>().front(), 513.0F);
}

// The library multiplies the rows of all positions at once, as few as one has.
TEST_F(CudaProducts, RoundFactorsOfABatchToTf32BeforeAnOpThatFollows) {
  const Runtime loose(options(true));
  const Tensor a = full(loose.device(), {512, 1, 512}, 1.0 + static_cast<double>(kBits));
  const Tensor b = ones(loose.device(), {512, 512});
  EXPECT_EQ(matmul(a, b).to_vector<float>().front(), 512.0F);
  EXPECT_EQ(relu(matmul(a, b) + 1.0).to_vector<float>().front(), 513.0F);
}

// Kernels of Hearth multiply in f32, whatever the program allows.
TEST_F(CudaProducts, KeepF32InSmallProductsAndOnOtherDevices) {
  const Runtime loose(options(true));
  EXPECT_NEAR(sum_of_factors(loose.device(), 64), exact(64), 0.001);
  EXPECT_NEAR(sum_of_factors(loose.device("cpu:0"), 512), exact(512), 0.01);
}

std::vector<float> product(const Device& device, DType dtype, bool is_turned, bool has_bias) {
  const std::int64_t rows = 2 * 129;
  const std::int64_t depth = 130;
  const std::int64_t columns = 131;
  const auto some = [&](const Shape& shape, std::int64_t step) {
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<std::int64_t>(i) * step % 7 - 3);
    }
    return cast(Tensor::from(device, values, shape), dtype);
  };
  const Tensor a = is_turned ? transpose(some({depth, rows}, 3), 0, 1) : some({rows, depth}, 5);
  const Tensor b = some({depth, columns}, 11);
  const Tensor y = has_bias ? matmul(a, b, some({columns}, 2)) : matmul(a, b);
  return cast(y, DType::f32).to_vector<float>();
}

// Small whole numbers have exact sums, and 16 bits hold them rounded.
TEST_F(CudaProducts, AreThoseOfTheCpu) {
  const Runtime runtime(options(false));
  for (const DType dtype : {DType::f16, DType::bf16, DType::i8}) {
    for (const bool is_turned : {false, true}) {
      const bool has_bias = dtype != DType::i8;
      const std::vector<float> got = product(runtime.device(), dtype, is_turned, has_bias);
      const std::vector<float> want = product(runtime.device("cpu:0"), dtype, is_turned, has_bias);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], std::abs(want[i]) / 128)
            << name(dtype) << " at " << i << (is_turned ? ", turned" : "");
      }
    }
  }
}

}  // namespace
}  // namespace hearth
