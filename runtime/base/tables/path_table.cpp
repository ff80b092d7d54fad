#include <hearth/runtime/base/path_table.hpp>

#include <functional>

#include <fmt/format.h>

namespace hearth {

std::uint64_t detail::PathPolicy::hash(std::string_view path) noexcept {
  return std::hash<std::string_view>{}(path);
}

Error detail::PathPolicy::full(std::uint32_t cap) {
  return Error{.code = ErrorCode::out_of_memory,
               .text = fmt::format("path table: {} module paths are known, and no more fit", cap)};
}

PathTable::PathTable(std::uint32_t cap) : table_(cap) {
  table_.intern(std::string_view{}).status().value();
}

PathId PathTable::intern(std::string_view path) {
  const Result<PathId> id = table_.intern(path);
  return id.has_value() ? id.value() : PathId{};
}

}  // namespace hearth
