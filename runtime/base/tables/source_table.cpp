#include <hearth/runtime/base/source_table.hpp>

#include <functional>
#include <string_view>

#include <fmt/format.h>

namespace hearth {

std::uint64_t detail::SourcePolicy::hash(const SourceLoc& location) noexcept {
  const std::uint64_t file = std::hash<std::string_view>{}(location.file);
  return (file ^ location.line) * 0x9e3779b97f4a7c15U;
}

bool detail::SourcePolicy::equal(const SourceLoc& entry, const SourceLoc& location) noexcept {
  return entry.line == location.line && std::string_view(entry.file) == location.file;
}

Error detail::SourcePolicy::full(std::uint32_t cap) {
  return Error{.code = ErrorCode::out_of_memory,
               .text = fmt::format("source table: {} places are known, and no more fit", cap)};
}

SourceTable::SourceTable(RuntimeId runtime, std::uint32_t cap) : runtime_(runtime), table_(cap) {
  table_.intern(SourceLoc{}).status().value();
}

SourceId SourceTable::intern(SourceLoc location) {
  if (location.line == 0) {
    return {};
  }
  const Result<SourceId> id = table_.intern(location);
  return id.has_value() ? id.value() : SourceId{};
}

}  // namespace hearth
