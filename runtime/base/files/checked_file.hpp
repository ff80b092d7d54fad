// Checked files: a header with magic, schema version, payload size and checksum before the payload.
// A truncated, damaged or incompatible file is detected before its payload is used.
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

/// Returns the xxHash64 of the bytes.
[[nodiscard]] std::uint64_t xxh64(std::span<const std::byte> bytes,
                                  std::uint64_t seed = 0) noexcept;
/// Returns XXH3 (64 bits) of the concatenated pieces.
///
/// Cost: 0.2 s a GB.
[[nodiscard]] std::uint64_t xxh3_64(std::span<const std::span<const std::byte>> pieces) noexcept;

/// XXH3 (64 bits) of bytes that come piece by piece: the value of xxh3_64() for all of them.
/// Threads: one at a time.
class Xxh3 final {
 public:
  Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  ~Xxh3();
  void add(std::span<const std::byte> piece) noexcept;
  [[nodiscard]] std::uint64_t value() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct FileFormat {
  std::array<char, 8> magic{};       ///< {'H', 'T', 'U', 'N', 'E', ...}
  std::uint32_t version = 1;         ///< Version that is written.
  std::uint32_t oldest_version = 0;  ///< Oldest version that can be read; 0: only `version`.
};
inline constexpr std::uint64_t kCheckedHeaderBytes = 32;

/// The payload of a checked file while it is written. Computes the checksum on the way.
class CheckedWriter final {
 public:
  explicit CheckedWriter(FileWriter& file);
  CheckedWriter(const CheckedWriter&) = delete;
  CheckedWriter& operator=(const CheckedWriter&) = delete;
  ~CheckedWriter();

  /// Appends to the payload.
  ///
  /// Errors: io_error.
  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t payload_size_bytes() const noexcept;
  /// Checksum of the payload written so far.
  [[nodiscard]] std::uint64_t checksum() const noexcept;

 private:
  struct State;
  FileWriter& file_;
  std::unique_ptr<State> state_;
};

/// Writes a checked file with write_file_atomically().
[[nodiscard]] Status write_checked_file(const std::filesystem::path& path,
                                        const FileFormat& format,
                                        std::span<const std::byte> payload);
[[nodiscard]] Status write_checked_file(const std::filesystem::path& path,
                                        const FileFormat& format,
                                        const std::function<Status(CheckedWriter&)>& write);

/// Writes a checked file with write_file_unsynced(): for a cache.
[[nodiscard]] Status write_cache_file(const std::filesystem::path& path,
                                      const FileFormat& format,
                                      std::span<const std::byte> payload);

/// Reads the payload.
///
/// Errors: those of read_file(); bad_format if magic, version, size or checksum is wrong.
[[nodiscard]] Result<std::vector<std::byte>> read_checked_file(const std::filesystem::path& path,
                                                               const FileFormat& format);

}  // namespace hearth
