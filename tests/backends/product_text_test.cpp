// The texts of products for devices that are not here: what a large GPU would get compiles to
// valid SPIR-V, with and without matrix units.
#include "backends/vulkan/kernels/matrix_product.hpp"
#include "backends/vulkan/kernels/window_product.hpp"

#include <hearth/backends/codegen/cooperative_rewrite.hpp>
#include <hearth/backends/codegen/spirv_compiler.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hearth::vulkan {
namespace {

// Compiles what is dispatched to it, and keeps the texts.
class TextEncoder final : public KernelEncoder {
 public:
  explicit TextEncoder(const DeviceLimits& limits) : limits_(limits) {}

  const DeviceLimits& limits() const noexcept override { return limits_; }
  Status dispatch(const ShaderKey& key,
                  ShaderText text,
                  const ParameterBlock& parameters,
                  Grid grid) override {
    static_cast<void>(key);
    static_cast<void>(parameters);
    groups += std::int64_t{grid.x} * grid.y * grid.z;
    texts.push_back(text());
    HEARTH_TRY(const SpirvModule module, compile_glsl("product", texts.back(), {.validate = true}));
    if (has_cooperative_matrices(module)) {
      ++cooperative;
      return rewrite_cooperative(module, CooperativeFactor::bf16).status();
    }
    return {};
  }
  void barrier() override {}
  Result<std::uint64_t> scratch(std::int64_t) override { return std::uint64_t{1} << 32U; }
  std::uint64_t error_cell() const noexcept override { return 0; }
  std::uint64_t guard() const noexcept override { return 0; }
  std::span<const std::int8_t> keeps() const noexcept override { return {}; }

  std::vector<std::string> texts;
  std::int64_t groups = 0;
  int cooperative = 0;

 private:
  DeviceLimits limits_;
};

constexpr DeviceLimits kGpu{.subgroup_size = 32,
                            .shared_bytes = 49152,
                            .most_group_threads = 1024,
                            .most_groups_x = 2147483647,
                            .has_f64 = true,
                            .has_f16_arithmetic = true,
                            .has_cooperative_matrix = true,
                            .has_cooperative_bf16 = true,
                            .multiprocessors = 132};

// Contiguous, but for sides that are transposed.
MatrixProduct product(DType dtype,
                      std::int64_t rows,
                      std::int64_t columns,
                      std::int64_t depth,
                      bool transposed_a,
                      bool transposed_b) {
  return {.dtype = dtype,
          .rows = rows,
          .columns = columns,
          .depth = depth,
          .a_row = transposed_a ? 1 : depth,
          .a_depth = transposed_a ? rows : 1,
          .b_depth = transposed_b ? 1 : columns,
          .b_column = transposed_b ? depth : 1};
}

TEST(ProductText, CompilesForAGpuInEachTypeAndForm) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const std::int64_t size : {1, 3, 31, 64, 300, 1000, 4096, 8192}) {
      for (const int transposed : {0, 1, 2, 3}) {
        TextEncoder encoder(kGpu);
        const Status status = encode_product(
            product(dtype, size, size, size, (transposed & 1) != 0, (transposed & 2) != 0),
            encoder);
        EXPECT_TRUE(status.has_value())
            << name(dtype) << " " << size << " " << transposed << ": " << status.error().text;
      }
    }
  }
}

TEST(ProductText, UsesMatrixUnitsWhereBothSidesLieInEights) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    TextEncoder with(kGpu);
    ASSERT_TRUE(encode_product(product(dtype, 64, 64, 64, false, true), with).has_value());
    EXPECT_EQ(with.cooperative, 1);
    TextEncoder odd(kGpu);
    ASSERT_TRUE(encode_product(product(dtype, 64, 64, 63, false, true), odd).has_value());
    EXPECT_EQ(odd.cooperative, 0);
  }
  TextEncoder f32(kGpu);
  ASSERT_TRUE(encode_product(product(DType::f32, 64, 64, 64, false, false), f32).has_value());
  EXPECT_EQ(f32.cooperative, 0);
}

TEST(ProductText, CutsALongDepthOfFewResults) {
  TextEncoder encoder(kGpu);
  ASSERT_TRUE(
      encode_product(product(DType::f32, 64, 64, 1 << 20, false, false), encoder).has_value());
  EXPECT_EQ(encoder.texts.size(), 2U);  // the parts, and their sum
  EXPECT_GT(encoder.groups, 132);
}

TEST(ProductText, WindowsCompileForAGpu) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const std::int64_t channels : {1, 64}) {
      const WindowAxis axis{.count = 56,
                            .begin = -1,
                            .taps = 3,
                            .source_size = 56,
                            .out_size = 56,
                            .source_stride = 1,
                            .weight_stride = 1};
      TextEncoder encoder(kGpu);
      const WindowProduct windows{.dtype = dtype,
                                  .images = 32,
                                  .rows = channels,
                                  .channels = channels,
                                  .axes = {axis, axis}};
      Status status = encode_windows(windows, encoder);
      EXPECT_TRUE(status.has_value()) << status.error().text;
      const WeightProduct weights{.dtype = dtype,
                                  .images = 32,
                                  .rows = channels,
                                  .channels = channels,
                                  .axes = {axis, axis}};
      status = encode_weight_product(weights, encoder);
      EXPECT_TRUE(status.has_value()) << status.error().text;
    }
  }
}

}  // namespace
}  // namespace hearth::vulkan
