#include <hearth/runtime/base/checked_file.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temporary_folder.hpp"

namespace hearth {
namespace {

using ::testing::HasSubstr;

constexpr FileFormat kFormat{.magic = {'H', 'T', 'E', 'S', 'T', '0', '0', '1'}, .version = 3};

std::span<const std::byte> as_span(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Writes a good file, corrupts its bytes, and returns the error of reading it.
Error error_after(const std::function<void(std::vector<std::byte>&)>& spoil) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_checked_file(path, kFormat, as_span("the payload")).value();
  std::vector<std::byte> bytes = read_file(path).value();
  spoil(bytes);
  write_file_atomically(path, bytes).value();
  const Result<std::vector<std::byte>> result = read_checked_file(path, kFormat);
  return result.has_value() ? Error{.code = ErrorCode::internal, .text = "no error"}
                            : result.error();
}

TEST(Xxh64, IsTheWellKnownFunction) {
  EXPECT_EQ(xxh64({}), 0xef46db3751d8e999U);
  EXPECT_EQ(xxh64(as_span("abc")), 0x44bc2cf5ad770999U);
  EXPECT_NE(xxh64(as_span("abc"), 1), xxh64(as_span("abc")));
}

TEST(CheckedFile, GivesThePayloadBack) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  ASSERT_TRUE(write_checked_file(path, kFormat, as_span("the payload")).has_value());
  const std::vector<std::byte> payload = read_checked_file(path, kFormat).value();
  EXPECT_EQ(payload,
            std::vector<std::byte>(as_span("the payload").begin(), as_span("the payload").end()));
  EXPECT_EQ(std::filesystem::file_size(path), kCheckedHeaderBytes + 11);
}

TEST(CheckedFile, IsTheSameWrittenAtOnceOrInPieces) {
  const TemporaryFolder folder;
  ASSERT_TRUE(
      write_checked_file(folder.path() / "once", kFormat, as_span("the payload")).has_value());
  const Status status =
      write_checked_file(folder.path() / "pieces", kFormat, [](CheckedWriter& writer) -> Status {
        HEARTH_TRY_STATUS(writer.write(as_span("the ")));
        HEARTH_TRY_STATUS(writer.write({}));
        HEARTH_TRY_STATUS(writer.write(as_span("payload")));
        EXPECT_EQ(writer.payload_size_bytes(), 11U);
        return {};
      });
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(read_file(folder.path() / "once").value(), read_file(folder.path() / "pieces").value());
}

TEST(CheckedFile, MayBeEmpty) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_checked_file(folder.path() / "file", kFormat, std::span<const std::byte>{})
                  .has_value());
  EXPECT_TRUE(read_checked_file(folder.path() / "file", kFormat).value().empty());
}

TEST(CheckedFile, KnowsAnotherKindOfFile) {
  const Error error = error_after([](auto& bytes) { bytes[0] = std::byte{'?'}; });
  EXPECT_EQ(error.code, ErrorCode::bad_format);
  EXPECT_THAT(error.text, HasSubstr("starts with '?TEST001', not with 'HTEST001'"));
}

TEST(CheckedFile, KnowsAnotherVersion) {
  const Error error = error_after([](auto& bytes) { bytes[8] = std::byte{4}; });
  EXPECT_EQ(error.code, ErrorCode::bad_format);
  EXPECT_THAT(error.text, HasSubstr("has schema version 4, this program reads 3"));
}

TEST(CheckedFile, KnowsThatItWasCutShort) {
  EXPECT_THAT(error_after([](auto& bytes) { bytes.pop_back(); }).text,
              HasSubstr("has 10 bytes of payload, its header states 11"));
  EXPECT_THAT(error_after([](auto& bytes) { bytes.resize(31); }).text,
              HasSubstr("has 31 bytes, its header alone needs 32"));
}

TEST(CheckedFile, KnowsThatOneBitChanged) {
  const Error error = error_after([](auto& bytes) { bytes.back() ^= std::byte{1}; });
  EXPECT_EQ(error.code, ErrorCode::bad_format);
  EXPECT_THAT(error.text, HasSubstr("is damaged: its checksum is wrong"));
}

TEST(CheckedFile, AFlippedBitAnywhereIsFound) {
  for (std::size_t bit = 0; bit < 8 * (kCheckedHeaderBytes + 11); ++bit) {
    const Error error = error_after(
        [&](auto& bytes) { bytes.at(bit / 8) ^= std::byte{1} << static_cast<int>(bit % 8); });
    EXPECT_EQ(error.code, ErrorCode::bad_format) << bit;
  }
}

TEST(CheckedFile, KnowsThatItsReservedBytesChanged) {
  for (const std::size_t at : {12U, 15U}) {
    const Error error = error_after([at](auto& bytes) { bytes[at] = std::byte{1}; });
    EXPECT_EQ(error.code, ErrorCode::bad_format);
    EXPECT_THAT(error.text, HasSubstr("is damaged: bytes 12 to 15 are not 0"));
  }
}

TEST(CheckedFile, IsMissingBeforeItIsWritten) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_checked_file(folder.path() / "no", kFormat).error().code, ErrorCode::not_found);
}

// Values of the xxHash library's own test program: other programs can verify the files.
TEST(CheckedFile, Xxh3IsTheSameForOnePieceAndForSeveral) {
  EXPECT_EQ(xxh3_64({}), 0x2d06800538d394c2U);
  const std::vector<std::byte> bytes(1000, std::byte{7});
  const std::span<const std::byte> all(bytes);
  const std::array<std::span<const std::byte>, 3> parts{all.first(1), {}, all.subspan(1)};
  EXPECT_EQ(xxh3_64(parts), xxh3_64({&all, 1}));
}

}  // namespace
}  // namespace hearth
