// What the end of a device leaves on disk for the next run, as plain bytes: files that can be made
// again. Nothing is synced, since a checksum tells a file that a crash cut short, and each still
// replaces the old one as a whole. A thread of its own writes them, for which the end waits no
// longer than a limit: a disk that is slow costs the next run some compiling, and this one no time.
// Values. Threads: any; write() blocks on the disk.
// Invariant: a thread that is left behind touches nothing but these bytes and the disk.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/log.hpp>

namespace hearth::vulkan {

/// How the end of a device writes.
struct SaveTerms {
  hearth::detail::Executor* executor = nullptr;  ///< Null: the end writes by itself.
  hearth::detail::Log* log = nullptr;            ///< Of what could not be written.
  std::chrono::nanoseconds limit = std::chrono::seconds(2);
};

class CacheSave final {
 public:
  /// A file that stands in a folder which may not be there yet.
  void add(std::filesystem::path path, const FileFormat& format, std::vector<std::byte> bytes);
  /// Where the folder then has more than `most` files that end so, the oldest go.
  void keep_most(std::filesystem::path folder, std::string ending, std::size_t most);
  [[nodiscard]] bool is_empty() const noexcept { return files_.empty(); }

  /// Writes them in their order. Errors: io_error, the first; the others are tried all the same.
  [[nodiscard]] Status write() const;
  /// The same on a thread of its own, up to the limit; what it cannot do is logged.
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

}  // namespace hearth::vulkan
