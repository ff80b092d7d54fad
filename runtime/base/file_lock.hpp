// A lock between processes (and threads) on a file of its own, which stays on disk and is empty.
// Move-only; the lock ends with the object, and with the process whatever happens to it.
// Threads: any; two FileLocks of one process exclude one another like those of two.
#pragma once

#include <filesystem>
#include <optional>

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

  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) noexcept : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace hearth
