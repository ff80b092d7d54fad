// Files that know what they are: a header with magic, schema version, payload size and checksum in
// front of the payload. A file that was cut short, damaged or written by another version is told
// apart from a good one before its payload is used.
// Layout, little-endian: magic[8], version u32, zero u32, payload size u64, xxh64 of the payload
// u64; then the payload.
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// xxHash64 of the bytes.
[[nodiscard]] std::uint64_t xxh64(std::span<const std::byte> bytes,
                                  std::uint64_t seed = 0) noexcept;
/// xxHash's XXH3, 64 bits, of the pieces one after the other. Cost: 0.2 s a GB.
[[nodiscard]] std::uint64_t xxh3_64(std::span<const std::span<const std::byte>> pieces) noexcept;

struct FileFormat {
  std::array<char, 8> magic{};       ///< {'H', 'T', 'U', 'N', 'E', ...}
  std::uint32_t version = 1;         ///< That is written.
  std::uint32_t oldest_version = 0;  ///< That is read too; 0: only `version` is.
};
inline constexpr std::uint64_t kCheckedHeaderBytes = 32;

/// The payload of a checked file while it is being written; the checksum is made on the way.
class CheckedWriter final {
 public:
  explicit CheckedWriter(FileWriter& file);
  CheckedWriter(const CheckedWriter&) = delete;
  CheckedWriter& operator=(const CheckedWriter&) = delete;
  ~CheckedWriter();

  /// Appends to the payload. Errors: io_error.
  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t payload_size_bytes() const noexcept;
  /// Of what was written so far.
  [[nodiscard]] std::uint64_t checksum() const noexcept;

 private:
  struct State;
  FileWriter& file_;
  std::unique_ptr<State> state_;
};

/// write_file_atomically with a header.
[[nodiscard]] Status write_checked_file(const std::filesystem::path& path,
                                        const FileFormat& format,
                                        std::span<const std::byte> payload);
[[nodiscard]] Status write_checked_file(const std::filesystem::path& path,
                                        const FileFormat& format,
                                        const std::function<Status(CheckedWriter&)>& write);

/// write_file_unsynced with a header: a file of a cache.
[[nodiscard]] Status write_cache_file(const std::filesystem::path& path,
                                      const FileFormat& format,
                                      std::span<const std::byte> payload);

/// The payload.
/// Errors: those of read_file(); bad_format when magic, version, size or checksum is not right.
[[nodiscard]] Result<std::vector<std::byte>> read_checked_file(const std::filesystem::path& path,
                                                               const FileFormat& format);

}  // namespace hearth
