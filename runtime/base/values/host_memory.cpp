#include <hearth/runtime/base/host_memory.hpp>

#include <string>

#include <fmt/format.h>

namespace hearth {

Error detail::no_host_memory(std::string_view op, std::size_t size_bytes, SourceLoc loc) {
  return Error{.code = ErrorCode::out_of_memory,
               .text = fmt::format("{}: no host memory for {} bytes", op, size_bytes),
               .op = std::string(op),
               .location = loc};
}

}  // namespace hearth
