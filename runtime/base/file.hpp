// Files on disk: the one place of the library that opens, writes and renames them.
// Threads: any; calls block on the disk, so device actors leave them to others.
// Invariants: (1) a file that we replace is at every moment the whole old one or the whole new one,
// also after a crash, and only regular files are replaced; (2) a failed write leaves no temporary
// file behind, and what a killed writer left (FILE.hearth-tmp-0) goes with the next write of that
// file; (3) every error names the path, the step and the operating system's words.
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

/// The bytes of a regular file, through links.
/// Errors: not_found when there is no such file; io_error, also for a path that names a folder, a
/// pipe, a socket, a device or a disk; out_of_memory when its bytes find no room.
[[nodiscard]] Result<std::vector<std::byte>> read_file(const std::filesystem::path& path);

/// The new content of a file while it is being written, piece by piece.
class FileWriter final {
 public:
  FileWriter(int descriptor, std::filesystem::path path)
      : descriptor_(descriptor), path_(std::move(path)) {}
  /// Collects the content in `memory`, for what cannot be written at an offset.
  FileWriter(std::vector<std::byte>& memory, std::filesystem::path path)
      : memory_(&memory), path_(std::move(path)) {}
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter() = default;

  /// Appends. Errors: io_error; out_of_memory when the content is collected in memory.
  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  /// Overwrites bytes that were written before. Errors: io_error.
  [[nodiscard]] Status write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  int descriptor_ = -1;                       // not owned
  std::vector<std::byte>* memory_ = nullptr;  // in place of a file
  std::filesystem::path path_;
  std::uint64_t size_bytes_ = 0;
};

/// Replaces or creates a file: writes a temporary one in the same folder, syncs it to the disk,
/// renames it, syncs the folder. The folder must exist. The new file has the mode of the old one,
/// and its owner and group where the process may give them. A symbolic link stays: the file that it
/// names is replaced. A character device, /dev/null say, is written to, once all bytes are there.
/// Errors: io_error, also for a path that names a folder, a pipe, a socket or a disk; what `write`
/// returns. The old file is kept. (Only when syncing the folder fails, the new one is in place.)
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path,
                                           std::span<const std::byte> bytes);
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path,
                                           const std::function<Status(FileWriter&)>& write);

/// The same without a sync: after a crash of the machine there may be the old file, a damaged one
/// or none. For what can be made again, and is told by a checksum.
[[nodiscard]] Status write_file_unsynced(const std::filesystem::path& path,
                                         const std::function<Status(FileWriter&)>& write);

/// Whether write_file_atomically() could write there now, for a program that writes at its end.
/// Errors: io_error: the folder is not there or may not be written, or `path` names what
/// write_file_atomically() refuses.
[[nodiscard]] Status check_writable(const std::filesystem::path& path);

/// Makes a folder and those above it; one that exists is fine. Errors: io_error.
[[nodiscard]] Status make_folder(const std::filesystem::path& path);

/// Where files go that the library keeps between runs: HEARTH_CACHE_DIR, else
/// XDG_CACHE_HOME/hearth, else HOME/.cache/hearth. Makes no folder.
/// Errors: invalid_argument (HEARTH_CACHE_DIR is relative), not_found (none of the three is set).
[[nodiscard]] Result<std::filesystem::path> cache_dir(
    const detail::Settings& settings = detail::Settings::from_environment());

}  // namespace hearth
