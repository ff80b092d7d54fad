#include <hearth/runtime/base/file_lock.hpp>

#include "file_descriptor.hpp"
#include "file_error.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {
namespace {

// Descriptors of the locks that this process holds, each plus one; 0 = free entry. A forked child
// inherits the descriptors and would keep its dead parent's locks, so it closes them. A fork
// handler must not lock, hence atomics. A lock beyond the table's size stays shared with children.
constexpr std::size_t kMostLocks = 256;
static std::array<std::atomic<int>, kMostLocks> held{};

extern "C" void close_in_child() {
  for (std::atomic<int>& each : held) {
    if (const int number = each.exchange(0, std::memory_order_acq_rel); number != 0) {
      ::close(number - 1);
    }
  }
}

void record_held(int descriptor) noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, close_in_child);
  static_cast<void>(registered);
  for (std::atomic<int>& each : held) {
    int none = 0;
    if (each.compare_exchange_strong(none, descriptor + 1, std::memory_order_acq_rel)) {
      return;
    }
  }
}

void record_released(int descriptor) noexcept {
  for (std::atomic<int>& each : held) {
    int number = descriptor + 1;
    if (each.compare_exchange_strong(number, 0, std::memory_order_acq_rel)) {
      return;
    }
  }
}

bool is_name_of(const std::filesystem::path& path, int descriptor) noexcept {
  struct stat named {};
  struct stat open {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(descriptor, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

bool lacks_locks(int error_number) noexcept {
  return error_number == ENOLCK || error_number == EOPNOTSUPP || error_number == ENOSYS;
}

struct Attempt {
  int descriptor = -1;        // holds the lock, the caller closes it; -1 = failed
  int error_number = 0;       // reason of a failure; EWOULDBLOCK if the lock is held elsewhere
  const char* step = "lock";  // step that failed
};

// Opens the file anew: flock belongs to the open file description, so every FileLock needs its own.
Attempt attempt(const std::filesystem::path& path) {
  detail::FileDescriptor file = detail::FileDescriptor::open(path, O_RDWR | O_CREAT);
  if (!file.is_open()) {
    return {.error_number = errno, .step = "open the lock"};
  }
  while (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) {
      return {.error_number = errno};
    }
  }
  record_held(file.number());
  return {.descriptor = file.release()};
}

// Returns text like "process 12 (train) on host since 2030-01-31 12:00:00 UTC".
std::string self_description() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    host[0] = '?';
  }
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return fmt::format("process {} ({}) on {} since {}",
                     ::getpid(),
                     program_invocation_short_name,
                     host.data(),
                     time.data());
}

// Returns the holder of a lock. The file is empty if its holder has not written it yet.
std::string holder_in(const std::filesystem::path& path) {
  constexpr std::size_t kMostBytes = 512;
  const Result<std::vector<std::byte>> bytes = read_file(path);
  if (!bytes.has_value() || bytes.value().empty() || bytes.value().size() > kMostBytes) {
    return "another process";
  }
  std::string text(reinterpret_cast<const char*>(bytes.value().data()), bytes.value().size());
  text.erase(text.find_last_not_of('\n') + 1);
  std::ranges::replace_if(
      text, [](char letter) { return letter >= 0 && letter < ' '; }, '?');
  return text;
}

}  // namespace

Result<std::optional<FileLock>> FileLock::try_acquire(const std::filesystem::path& path) {
  const Attempt made = attempt(path);
  if (made.descriptor >= 0) {
    return std::optional<FileLock>(FileLock(made.descriptor, ::getpid()));
  }
  if (made.error_number == EWOULDBLOCK) {
    return std::optional<FileLock>();
  }
  return detail::file_error(made.step, path, made.error_number);
}

// Phases: lock the file; check that the path still names it, since its holder may have removed it
// meanwhile; write the holder's text, which may fail.
Result<FileLock> FileLock::claim(const std::filesystem::path& path) {
  constexpr int kMostTries = 100;  // a file system may renumber a file each time
  for (int i = 0; i < kMostTries; ++i) {
    const Attempt made = attempt(path);
    if (lacks_locks(made.error_number)) {
      return FileLock(-1, -1);
    }
    if (made.error_number == EWOULDBLOCK) {
      return Error{.code = ErrorCode::io_error,
                   .text = fmt::format("file {}: held by {}", path.string(), holder_in(path))};
    }
    if (made.descriptor < 0) {
      return detail::file_error(made.step, path, made.error_number);
    }
    FileLock lock(made.descriptor, ::getpid());
    if (is_name_of(path, lock.descriptor_)) {
      lock.claimed_ = path;
      const std::string text = self_description() + '\n';
      static_cast<void>(!::ftruncate(lock.descriptor_, 0));  // text of a killed holder
      static_cast<void>(!::pwrite(lock.descriptor_, text.data(), text.size(), 0));
      return lock;
    }
  }
  return Error{.code = ErrorCode::io_error,
               .text = fmt::format("lock {}: another file has its name each time", path.string())};
}

Result<FileLock> FileLock::acquire(const std::filesystem::path& path, Deadline deadline) {
  // flock cannot wait with a deadline, so it is retried at growing intervals.
  std::chrono::nanoseconds pause = std::chrono::milliseconds(1);
  for (;;) {
    HEARTH_TRY(std::optional<FileLock> lock, try_acquire(path));
    if (lock) {
      return std::move(*lock);
    }
    if (deadline.has_passed()) {
      return Error{.code = ErrorCode::deadline_exceeded,
                   .text = fmt::format("file {}: the lock is held elsewhere", path.string())};
    }
    // Only a pause: an unrelated wake-up merely shortens it.
    detail::current_context().parker().park(std::min(deadline, Deadline::in(pause)));
    pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(50));
  }
}

FileLock::FileLock(FileLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      owner_(other.owner_),
      claimed_(std::move(other.claimed_)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(owner_, other.owner_);
  std::swap(claimed_, other.claimed_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ < 0 || owner_ != ::getpid()) {
    return;
  }
  if (!claimed_.empty() && is_name_of(claimed_, descriptor_)) {
    ::unlink(claimed_.c_str());
  }
  ::flock(descriptor_, LOCK_UN);  // a child forked just now may keep a copy
  record_released(descriptor_);
  ::close(descriptor_);
}

}  // namespace hearth
