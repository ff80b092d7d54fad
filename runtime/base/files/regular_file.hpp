// Opens regular files for reading. Private to runtime/base. Threads: any.
#pragma once

#include <cstddef>
#include <filesystem>

#include <hearth/runtime/base/result.hpp>

#include "file_descriptor.hpp"

namespace hearth::detail {

/// Linux transfers at most this many bytes in one call.
inline constexpr std::size_t kMaxTransferBytes = 0x7ffff000;

/// Opens a regular file for reading and returns its size. Never waits for a pipe's writer.
///
/// Errors: not_found; io_error, also for all that is no regular file.
[[nodiscard]] Result<FileDescriptor> open_regular(const std::filesystem::path& path,
                                                  std::size_t& size_bytes);

}  // namespace hearth::detail
