// Files that a closing device saves for the next run, as plain bytes. All of them can be made
// again, so nothing is synced. A checksum detects a file that a crash cut short. A new file
// replaces the old one as a whole. A separate thread writes them, and the close waits for it up to
// a limit. A slow disk thus costs compile time in the next run, and no time now. Values. Threads:
// any; write() blocks on the disk.
// Invariant: an abandoned thread touches nothing but these bytes and the disk.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/log.hpp>

namespace hearth::gpu {

/// Terms of the save when a device closes.
struct SaveTerms {
  hearth::detail::Executor* executor = nullptr;  ///< Null: the closing thread writes.
  hearth::detail::Log* log = nullptr;            ///< Receives the files that could not be written.
  std::chrono::nanoseconds limit = std::chrono::seconds(2);
};

class CacheSave final {
 public:
  /// Adds a file; its folder may not exist yet.
  void add(std::filesystem::path path, const FileFormat& format, std::vector<std::byte> bytes);
  /// Keeps at most `most` files of the folder with this ending. If there are more after the writes,
  /// the oldest go until three quarters of `most` are left.
  void keep_most(std::filesystem::path folder, std::string ending, std::size_t most);
  [[nodiscard]] bool is_empty() const noexcept { return files_.empty(); }

  /// Writes all files in order, and goes on after an error. Errors: io_error, the first.
  [[nodiscard]] Status write() const;
  /// Writes on a separate thread, and waits up to the limit. Logs failures.
  static void write_within(CacheSave files, const SaveTerms& terms, const std::string& device);

 private:
  struct File {
    std::filesystem::path path;
    FileFormat format;
    std::vector<std::byte> bytes;
  };
  struct Folder {
    std::filesystem::path path;
    std::string ending;
    std::size_t most;
  };

  std::vector<File> files_;
  std::vector<Folder> folders_;
};

}  // namespace hearth::gpu
