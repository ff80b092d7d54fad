// Error text of a failed system call on a file. Private to runtime/base. Values, any thread.
#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <hearth/runtime/base/error.hpp>

namespace hearth::detail {

/// Returns "file /a/b: cannot sync: No space left on device (errno 28)".
[[nodiscard]] inline Error file_error(std::string_view step,
                                      const std::filesystem::path& path,
                                      int error_number) {
  return Error{.code = ErrorCode::io_error,
               .text = fmt::format("file {}: cannot {}: {} (errno {})",
                                   path.string(),
                                   step,
                                   std::generic_category().message(error_number),
                                   error_number)};
}

}  // namespace hearth::detail
