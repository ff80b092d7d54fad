// Reads or writes a whole file for data set readers. A failure is a FileError with the line of the
// call.
// Private to modules. Stateless. Threads: any.
#pragma once

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/file.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::detail {

[[noreturn]] inline void throw_as_file_error(Error error, SourceLoc loc) {
  error.location = loc;
  if (error.code == ErrorCode::out_of_memory) {
    throw_error(std::move(error));
  }
  throw FileError(std::move(error));
}

[[nodiscard]] inline std::vector<std::byte> read_whole(const std::filesystem::path& file,
                                                       SourceLoc loc) {
  Result<std::vector<std::byte>> bytes = read_file(file);
  if (!bytes.has_value()) {
    throw_as_file_error(bytes.error(), loc);
  }
  return std::move(bytes).value();
}

inline void write_whole(const std::filesystem::path& file, std::string_view text, SourceLoc loc) {
  const Status written =
      write_file_atomically(file, std::as_bytes(std::span<const char>(text.data(), text.size())));
  if (!written.has_value()) {
    throw_as_file_error(written.error(), loc);
  }
}

/// The checksum of a text in a human-readable file: xxh64, 16 hex digits.
[[nodiscard]] inline std::string checksum_text(std::string_view text) {
  return fmt::format("{:016x}", xxh64(std::as_bytes(std::span<const char>(text))));
}

}  // namespace hearth::detail
