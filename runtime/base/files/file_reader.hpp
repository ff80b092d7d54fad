// FileReader: an open regular file that is read at offsets, for files larger than memory.
// Move-only. Threads: any, const. Calls block on the disk.
// Invariant: a read fills its target, or fails: a file that was cut or rewritten after open() is an
// error, never stale or missing bytes. A replaced file (write_file_atomically) is no error: the
// reader keeps the old one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <span>

#include <hearth/runtime/base/result.hpp>

namespace hearth {

namespace detail {
class FileDescriptor;
}  // namespace detail

class FileReader final {
 public:
  /// Opens a regular file, through links.
  ///
  /// Errors: not_found if the file does not exist; io_error, also for a folder, a pipe, a socket, a
  /// device or a disk.
  [[nodiscard]] static Result<FileReader> open(const std::filesystem::path& path);
  FileReader(FileReader&&) noexcept;
  FileReader& operator=(FileReader&&) noexcept;
  ~FileReader();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// The size when the file was opened.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  /// Fills `target` from these bytes of the file.
  ///
  /// Errors: io_error; bad_format if the file ends before, or if its size or its time of
  /// modification changed since open().
  [[nodiscard]] Status read_at(std::uint64_t offset_bytes, std::span<std::byte> target) const;

 private:
  FileReader(detail::FileDescriptor file, std::filesystem::path path);
  [[nodiscard]] Status note_facts();
  /// Checks that the file is as it was when it was opened.
  [[nodiscard]] Status check_unchanged() const;

  std::unique_ptr<detail::FileDescriptor> file_;
  std::filesystem::path path_;
  std::uint64_t size_bytes_ = 0;
  std::timespec modified_{};
};

}  // namespace hearth
