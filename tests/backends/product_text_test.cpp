// The texts of products and of attention for absent devices: the shaders of a large GPU compile to
// valid SPIR-V, with and without matrix units.
#include "backends/gpu/attention/attention.hpp"
#include "backends/gpu/movement/indexing.hpp"
#include "backends/gpu/products/matrix_product.hpp"
#include "backends/gpu/products/window_product.hpp"
#include "backends/vulkan/spirv/cooperative_rewrite.hpp"
#include "backends/vulkan/spirv/spirv_compiler.hpp"
#include "bench/gpu/large_gpu.hpp"
#include "tests/streams/kernel/example_kernels.hpp"

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hearth::gpu {
namespace {

using namespace vulkan;

// Compiles each dispatched text and keeps it.
class TextEncoder final : public KernelEncoder {
 public:
  explicit TextEncoder(const DeviceLimits& limits) : limits_(limits) {}

  const DeviceLimits& limits() const noexcept override { return limits_; }
  Status dispatch(const KernelKey& key,
                  KernelText text,
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

// A product whose result lies at address 0, with an epilogue.
class ProductCall final {
 public:
  ProductCall(DType dtype, const Shape& shape, const Epilogue* epilogue = nullptr)
      : layout_(shape), view_{nullptr, &layout_, dtype}, epilogue_(epilogue) {}

  KernelCall call() const noexcept {
    return {OpView(record_, nullptr), {}, std::span(&view_, 1), nullptr, epilogue_};
  }

 private:
  OpRecord record_;
  hearth::detail::Layout layout_;
  TensorView view_;
  const Epilogue* epilogue_;
};

// Contiguous, except for transposed sides.
Status encode(KernelEncoder& encoder,
              DType dtype,
              std::int64_t rows,
              std::int64_t columns,
              std::int64_t depth,
              bool transposed_a,
              bool transposed_b,
              const Epilogue* epilogue = nullptr) {
  const ProductCall result(dtype == DType::i8 ? DType::i32 : dtype, {rows, columns}, epilogue);
  return encode_product({.dtype = dtype,
                         .rows = rows,
                         .columns = columns,
                         .depth = depth,
                         .a_row = transposed_a ? 1 : depth,
                         .a_depth = transposed_a ? rows : 1,
                         .b_depth = transposed_b ? 1 : columns,
                         .b_column = transposed_b ? depth : 1},
                        result.call(),
                        encoder);
}

// The product times a row, plus a column, through erf.
Expression after(DType dtype) {
  KernelBuilder b({0, 1});
  const std::vector<AffineIndex> map{testing::axis(0), testing::axis(1)};
  const auto wide = [&b](const KernelValue& x) { return b.convert(x, DType::f32); };
  const bool converts = dtype == DType::f16 || dtype == DType::bf16;
  std::vector<KernelValue> in;
  for (int i = 0; i < 3; ++i) {
    const KernelValue x = b.input(dtype, map);
    in.push_back(converts ? wide(x) : x);
  }
  const KernelValue y = erf(in[0] * in[1] + in[2]);
  b.output(converts ? b.convert(y, dtype) : y);
  Expression out;
  out.name = "after";
  out.kernel = b.take();
  out.hash = hash(out.kernel);
  return out;
}

TEST(ProductText, CompilesForAGpuInEachTypeAndForm) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8}) {
    for (const std::int64_t size : {1, 3, 31, 64, 300, 1000, 4096, 8192}) {
      for (const int transposed : {0, 1, 2, 3}) {
        TextEncoder encoder(kLargeGpu);
        const Status status =
            encode(encoder, dtype, size, size, size, (transposed & 1) != 0, (transposed & 2) != 0);
        EXPECT_TRUE(status.has_value())
            << name(dtype) << " " << size << " " << transposed << ": " << status.error().text;
      }
    }
  }
}

// The range of rows of an exact product's dispatch, as its text states it.
std::pair<std::int64_t, std::int64_t> rows_of(const std::string& text) {
  const auto number = [&text](const std::string& before) {
    const std::size_t at = text.find(before);
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + before.size()));
  };
  return {number("own_row += "), number("first_row = min(own_row, ")};
}

// 8192 rows are 51 tiles of 160 rows and 32 rows more; tiles of 128 rows take these with some
// neighbours. 8320 rows are whole tiles; 1024 are too few. Where a smaller tile was chosen for its
// rounds, all rows stay with it.
TEST(ProductText, LeavesRowsThatDoNotFitToOtherTiles) {
  struct Sizes {
    DType dtype;
    std::int64_t rows, columns, depth;
    std::size_t kinds;
  };
  for (const Sizes& sizes : {Sizes{DType::f16, 8192, 8192, 8192, 2},
                             Sizes{DType::bf16, 8192, 8192, 8192, 2},
                             Sizes{DType::f16, 8320, 8192, 8192, 1},
                             Sizes{DType::f16, 1024, 8192, 8192, 1},
                             Sizes{DType::f16, 2048, 13824, 4096, 1},
                             Sizes{DType::f16, 3072, 5632, 1024, 1},
                             Sizes{DType::f16, 4608, 4608, 1024, 1},
                             Sizes{DType::f32, 8192, 8192, 4096, 1}}) {
    SCOPED_TRACE(std::to_string(sizes.rows) + " x " + std::to_string(sizes.columns));
    TextEncoder encoder(kLargeGpu);
    ASSERT_TRUE(encode(encoder, sizes.dtype, sizes.rows, sizes.columns, sizes.depth, false, false)
                    .has_value());
    ASSERT_EQ(encoder.texts.size(), sizes.kinds);
    if (sizes.kinds == 2) {
      const auto [first, kept] = rows_of(encoder.texts[0]);
      const auto [left, end] = rows_of(encoder.texts[1]);
      EXPECT_EQ(first, 0);
      EXPECT_EQ(kept, left);
      EXPECT_EQ(end, sizes.rows);
      EXPECT_GT(kept, sizes.rows * 3 / 4);
    }
  }
}

TEST(ProductText, SumsInF16WhereThatIsAllowed) {
  for (const bool allows : {false, true}) {
    DeviceLimits limits = kLargeGpu;
    limits.sums_f16 = allows;
    for (const DType dtype : {DType::f16, DType::bf16}) {
      TextEncoder encoder(limits);
      const Status status = encode(encoder, dtype, 256, 256, 256, false, false);
      ASSERT_TRUE(status.has_value()) << status.error().text;
      EXPECT_EQ(encoder.cooperative, 1);
      EXPECT_EQ(encoder.texts.front().find("#define SUM_BITS 16\n") != std::string::npos,
                allows && dtype == DType::f16);
    }
  }
}

TEST(ProductText, UsesMatrixUnitsWhereBothSidesLieInEights) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    TextEncoder with(kLargeGpu);
    ASSERT_TRUE(encode(with, dtype, 64, 64, 64, false, true).has_value());
    EXPECT_EQ(with.cooperative, 1);
    TextEncoder odd(kLargeGpu);
    ASSERT_TRUE(encode(odd, dtype, 64, 64, 63, false, true).has_value());
    EXPECT_EQ(odd.cooperative, 0);
  }
  for (const bool transposed : {false, true}) {
    TextEncoder of_bytes(kLargeGpu);
    ASSERT_TRUE(encode(of_bytes, DType::i8, 64, 64, 64, transposed, !transposed).has_value());
    EXPECT_EQ(of_bytes.cooperative, 1);
  }
  TextEncoder eights(kLargeGpu);
  ASSERT_TRUE(encode(eights, DType::i8, 64, 64, 56, false, true).has_value());
  EXPECT_EQ(eights.cooperative, 0) << "sixteen make a word";
  TextEncoder f32(kLargeGpu);
  ASSERT_TRUE(encode(f32, DType::f32, 64, 64, 64, false, false).has_value());
  EXPECT_EQ(f32.cooperative, 0);
}

TEST(ProductText, CutsALongDepthOfFewResults) {
  TextEncoder encoder(kLargeGpu);
  ASSERT_TRUE(encode(encoder, DType::f32, 64, 64, 1 << 20, false, false).has_value());
  EXPECT_EQ(encoder.texts.size(), 2U);  // the parts, and their sum
  EXPECT_GT(encoder.groups, 132);
}

TEST(ProductText, EndsInAnEpilogueOfOperandsInAnyOrder) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Expression expression = after(dtype);
    for (const std::int64_t size : {3, 300, 4096}) {
      const hearth::detail::Layout row(Shape{size});
      const hearth::detail::Layout column(Shape{size, 1});
      const std::array<TensorView, 2> inputs{TensorView{nullptr, &row, dtype},
                                             TensorView{nullptr, &column, dtype}};
      const Epilogue epilogue{.expression = &expression, .inputs = inputs};
      TextEncoder encoder(kLargeGpu);
      const Status status = encode(encoder, dtype, size, size, size, false, false, &epilogue);
      ASSERT_TRUE(status.has_value()) << name(dtype) << size << ": " << status.error().text;
      EXPECT_NE(encoder.texts.back().find("epilogue("), std::string::npos);
    }
  }
}

// With sizes in the text, whole tiles and whole slices, loads have no bounds checks.
TEST(ProductText, AsksNothingOfLongProductsOfWholeSlices) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i8}) {
    TextEncoder exact(kLargeGpu);
    ASSERT_TRUE(encode(exact, dtype, 4096, 4096, 4096, false, false).has_value());
    EXPECT_NE(exact.texts[0].find("#define EXACT 1"), std::string::npos) << name(dtype);
    TextEncoder ragged(kLargeGpu);
    ASSERT_TRUE(encode(ragged, dtype, 4096, 4096, dtype == DType::i8 ? 4112 : 4104, false, false)
                    .has_value());
    EXPECT_NE(ragged.texts[0].find("#define EXACT 0"), std::string::npos) << name(dtype);
  }
}

// Each dimension alone and all of them, in each form. Sides whose lines are not aligned are copied;
// the product then has the text of the next multiple of 8.
TEST(ProductText, LargeProductsOfOddSizesUseMatrixUnits) {
  struct Sizes {
    std::int64_t rows, columns, depth;
  };
  for (const DType dtype : {DType::f16, DType::bf16, DType::i8}) {
    for (const Sizes& sizes :
         {Sizes{4097, 4096, 4096}, Sizes{4096, 4097, 4096}, Sizes{2049, 2049, 2049}}) {
      for (int turned = 0; turned < 4; ++turned) {
        TextEncoder encoder(kLargeGpu);
        const Status status = encode(encoder,
                                     dtype,
                                     sizes.rows,
                                     sizes.columns,
                                     sizes.depth,
                                     (turned & 1) != 0,
                                     (turned & 2) != 0);
        ASSERT_TRUE(status.has_value()) << status.error().text;
        EXPECT_GE(encoder.cooperative, 1) << name(dtype) << sizes.rows << sizes.columns << turned;
        EXPECT_NE(encoder.texts.back().find("#define EXACT 1"), std::string::npos);
        const bool is_odd = sizes.columns % 8 != 0;
        EXPECT_EQ(encoder.texts.back().find("#define PUTS_RAGGED 1") != std::string::npos, is_odd);
      }
    }
  }
  // Without matrix units, a word of a tile has four elements.
  TextEncoder f32(kLargeGpu);
  ASSERT_TRUE(encode(f32, DType::f32, 4097, 4097, 4095, false, false).has_value());
  EXPECT_EQ(f32.texts.size(), 3U);
  EXPECT_NE(f32.texts.back().find("#define EXACT 1"), std::string::npos);
}

// After the barrier of its copies no other product shares the last round of 572 tiles, so some rows
// get another kind of tile. Without copies the next product shares that round.
TEST(ProductText, CutsAProductAloneForTwoKindsOfTiles) {
  TextEncoder alone(kLargeGpu);
  ASSERT_TRUE(encode(alone, DType::bf16, 4097, 4097, 4097, false, false).has_value());
  ASSERT_EQ(alone.texts.size(), 4U);  // two copies, two kinds
  const auto [first, kept] = rows_of(alone.texts[2]);
  const auto [left, end] = rows_of(alone.texts[3]);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(kept, left);
  EXPECT_EQ(end, 4097);
  TextEncoder beside(kLargeGpu);
  ASSERT_TRUE(encode(beside, DType::bf16, 4104, 4104, 4160, false, false).has_value());
  EXPECT_EQ(beside.texts.size(), 1U);
}

// A layer of 50,257 words: its backward products copy the gradient. The product for the input also
// copies W, so that the depth has whole slices; a fold adds the two parts of that depth. A copy
// that costs more than it saves is not made.
TEST(ProductText, CopiesWhatIsMultipliedOftenEnough) {
  TextEncoder of_input(kLargeGpu);
  ASSERT_TRUE(encode(of_input, DType::bf16, 8192, 768, 50257, false, false).has_value());
  ASSERT_EQ(of_input.texts.size(), 4U);
  EXPECT_NE(of_input.texts[2].find("#define EXACT 1"), std::string::npos);
  TextEncoder of_weight(kLargeGpu);
  ASSERT_TRUE(encode(of_weight, DType::bf16, 50257, 768, 8192, true, false).has_value());
  EXPECT_EQ(of_weight.texts.size(), 2U);
  EXPECT_EQ(of_weight.cooperative, 1);
  TextEncoder few_rows(kLargeGpu);
  ASSERT_TRUE(encode(few_rows, DType::bf16, 16, 50257, 4096, false, false).has_value());
  EXPECT_EQ(few_rows.cooperative, 0);
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
      TextEncoder encoder(kLargeGpu);
      const WindowProduct windows{.dtype = dtype,
                                  .images = 32,
                                  .rows = channels,
                                  .channels = channels,
                                  .axes = {axis, axis}};
      const ProductCall result(dtype, {32, channels, 56, 56});
      Status status = encode_windows(windows, result.call(), encoder);
      EXPECT_TRUE(status.has_value()) << status.error().text;
      const WeightProduct weights{.dtype = dtype,
                                  .images = 32,
                                  .rows = channels,
                                  .channels = channels,
                                  .axes = {axis, axis}};
      const ProductCall gradient(dtype, {channels, channels, 3, 3});
      status = encode_weight_product(weights, gradient.call(), encoder);
      EXPECT_TRUE(status.has_value()) << status.error().text;
    }
  }
}

// Forward and backward of 8 heads of 300 queries and 200 keys, at address 0.
void encode_attention_calls(TextEncoder& encoder, DType dtype, std::int64_t width, bool is_causal) {
  const DType of_statistics = dtype == DType::f64 ? DType::f64 : DType::f32;
  const AttentionAttributes attributes{.scale = 0.125, .causal = is_causal ? 1 : 0};
  OpRecord record;
  std::memcpy(&record.immediate, &attributes, sizeof(attributes));
  const hearth::detail::Layout queries(Shape{8, 300, width});
  const hearth::detail::Layout keys(Shape{8, 200, width});
  const hearth::detail::Layout rows(Shape{8, 300, 2});
  const TensorView q{nullptr, &queries, dtype};
  const TensorView k{nullptr, &keys, dtype};
  const TensorView statistics{nullptr, &rows, of_statistics};
  const std::array<TensorView, 3> in{q, k, k};
  const std::array<TensorView, 2> out{q, statistics};
  ASSERT_TRUE(encode_attention({OpView(record, nullptr), in, out}, encoder).has_value());
  const std::array<TensorView, 6> in_back{q, q, k, k, q, statistics};
  const std::array<TensorView, 3> out_back{q, k, k};
  const Status status =
      encode_attention_backward({OpView(record, nullptr), in_back, out_back}, encoder);
  ASSERT_TRUE(status.has_value()) << status.error().text;
}

TEST(AttentionText, CompilesForAGpuOnMatrixUnitsWhereRowsLieInEights) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const std::int64_t width : {64, 96, 63}) {
      TextEncoder encoder(kLargeGpu);
      encode_attention_calls(encoder, dtype, width, width == 96);
      const bool on_units = (dtype == DType::f16 || dtype == DType::bf16) && width != 63;
      EXPECT_EQ(encoder.cooperative, on_units ? 3 : 0) << name(dtype) << " " << width;
    }
  }
}

// Rows of a table of 2^31 elements, whose indices are 64-bit numbers.
TEST(AddAtText, CompilesForResultsOfAnySize) {
  for (const std::int64_t rows : {std::int64_t{1000}, std::int64_t{1} << 19}) {
    const hearth::detail::Layout table({rows, 4096});
    const hearth::detail::Layout added({2048, 4096});
    const hearth::detail::Layout index({2048});
    for (const DType dtype : {DType::f16, DType::f32, DType::f64}) {
      const AxisAttributes attributes{.axis = 0};
      OpRecord record;
      record.kind = OpKind::index_add;
      std::memcpy(&record.immediate, &attributes, sizeof(attributes));
      const std::array in{TensorView{nullptr, &added, dtype},
                          TensorView{nullptr, &index, DType::i64}};
      const TensorView out{nullptr, &table, dtype};
      TextEncoder encoder(kLargeGpu);
      const Status status = encode_add_at({OpView(record, nullptr), in, {&out, 1}}, encoder);
      EXPECT_TRUE(status.has_value()) << name(dtype) << " " << rows << ": " << status.error().text;
      const auto has_stretches = [](const std::string& text) {
        return text.find("#define STRETCH") != std::string::npos;
      };
      EXPECT_EQ(std::ranges::count_if(encoder.texts, has_stretches), 2);
    }
  }
}

}  // namespace
}  // namespace hearth::gpu
