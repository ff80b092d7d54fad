// A lock between processes (and threads) on a lock file, which stays on disk and is empty. The file
// of claim() names the holder, and the holder removes it.
// Move-only. The lock ends with the object, and at the latest with the process. A forked child does
// not share it: neither its life nor its FileLock objects hold or end the parent's lock.
// Threads: any; two FileLocks of one process exclude one another like those of two processes.
#pragma once

#include <filesystem>
#include <optional>

#include <sys/types.h>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth {

class FileLock final {
 public:
  /// Acquires the lock, or returns nothing if it is held elsewhere. Creates the file, not its
  /// folder.
  ///
  /// Errors: io_error.
  [[nodiscard]] static Result<std::optional<FileLock>> try_acquire(
      const std::filesystem::path& path);
  /// Waits for the lock.
  ///
  /// Errors: io_error, deadline_exceeded.
  [[nodiscard]] static Result<FileLock> acquire(const std::filesystem::path& path,
                                                Deadline deadline);
  /// Acquires the lock at once. An error names the holder: process, program, host and start time.
  /// On a file system without locks (some network ones) the result does not hold a lock.
  ///
  /// Errors: io_error, also if the lock is held elsewhere.
  [[nodiscard]] static Result<FileLock> claim(const std::filesystem::path& path);

  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  /// Returns false for a result of claim() on a file system without locks, and after a move.
  [[nodiscard]] bool is_held() const noexcept { return descriptor_ >= 0; }

 private:
  FileLock(int descriptor, pid_t owner) noexcept : descriptor_(descriptor), owner_(owner) {}

  int descriptor_ = -1;
  pid_t owner_ = -1;               // the process that acquired it
  std::filesystem::path claimed_;  // removed at the end; empty: stays
};

}  // namespace hearth
