// The state of the disk after a power failure: a store syncs the file, renames it, syncs its
// folder, and reports a sync that fails. A separate program, because it replaces the C library's
// fsync and rename.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <hearth/runtime/base/file.hpp>

#include "temporary_folder.hpp"

namespace hearth::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Calls {
  std::vector<std::string> names;
  int file_error = 0;          ///< The errno of the next sync of a file; 0: it succeeds.
  int folder_error = 0;        ///< The errno of the next sync of a folder; 0: it succeeds.
  bool takes_nothing = false;  ///< Writes return 0 bytes.
};
Calls calls;

int sync(int number) {
  struct stat facts {};
  if (::fstat(number, &facts) != 0) {
    return -1;
  }
  const bool is_folder = S_ISDIR(facts.st_mode);
  calls.names.emplace_back(is_folder ? "sync the folder" : "sync the file");
  if (const int error_number = is_folder ? calls.folder_error : calls.file_error) {
    errno = error_number;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, number));
}

class FileSync : public ::testing::Test {
 protected:
  void SetUp() override { calls = {}; }
  [[nodiscard]] Status store(const std::string& text) const {
    return write_file_atomically(path, std::as_bytes(std::span(text)));
  }
  [[nodiscard]] std::string content() const {
    const auto bytes = read_file(path);
    std::string text;
    for (const std::byte byte : bytes.value()) {
      text += static_cast<char>(byte);
    }
    return text;
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder.path() / "file";
};

TEST_F(FileSync, TheFolderIsSyncedAfterTheRenameAndTheFileBefore) {
  ASSERT_TRUE(store("new").has_value());
  EXPECT_THAT(calls.names, ElementsAre("sync the file", "rename", "sync the folder"));
  EXPECT_EQ(content(), "new");
}

TEST_F(FileSync, ASyncOfTheFileThatFailsKeepsTheOld) {
  ASSERT_TRUE(store("old").has_value());
  calls = {.names = {}, .file_error = EIO, .folder_error = 0, .takes_nothing = false};
  const Status status = store("new");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::io_error);
  EXPECT_THAT(status.error().text, HasSubstr("sync"));
  EXPECT_EQ(content(), "old");
}

TEST_F(FileSync, ASyncOfTheFolderThatFailsIsTold) {
  calls.folder_error = EIO;
  const Status status = store("new");
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().text, HasSubstr("sync its folder"));
}

TEST_F(FileSync, AFolderThatCannotBeSyncedAtAllIsNoError) {
  calls.folder_error = EINVAL;  // as on some network file systems
  EXPECT_TRUE(store("new").has_value());
}

TEST_F(FileSync, ADeviceThatTakesNothingIsGivenUp) {
  calls.takes_nothing = true;
  const Status status = write_file_atomically("/dev/null", std::as_bytes(std::span("new", 3)));
  calls.takes_nothing = false;
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::io_error);
  EXPECT_THAT(status.error().text, HasSubstr("file /dev/null: cannot write"));
}

}  // namespace

int sync_instead(int number) {
  return sync(number);
}
void record_rename() {
  calls.names.emplace_back("rename");
}

bool takes_nothing() {
  return calls.takes_nothing;
}

}  // namespace hearth::testing

extern "C" ssize_t write(int number, const void* bytes, size_t count) {
  return hearth::testing::takes_nothing() ? 0 : ::syscall(SYS_write, number, bytes, count);
}

extern "C" int fsync(int number) {
  return hearth::testing::sync_instead(number);
}

extern "C" int rename(const char* from, const char* to) noexcept {
  hearth::testing::record_rename();
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
