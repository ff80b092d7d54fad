// An open file that closes itself. Private to runtime/base. Threads: one at a time.
#pragma once

#include <cerrno>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hearth::detail {

class FileDescriptor final {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) noexcept : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }

  /// Opens a file. On failure the result is not open and errno has the reason. A new file gets
  /// `mode`, less the process's umask.
  [[nodiscard]] static FileDescriptor open(const std::filesystem::path& path,
                                           int flags,
                                           mode_t mode = 0666) noexcept {
    int number = -1;
    do {
      number = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    } while (number < 0 && errno == EINTR);
    return FileDescriptor(number);
  }

  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  [[nodiscard]] int number() const noexcept { return number_; }
  /// Releases the descriptor: the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

}  // namespace hearth::detail
