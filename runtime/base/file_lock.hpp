// A lock between processes (and threads) on a file of its own, which stays on disk and is empty;
// the file of claim() names the holder, and the holder removes it.
// Move-only; the lock ends with the object, and with the process whatever happens to it. A forked
// child does not share it: neither its life nor its FileLock objects hold or end the parent's.
// Threads: any; two FileLocks of one process exclude one another like those of two.
#pragma once

#include <filesystem>
#include <optional>

#include <sys/types.h>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth {

class FileLock final {
 public:
  /// Nothing when someone else holds it. Makes the file, not its folder. Errors: io_error.
  [[nodiscard]] static Result<std::optional<FileLock>> try_acquire(
      const std::filesystem::path& path);
  /// Waits for it. Errors: io_error, deadline_exceeded.
  [[nodiscard]] static Result<FileLock> acquire(const std::filesystem::path& path,
                                                Deadline deadline);
  /// Takes it now, or names the holder: process, program, host and since when. On a file system
  /// without locks (some network ones) there is a FileLock that does not hold.
  /// Errors: io_error, also when someone else holds it.
  [[nodiscard]] static Result<FileLock> claim(const std::filesystem::path& path);

  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  /// False for what claim() gives where there are no locks, and for one that was moved from.
  [[nodiscard]] bool is_held() const noexcept { return descriptor_ >= 0; }

 private:
  FileLock(int descriptor, pid_t owner) noexcept : descriptor_(descriptor), owner_(owner) {}

  int descriptor_ = -1;
  pid_t owner_ = -1;               // the process that took it
  std::filesystem::path claimed_;  // removed at the end; empty: stays
};

}  // namespace hearth
