#include "memory_journal.hpp"

#include <string>

#include <fmt/format.h>

#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {

std::string TensorOrigin::to_string() const {
  std::string text = fmt::format("{} {}", type, op);
  if (!module_path.empty()) {
    text += " in " + module_path;
  }
  if (location.line != 0) {
    text += fmt::format(" at {}:{}", location.file, location.line);
  }
  return text;
}

TensorOrigin describe(const BlockOrigin& origin, const RuntimeTables& tables) {
  return {.op = std::string(tables.op_name(origin.kind, origin.called, origin.own)),
          .type = fmt::format(
              "{}{}", name(origin.dtype), tables.shapes.shape(origin.shape).to_string()),
          .module_path = tables.paths.path(origin.path),
          .location = tables.sources.location(origin.source)};
}

MemoryJournal::MemoryJournal() : begin_(detail::current_context().clock().now()) {}

void MemoryJournal::record_present(Entry entry) {
  entry.time = begin_;
  entries_.push_back(entry);
}

void MemoryJournal::note(Entry entry) {
  if (entries_.size() >= kMostEntries) {
    ++dropped_count_;
    return;
  }
  entry.time = detail::current_context().clock().now();
  entries_.push_back(entry);
}

MemoryTrace MemoryJournal::read(const RuntimeTables& tables) const {
  MemoryTrace trace;
  trace.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    BlockOrigin origin = entry.origin;
    if (const auto name = names_.find(entry.block);
        name != names_.end() && origin.path.value == 0) {
      origin.path = name->second;
    }
    trace.push_back({.what = entry.what,
                     .block = entry.block,
                     .time = entry.time,
                     .tensor = {.size_bytes = entry.size_bytes,
                                .is_exclusive = entry.is_exclusive,
                                .origin = describe(origin, tables)}});
  }
  return trace;
}

}  // namespace hearth
