#include <hearth/runtime/base/file.hpp>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "temporary_folder.hpp"

namespace hearth {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> as_span(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path).value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Limits the size of files of this process, so that writes fail as on a full disk.
class FileSizeLimit final {
 public:
  explicit FileSizeLimit(rlim_t size_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = size_bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(ReadFile, GivesTheBytesThatWereWritten) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "weights";
  std::string text(100'000, 'x');
  text += '\0';
  ASSERT_TRUE(write_file_atomically(path, as_span(text)).has_value());
  EXPECT_EQ(text_of(path), text);
}

TEST(ReadFile, ReadsFilesThatHideTheirSize) {
  EXPECT_FALSE(text_of("/proc/self/status").empty());
}

TEST(ReadFile, ReadsAnEmptyFile) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder.path() / "empty", as_span("")).has_value());
  EXPECT_TRUE(read_file(folder.path() / "empty").value().empty());
}

TEST(ReadFile, TellsAMissingFileFromAnUnreadableOne) {
  const TemporaryFolder folder;
  const Result<std::vector<std::byte>> missing = read_file(folder.path() / "no");
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_THAT(missing.error().text, HasSubstr((folder.path() / "no").string()));
  EXPECT_THAT(missing.error().text, HasSubstr("cannot open: No such file or directory"));
  EXPECT_EQ(read_file(folder.path()).error().code, ErrorCode::io_error);
}

TEST(ReadFile, RefusesWhatIsNoRegularFileAtOnce) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";  // it has no writer: an open would wait for ever
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto refused = [](const std::filesystem::path& path, const std::string& kind) {
    const Error error = read_file(path).error();
    EXPECT_EQ(error.code, ErrorCode::io_error);
    EXPECT_THAT(error.text,
                HasSubstr("file " + path.string() + ": is " + kind +
                          "; only regular files are read as a whole"));
  };
  refused(pipe, "a pipe");
  refused(folder.path(), "a folder");
  refused("/dev/zero", "a device");  // it has no end
  EXPECT_FALSE(read_file("/proc/self/status").value().empty()) << "regular, though its size is 0";
}

TEST(WriteFileAtomically, ReplacesTheOldFileAndLeavesNoOther) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  ASSERT_TRUE(write_file_atomically(path, as_span("a long first version")).has_value());
  ASSERT_TRUE(write_file_atomically(path, as_span("second")).has_value());
  EXPECT_EQ(text_of(path), "second");
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(WriteFileAtomically, WritesPieceByPieceAndPatches) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "pieces";
  const Status status = write_file_atomically(path, [](FileWriter& writer) -> Status {
    HEARTH_TRY_STATUS(writer.write(as_span("????")));
    HEARTH_TRY_STATUS(writer.write(as_span("body")));
    EXPECT_EQ(writer.size_bytes(), 8U);
    return writer.write_at(0, as_span("head"));
  });
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(text_of(path), "headbody");
}

TEST(WriteFileAtomically, KeepsTheOldFileWhenTheWriterGivesUp) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  ASSERT_TRUE(write_file_atomically(path, as_span("old")).has_value());
  const Status status = write_file_atomically(path, [](FileWriter& writer) -> Status {
    HEARTH_TRY_STATUS(writer.write(as_span("half of the new")));
    return Error{.code = ErrorCode::cancelled, .text = "enough"};
  });
  EXPECT_EQ(status.error().code, ErrorCode::cancelled);
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(WriteFileAtomically, KeepsTheOldFileWhenTheWriterThrows) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  write_file_atomically(path, as_span("old")).value();
  const auto throwing = [](FileWriter&) -> Status { throw std::runtime_error("enough"); };
  bool has_thrown = false;
  try {
    write_file_atomically(path, throwing).value();
  } catch (const std::runtime_error&) {
    has_thrown = true;
  }
  EXPECT_TRUE(has_thrown);
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(WriteFileAtomically, KeepsTheOldFileWhenTheNewOneDoesNotFit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  write_file_atomically(path, as_span("old")).value();
  const Status status = [&] {
    const FileSizeLimit limit(4096);
    return write_file_atomically(path, as_span(std::string(1 << 20, 'x')));
  }();
  EXPECT_EQ(status.error().code, ErrorCode::io_error);
  EXPECT_THAT(status.error().text, HasSubstr(path.string() + ": cannot write: File too large"));
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(WriteFileAtomically, NamesTheFolderThatIsMissing) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "no";
  const Status status = write_file_atomically(missing / "state", as_span("text"));
  EXPECT_EQ(status.error().code, ErrorCode::io_error);
  EXPECT_EQ(status.error().text,
            fmt::format("file {}: cannot write: there is no folder {}",
                        (missing / "state").string(),
                        missing.string()));
}

TEST(WriteFileAtomically, DoesNotReplaceAFolder) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folder(folder.path() / "state").has_value());
  const Status status = write_file_atomically(folder.path() / "state", as_span("text"));
  EXPECT_THAT(status.error().text, HasSubstr("cannot write a file: Is a directory"));
  EXPECT_EQ(folder.file_count(), 1U);
}

mode_t mode_of(const std::filesystem::path& path) {
  struct stat facts {};
  EXPECT_EQ(::lstat(path.c_str(), &facts), 0) << path;
  return facts.st_mode;
}

TEST(WriteFileAtomically, KeepsTheModeOfTheOldFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  for (const mode_t mode : {0600U, 0640U, 0666U, 0444U}) {
    ASSERT_TRUE(write_file_atomically(path, as_span("old")).has_value());
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    ASSERT_TRUE(write_file_atomically(path, as_span("new")).has_value());
    EXPECT_EQ(mode_of(path) & 07777U, mode);
  }
}

// While the new content of a private file is written, it must not be readable by others.
TEST(WriteFileAtomically, HidesTheNewContentLikeTheOld) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  ASSERT_TRUE(write_file_atomically(path, as_span("old")).has_value());
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const Status status = write_file_atomically(path, [&](FileWriter& writer) -> Status {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      EXPECT_EQ(mode_of(entry.path()) & 07777U, 0600U) << entry.path();
    }
    return writer.write(as_span("new"));
  });
  EXPECT_TRUE(status.has_value());
}

TEST(WriteFileAtomically, ReplacesTheFileThatALinkNames) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folder(folder.path() / "real").has_value());
  const auto target = folder.path() / "real" / "state";
  const auto link = folder.path() / "link";
  const auto second = folder.path() / "second";
  ASSERT_TRUE(write_file_atomically(target, as_span("old")).has_value());
  std::filesystem::create_symlink("real/state", link);
  std::filesystem::create_symlink(folder.path() / "link", second);
  for (const auto& path : {link, second}) {
    ASSERT_TRUE(write_file_atomically(path, as_span(path.filename().string())).has_value());
    EXPECT_TRUE(S_ISLNK(mode_of(path)));
    EXPECT_TRUE(S_ISREG(mode_of(target)));
    EXPECT_EQ(text_of(target), path.filename().string());
  }
}

TEST(WriteFileAtomically, MakesTheFileThatALinkNames) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("later", folder.path() / "link");
  ASSERT_TRUE(write_file_atomically(folder.path() / "link", as_span("new")).has_value());
  EXPECT_TRUE(S_ISLNK(mode_of(folder.path() / "link")));
  EXPECT_EQ(text_of(folder.path() / "later"), "new");
}

TEST(WriteFileAtomically, RefusesLinksInACircle) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("b", folder.path() / "a");
  std::filesystem::create_symlink("a", folder.path() / "b");
  const Status status = write_file_atomically(folder.path() / "a", as_span("new"));
  EXPECT_EQ(status.error().code, ErrorCode::io_error);
  EXPECT_THAT(status.error().text, HasSubstr("Too many levels of symbolic links"));
}

// As root, a rename would put a regular file in place of the device node. The test uses a link, so
// that a mistake costs this link and not the machine's device.
TEST(WriteFileAtomically, WritesToDevicesAndLeavesThem) {
  const TemporaryFolder folder;
  const auto link = folder.path() / "null";
  std::filesystem::create_symlink("/dev/null", link);
  const Status status = write_file_atomically(link, [](FileWriter& writer) -> Status {
    HEARTH_TRY_STATUS(writer.write(as_span("????")));
    HEARTH_TRY_STATUS(writer.write(as_span("body")));
    return writer.write_at(0, as_span("head"));
  });
  EXPECT_TRUE(status.has_value()) << status.error().text;
  EXPECT_TRUE(check_writable(link).has_value());
  EXPECT_TRUE(S_ISLNK(mode_of(link)));
  EXPECT_TRUE(S_ISCHR(mode_of("/dev/null")));
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(WriteFileAtomically, SaysThatADeviceIsFull) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder.path() / "full");
  const Status status = write_file_atomically(folder.path() / "full", as_span("text"));
  EXPECT_EQ(status.error().code, ErrorCode::io_error);
  EXPECT_THAT(status.error().text, HasSubstr("cannot write: No space left on device"));
}

TEST(WriteFileAtomically, RefusesAPipeAtOnce) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const Status& status :
       {write_file_atomically(path, as_span("text")), check_writable(path)}) {
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::io_error);
    EXPECT_THAT(status.error().text, HasSubstr(path.string() + ": is a pipe; only regular files"));
  }
  EXPECT_TRUE(S_ISFIFO(mode_of(path)));
  EXPECT_EQ(folder.file_count(), 1U);
}

// Writes in another process, which is killed before it is done.
void write_and_be_killed(const std::filesystem::path& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Status status = write_file_atomically(path, [](FileWriter& writer) -> Status {
      HEARTH_TRY_STATUS(writer.write(as_span("half of the new")));
      std::raise(SIGKILL);
      return {};
    });
    std::_Exit(status.has_value() ? 0 : 1);
  }
  int end = 0;
  ASSERT_EQ(::waitpid(child, &end, 0), child);
  ASSERT_TRUE(WIFSIGNALED(end));
}

TEST(WriteFileAtomically, RemovesWhatAKilledWriterLeft) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  for (int kill = 0; kill < 3; ++kill) {
    write_and_be_killed(path);
    EXPECT_EQ(folder.file_count(), 1U) << "after " << kill << " more";
  }
  ASSERT_TRUE(write_file_atomically(path, as_span("new")).has_value());
  EXPECT_EQ(text_of(path), "new");
  EXPECT_EQ(folder.file_count(), 1U);
}

// For a separate process that is not root, because root may write files without write permission.
[[noreturn]] void replace_as_nobody(const std::filesystem::path& path) {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0 && ::setuid(kNobody) != 0) {
    std::_Exit(2);
  }
  std::_Exit(write_file_atomically(path, as_span("new")).has_value() ? 0 : 1);
}

TEST(WriteFileAtomically, RemovesALeftoverThatNobodyMayWrite) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  { std::ofstream(folder.path() / "state.hearth-tmp-0") << "half"; }
  ASSERT_EQ(::chmod((folder.path() / "state.hearth-tmp-0").c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    replace_as_nobody(path);
  }
  int end = 0;
  ASSERT_EQ(::waitpid(child, &end, 0), child);
  ASSERT_TRUE(WIFEXITED(end));
  ASSERT_EQ(WEXITSTATUS(end), 0);
  EXPECT_EQ(text_of(path), "new");
  EXPECT_EQ(folder.file_count(), 1U) << "the leftover is gone";
}

TEST(WriteFileAtomically, LeavesAWriterThatLivesItsFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  const Status outer = write_file_atomically(path, [&](FileWriter& writer) -> Status {
    HEARTH_TRY_STATUS(writer.write(as_span("outer")));
    write_and_be_killed(path);
    EXPECT_EQ(folder.file_count(), 2U);
    EXPECT_TRUE(write_file_atomically(path, as_span("inner")).has_value());
    EXPECT_EQ(text_of(path), "inner");
    return {};
  });
  ASSERT_TRUE(outer.has_value());
  EXPECT_EQ(text_of(path), "outer");
  EXPECT_EQ(folder.file_count(), 1U);
}

// For example a file of another user.
TEST(WriteFileAtomically, GoesAroundWhatItCannotRemove) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  ASSERT_TRUE(make_folder(folder.path() / "state.hearth-tmp-0").has_value());
  std::filesystem::create_symlink("nowhere", folder.path() / "state.hearth-tmp-1");
  ASSERT_TRUE(write_file_atomically(path, as_span("new")).has_value());
  EXPECT_EQ(text_of(path), "new");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "nowhere"));
}

TEST(FileWriter, SaysThatTheDiskIsFull) {
  const int descriptor = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  FileWriter writer(descriptor, "/dev/full");
  const Status status = writer.write(as_span("text"));
  ::close(descriptor);
  EXPECT_EQ(status.error().code, ErrorCode::io_error);
  EXPECT_EQ(status.error().text,
            "file /dev/full: cannot write: No space left on device (errno 28)");
  EXPECT_EQ(writer.size_bytes(), 0U);
}

TEST(CheckWritable, TellsWhetherAFileCanBeWrittenThere) {
  const TemporaryFolder folder;
  EXPECT_TRUE(check_writable(folder.path() / "new").has_value());
  EXPECT_EQ(check_writable(folder.path() / "none" / "new").error().code, ErrorCode::io_error);
  EXPECT_THAT(check_writable(folder.path()).error().text, HasSubstr("Is a directory"));
}

TEST(MakeFolder, MakesThoseAboveAndAcceptsWhatIsThere) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a" / "b";
  EXPECT_TRUE(make_folder(path).has_value());
  EXPECT_TRUE(make_folder(path).has_value());
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

TEST(MakeFolder, RefusesAPathThroughAFile) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder.path() / "file", as_span("")).has_value());
  EXPECT_EQ(make_folder(folder.path() / "file" / "below").error().code, ErrorCode::io_error);
}

TEST(CacheDir, TakesTheFirstOfThreeVariables) {
  detail::Settings settings;
  settings.set(detail::Setting::home, "/home/ada");
  EXPECT_EQ(cache_dir(settings).value(), "/home/ada/.cache/hearth");
  settings.set(detail::Setting::xdg_cache_home, "/var/caches");
  EXPECT_EQ(cache_dir(settings).value(), "/var/caches/hearth");
  settings.set(detail::Setting::cache_dir, "/fast/hearth-cache");
  EXPECT_EQ(cache_dir(settings).value(), "/fast/hearth-cache");
}

TEST(CacheDir, PassesOverARelativeDesktopFolder) {
  detail::Settings settings;
  settings.set(detail::Setting::xdg_cache_home, "caches");
  settings.set(detail::Setting::home, "/home/ada");
  EXPECT_EQ(cache_dir(settings).value(), "/home/ada/.cache/hearth");
}

TEST(CacheDir, RefusesARelativeFolderOfOurOwn) {
  detail::Settings settings;
  settings.set(detail::Setting::cache_dir, "cache");
  settings.set(detail::Setting::home, "/home/ada");
  EXPECT_EQ(cache_dir(settings).error().text, "HEARTH_CACHE_DIR=cache: expected an absolute path");
}

TEST(CacheDir, NeedsOneOfThem) {
  EXPECT_EQ(cache_dir(detail::Settings{}).error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace hearth
