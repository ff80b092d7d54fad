// The source locations of one runtime as ids, so that a record says in four bytes which line of the
// user's program asked for it.
// Threads: any (SourceTable); one at a time (SourceCache).
// Invariants: those of Interner; and (4) the id 0 means "unknown", also for what a full table could
// not take: an op never fails because its line cannot be remembered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/interner.hpp>
#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

namespace detail {
struct SourcePolicy {
  using Id = SourceId;
  using Key = SourceLoc;
  using Entry = SourceLoc;
  static std::uint64_t hash(const SourceLoc& location) noexcept;
  static bool equal(const SourceLoc& entry, const SourceLoc& location) noexcept;
  static SourceLoc make(const SourceLoc& location) { return location; }
  static Error full(std::uint32_t cap);
};
}  // namespace detail

class SourceTable final {
 public:
  static constexpr std::uint32_t kDefaultCap = 1U << 16U;

  /// `runtime` tells tables apart in a SourceCache: no two tables of a process share one.
  explicit SourceTable(RuntimeId runtime, std::uint32_t cap = kDefaultCap);

  /// Equal files (by text) and lines have equal ids. Line 0 is unknown.
  /// Cost: about 30 ns for a known place; a SourceCache makes it 2.
  [[nodiscard]] SourceId intern(SourceLoc location);
  [[nodiscard]] SourceLoc location(SourceId id) const noexcept { return table_[id]; }
  [[nodiscard]] RuntimeId runtime() const noexcept { return runtime_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return table_.size(); }

 private:
  RuntimeId runtime_;
  detail::Interner<detail::SourcePolicy> table_;
};

/// One thread's memory of recent answers, for any number of tables.
struct SourceCache {
  struct Row {
    const char* file = nullptr;
    RuntimeId runtime;
    std::uint32_t line = 0;
    SourceId id;
  };
  std::array<Row, 256> rows{};

  /// table.intern(location), mostly from memory.
  [[nodiscard]] SourceId intern(SourceTable& table, SourceLoc location) {
    // Lines next to one another never meet in a row; files start somewhere else.
    const auto address = reinterpret_cast<std::uintptr_t>(location.file);  // NOLINT: only a number
    Row& row = rows[(location.line + (address >> 3U) * 31U) % rows.size()];
    if (row.file != location.file || row.line != location.line || row.runtime != table.runtime()) {
      row = {location.file, table.runtime(), location.line, table.intern(location)};
    }
    return row.id;
  }
};

}  // namespace hearth
