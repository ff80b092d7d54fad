#include <hearth/runtime/base/file_reader.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temporary_folder.hpp"

namespace hearth {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class FileReading : public ::testing::Test {
 protected:
  void write(std::string_view text) const { std::ofstream(path, std::ios::binary) << text; }
  // The bytes at an offset, or the text of the error.
  static std::string read(const FileReader& reader, std::uint64_t offset, std::size_t size) {
    std::string text(size, '?');
    const Status status = reader.read_at(offset, std::as_writable_bytes(std::span(text)));
    return status.has_value() ? text : status.error().text;
  }

  TemporaryFolder folder;
  fs::path path = folder.path() / "weights";
};

TEST_F(FileReading, GivesTheBytesAtAnOffset) {
  write("0123456789");
  const FileReader reader = FileReader::open(path).value();
  EXPECT_EQ(reader.size_bytes(), 10U);
  EXPECT_EQ(read(reader, 3, 4), "3456");
  EXPECT_EQ(read(reader, 10, 0), "");
}

TEST_F(FileReading, BytesBehindTheEndAreAnErrorWithTheirPlace) {
  write("0123456789");
  const FileReader reader = FileReader::open(path).value();
  EXPECT_THAT(read(reader, 8, 4), HasSubstr("it has 10 bytes, but 2 more are wanted at byte 10"));
}

TEST_F(FileReading, AFileThatShrinksIsAnError) {
  write("0123456789");
  const FileReader reader = FileReader::open(path).value();
  fs::resize_file(path, 5);
  EXPECT_THAT(read(reader, 3, 4),
              HasSubstr("changed while it was read: it had 10 bytes and has 5 now"));
  EXPECT_THAT(read(reader, 0, 2), HasSubstr("it had 10 bytes and has 5 now"));
}

TEST_F(FileReading, AFileThatIsRewrittenInPlaceIsAnError) {
  write("0123456789");
  const FileReader reader = FileReader::open(path).value();
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_THAT(read(reader, 0, 2), HasSubstr("its time of modification is another"));
}

TEST_F(FileReading, AReplacedFileIsReadAsItWas) {
  write("old");
  const FileReader reader = FileReader::open(path).value();
  std::ofstream(folder.path() / "new") << "new";
  fs::rename(folder.path() / "new", path);
  EXPECT_EQ(read(reader, 0, 3), "old");
}

TEST_F(FileReading, OnlyRegularFilesAreOpened) {
  EXPECT_EQ(FileReader::open(path).status().error().code, ErrorCode::not_found);
  EXPECT_EQ(FileReader::open(folder.path()).status().error().code, ErrorCode::io_error);
  EXPECT_EQ(FileReader::open("/dev/null").status().error().code, ErrorCode::io_error);
}

}  // namespace
}  // namespace hearth
