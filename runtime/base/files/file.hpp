// Files on disk: the only place of the library that opens, writes and renames them.
// Threads: any; calls block on the disk, so device actors never make them.
// Invariants: (1) a replaced file is at every moment the whole old or the whole new one, also after
// a crash; only regular files are replaced; (2) a failed write leaves no temporary file, and a
// killed writer's file (FILE.hearth-tmp-0) is removed by the next write of that file; (3) every
// error has the path, the step and the operating system's message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/settings.hpp>

namespace hearth {

/// Reads a regular file, through links.
///
/// Errors: not_found if the file does not exist; io_error, also for a folder, a pipe, a socket, a
/// device or a disk; out_of_memory if the bytes do not fit in memory.
[[nodiscard]] Result<std::vector<std::byte>> read_file(const std::filesystem::path& path);

/// The new content of a file while it is written, piece by piece.
class FileWriter final {
 public:
  FileWriter(int descriptor, std::filesystem::path path)
      : descriptor_(descriptor), path_(std::move(path)) {}
  /// Collects the content in `memory`, for targets that cannot be written at an offset.
  FileWriter(std::vector<std::byte>& memory, std::filesystem::path path)
      : memory_(&memory), path_(std::move(path)) {}
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter() = default;

  /// Appends.
  ///
  /// Errors: io_error; out_of_memory if the content is collected in memory.
  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  /// Overwrites bytes that were written before.
  ///
  /// Errors: io_error.
  [[nodiscard]] Status write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  int descriptor_ = -1;                       // not owned
  std::vector<std::byte>* memory_ = nullptr;  // in place of a file
  std::filesystem::path path_;
  std::uint64_t size_bytes_ = 0;
};

/// Replaces or creates a file: writes a temporary file in the same folder, syncs it to the disk,
/// renames it, syncs the folder. The folder must exist. The new file has the mode of the old one,
/// and its owner and group if the process may set them. A symbolic link stays: its target is
/// replaced. A character device, such as /dev/null, is written once all bytes are collected.
///
/// Errors: io_error, also for a folder, a pipe, a socket or a disk; the error of `write`. The old
/// file is kept, except when syncing the folder fails: then the new file is in place.
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path,
                                           std::span<const std::byte> bytes);
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path,
                                           const std::function<Status(FileWriter&)>& write);

/// Replaces or creates a file without a sync. After a crash of the machine the old file, a damaged
/// one or none may exist. For content that can be regenerated and has a checksum.
[[nodiscard]] Status write_file_unsynced(const std::filesystem::path& path,
                                         const std::function<Status(FileWriter&)>& write);

/// Checks that write_file_atomically() could write there now, for a program that writes at its end.
///
/// Errors: io_error if the folder is missing or not writable, or if write_file_atomically() refuses
/// `path`.
[[nodiscard]] Status check_writable(const std::filesystem::path& path);

/// Makes a folder and those above it. An existing folder is no error.
///
/// Errors: io_error.
[[nodiscard]] Status make_folder(const std::filesystem::path& path);

/// Returns the folder for files that the library keeps between runs: HEARTH_CACHE_DIR, else
/// XDG_CACHE_HOME/hearth, else HOME/.cache/hearth. Does not create it.
///
/// Errors: invalid_argument if HEARTH_CACHE_DIR is relative; not_found if none of the three is set.
[[nodiscard]] Result<std::filesystem::path> cache_dir(
    const detail::Settings& settings = detail::Settings::from_environment());

}  // namespace hearth
