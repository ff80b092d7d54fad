// Products that a library computes in pieces of rows: each row once, in memory that stays small.
#include "backends/gpu/products/matrix_product.hpp"

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/op_table.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hearth::gpu {
namespace {

constexpr std::uint64_t kScratch = std::uint64_t{1} << 40U;
constexpr std::uint64_t kA = std::uint64_t{1} << 33U;
constexpr std::uint64_t kB = std::uint64_t{2} << 33U;
constexpr std::uint64_t kY = std::uint64_t{3} << 33U;
constexpr std::int64_t kWorkspace = 4096;

/// Has a library that takes all products, and keeps what is encoded.
class LibraryEncoder final : public KernelEncoder {
 public:
  [[nodiscard]] const DeviceLimits& limits() const noexcept override { return limits_; }
  [[nodiscard]] Status dispatch(const KernelKey& /*key*/,
                                KernelText /*text*/,
                                const ParameterBlock& /*parameters*/,
                                Grid /*grid*/) override {
    ++copies;
    return {};
  }
  [[nodiscard]] std::optional<std::int64_t> product_workspace(
      const LibraryProduct& /*product*/) override {
    return kWorkspace;
  }
  [[nodiscard]] Status product_by_library(const LibraryProduct& product,
                                          std::uint64_t workspace) override {
    EXPECT_EQ(workspace % 256, 0U);
    products.push_back(product);
    return {};
  }
  void barrier() override {}
  [[nodiscard]] Result<std::uint64_t> scratch(std::int64_t size_bytes) override {
    scratch_bytes = size_bytes;
    return kScratch;
  }
  [[nodiscard]] std::uint64_t error_cell() const noexcept override { return 0; }
  [[nodiscard]] std::uint64_t guard() const noexcept override { return 0; }
  [[nodiscard]] std::span<const std::int8_t> keeps() const noexcept override { return {}; }

  std::vector<LibraryProduct> products;
  int copies = 0;
  std::int64_t scratch_bytes = 0;

 private:
  DeviceLimits limits_{.has_product_library = true};
};

const std::byte* at(std::uint64_t address) {
  return reinterpret_cast<const std::byte*>(address);  // NOLINT: of a device
}

void encode(MatrixProduct product, LibraryEncoder& encoder) {
  product.dtype = DType::bf16;
  product.a = at(kA);
  product.b = at(kB);
  const hearth::detail::Layout layout{Shape({product.rows, product.columns})};
  const TensorView view{const_cast<std::byte*>(at(kY)), &layout, DType::bf16};  // NOLINT
  const OpRecord record;
  const KernelCall call{OpView(record, nullptr), {}, std::span(&view, 1), nullptr, nullptr};
  const Status status = encode_product(product, call, encoder);
  ASSERT_TRUE(status.has_value()) << status.error().text;
}

std::int64_t rows_of(const LibraryEncoder& encoder) {
  std::int64_t rows = 0;
  for (const LibraryProduct& each : encoder.products) {
    rows += each.rows;
  }
  return rows;
}

// Columns that are no whole words: the results are padded. All pieces share one copy of b.
TEST(LibraryCall, PadsResultsPieceByPiece) {
  LibraryEncoder encoder;
  encode({.rows = 4096,
          .columns = 50257,
          .depth = 768,
          .a_row = 768,
          .a_depth = 1,
          .b_depth = 1,
          .b_column = 768},
         encoder);
  ASSERT_GT(encoder.products.size(), 3U);
  EXPECT_EQ(rows_of(encoder), 4096);
  std::int64_t first = 0;
  for (const LibraryProduct& each : encoder.products) {
    EXPECT_EQ(each.columns, 50264);
    EXPECT_EQ(each.a, kA + static_cast<std::uint64_t>(first * 768 * 2));
    EXPECT_EQ(each.b, kScratch);
    EXPECT_EQ(each.y, encoder.products.front().y);
    first += each.rows;
  }
  EXPECT_EQ(encoder.copies, 1 + static_cast<int>(encoder.products.size()));
  const std::int64_t b_bytes = std::int64_t{50264} * 768 * 2;
  EXPECT_LT(encoder.scratch_bytes, b_bytes + (std::int64_t{64} << 20U) + 2 * kWorkspace);
}

// A depth that is no whole words: the left side is copied, a piece at a time.
TEST(LibraryCall, CopiesTheLeftSidePieceByPiece) {
  LibraryEncoder encoder;
  encode({.rows = 4095,
          .columns = 768,
          .depth = 50257,
          .a_row = 50257,
          .a_depth = 1,
          .b_depth = 768,
          .b_column = 1},
         encoder);
  ASSERT_GT(encoder.products.size(), 3U);
  EXPECT_EQ(rows_of(encoder), 4095);
  std::int64_t first = 0;
  for (const LibraryProduct& each : encoder.products) {
    EXPECT_EQ(each.depth, 50264);
    EXPECT_EQ(each.y, kY + static_cast<std::uint64_t>(first * 768 * 2));
    first += each.rows;
  }
  EXPECT_LT(encoder.scratch_bytes,
            std::int64_t{50264} * 768 * 2 + (std::int64_t{64} << 20U) + 2 * kWorkspace);
}

// Rows that are neighbours in memory, and no whole words: the last piece has the padded ones.
TEST(LibraryCall, PadsTheRowsOfTheLastPiece) {
  LibraryEncoder encoder;
  encode({.rows = 50257,
          .columns = 768,
          .depth = 4096,
          .a_row = 1,
          .a_depth = 50257,
          .b_depth = 768,
          .b_column = 1},
         encoder);
  ASSERT_GT(encoder.products.size(), 3U);
  EXPECT_EQ(rows_of(encoder), 50264);
  for (const LibraryProduct& each : encoder.products) {
    EXPECT_EQ(each.rows % 8, 0);
    EXPECT_EQ(each.depth, 4096);
  }
  EXPECT_LT(encoder.scratch_bytes, (std::int64_t{65} << 20U));
}

// A small product is one piece.
TEST(LibraryCall, PadsSmallProductsAtOnce) {
  LibraryEncoder encoder;
  encode({.rows = 1024,
          .columns = 1027,
          .depth = 1024,
          .a_row = 1024,
          .a_depth = 1,
          .b_depth = 1027,
          .b_column = 1},
         encoder);
  ASSERT_EQ(encoder.products.size(), 1U);
  EXPECT_EQ(encoder.products.front().columns, 1032);
}

}  // namespace
}  // namespace hearth::gpu
