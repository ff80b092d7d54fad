#include <hearth/runtime/base/file_lock.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hearth/runtime/base/manual_executor.hpp>

#include "temporary_folder.hpp"

namespace hearth {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(FileLock, IsHeldByOneOnly) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "lock";
  std::optional<FileLock> first = FileLock::try_acquire(path).value();
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(FileLock::try_acquire(path).value().has_value());
  first.reset();
  EXPECT_TRUE(FileLock::try_acquire(path).value().has_value());
}

TEST(FileLock, MovesWithItsOwner) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "lock";
  std::optional<FileLock> first = FileLock::try_acquire(path).value();
  ASSERT_TRUE(first.has_value());
  {
    const FileLock second = std::move(*first);
    first.reset();
    EXPECT_FALSE(FileLock::try_acquire(path).value().has_value());
  }
  EXPECT_TRUE(FileLock::try_acquire(path).value().has_value());
}

TEST(FileLock, GivesUpAtItsDeadline) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "lock";
  ManualExecutor executor;
  executor.run([&] {
    const FileLock held = FileLock::acquire(path, Deadline::in(std::chrono::seconds(1))).value();
    const detail::TimePoint before = executor.clock().now();
    const Result<FileLock> refused = FileLock::acquire(path, Deadline::in(std::chrono::seconds(1)));
    EXPECT_EQ(refused.error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(executor.clock().now() - before, std::chrono::seconds(1));
  });
}

TEST(FileLock, AClaimNamesItsHolder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "lock";
  {
    const FileLock held = FileLock::claim(path).value();
    EXPECT_TRUE(held.is_held());
    const Result<FileLock> refused = FileLock::claim(path);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::io_error);
    EXPECT_THAT(refused.error().text,
                ContainsRegex("lock: held by process " + std::to_string(::getpid()) +
                              " \\([^)]+\\) on .+ since 20[0-9-]+ [0-9:]+ UTC$"));
  }
  EXPECT_EQ(folder.file_count(), 0U) << "its file goes with it";
  EXPECT_TRUE(FileLock::claim(path).has_value());
}

TEST(FileLock, AClaimTakesOverTheFileOfAKilledHolder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "lock";
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<FileLock> held = FileLock::claim(path);
    ::kill(::getpid(), SIGKILL);
    ::_exit(held.has_value() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.file_count(), 1U);
  const FileLock taken = FileLock::claim(path).value();
  EXPECT_THAT(FileLock::claim(path).error().text,
              HasSubstr("held by process " + std::to_string(::getpid()) + " "));
}

// The child writes its result to one pipe, and lives until the other one is closed.
TEST(FileLock, AForkedChildNeitherHoldsNorEndsIt) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "lock";
  std::array<int, 2> found{};
  std::array<int, 2> life{};
  ASSERT_EQ(::pipe(found.data()), 0);
  ASSERT_EQ(::pipe(life.data()), 0);
  std::optional<FileLock> held = FileLock::claim(path).value();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(life[1]);
    const bool is_refused = !FileLock::claim(path).has_value();
    held.reset();
    const bool is_refused_still = !FileLock::claim(path).has_value();
    char byte = is_refused && is_refused_still ? 'y' : 'n';
    static_cast<void>(!::write(found[1], &byte, 1));
    static_cast<void>(!::read(life[0], &byte, 1));
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(found[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y') << "the parent has it, whatever the child does with its copy";
  held.reset();
  EXPECT_TRUE(FileLock::claim(path).has_value()) << "the child lives, and does not have it";
  for (const int end : {life[1], life[0], found[0], found[1]}) {
    ::close(end);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
}

// The holder is killed, and a child that it forked lives until a pipe is closed.
TEST(FileLock, AChildThatOutlivesAKilledHolderDoesNotHoldIt) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "lock";
  std::array<int, 2> found{};
  std::array<int, 2> life{};
  ASSERT_EQ(::pipe(found.data()), 0);
  ASSERT_EQ(::pipe(life.data()), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    ::close(life[1]);
    const Result<FileLock> held = FileLock::claim(path);
    const pid_t child = ::fork();
    char byte = held.has_value() ? 'y' : 'n';
    if (child == 0) {
      static_cast<void>(!::write(found[1], &byte, 1));
      static_cast<void>(!::read(life[0], &byte, 1));
      ::_exit(0);
    }
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(holder, &status, 0), holder);
  char answer = 0;
  ASSERT_EQ(::read(found[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_TRUE(FileLock::claim(path).has_value());
  for (const int end : {life[1], life[0], found[0], found[1]}) {
    ::close(end);
  }
}

TEST(FileLock, SaysWhyItCannotOpenItsFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(FileLock::try_acquire(folder.path() / "no" / "lock").error().code, ErrorCode::io_error);
}

}  // namespace
}  // namespace hearth
