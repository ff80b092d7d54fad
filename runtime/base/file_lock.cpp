#include <hearth/runtime/base/file_lock.hpp>

#include "file_descriptor.hpp"
#include "file_error.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <sys/file.h>

#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {

Result<std::optional<FileLock>> FileLock::try_acquire(const std::filesystem::path& path) {
  // Opened anew each time: flock belongs to the open file, so every FileLock needs its own.
  detail::FileDescriptor file = detail::FileDescriptor::open(path, O_RDWR | O_CREAT);
  if (!file.is_open()) {
    return detail::file_error("open the lock", path, errno);
  }
  while (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return std::optional<FileLock>();
    }
    if (errno != EINTR) {
      return detail::file_error("lock", path, errno);
    }
  }
  return std::optional<FileLock>(FileLock(file.release()));
}

Result<FileLock> FileLock::acquire(const std::filesystem::path& path, Deadline deadline) {
  // flock cannot wait with a deadline, so we ask again, ever less often.
  std::chrono::nanoseconds pause = std::chrono::milliseconds(1);
  for (;;) {
    HEARTH_TRY(std::optional<FileLock> lock, try_acquire(path));
    if (lock) {
      return std::move(*lock);
    }
    if (deadline.has_passed()) {
      return Error{.code = ErrorCode::deadline_exceeded,
                   .text = fmt::format("file {}: someone else holds the lock", path.string())};
    }
    // Only a pause: a wake-up meant for something else just makes it shorter.
    detail::current_context().parker().park(std::min(deadline, Deadline::in(pause)));
    pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(50));
  }
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);  // and with it the lock
  }
}

}  // namespace hearth
