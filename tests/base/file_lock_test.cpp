#include <hearth/runtime/base/file_lock.hpp>

#include <chrono>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <hearth/runtime/base/manual_executor.hpp>

#include "temporary_folder.hpp"

namespace hearth {
namespace {

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

TEST(FileLock, SaysWhyItCannotOpenItsFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(FileLock::try_acquire(folder.path() / "no" / "lock").error().code, ErrorCode::io_error);
}

}  // namespace
}  // namespace hearth
