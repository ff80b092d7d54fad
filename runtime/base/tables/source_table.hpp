// The source locations of one runtime as ids, so that a record names the line of the user's call in
// four bytes.
// Threads: any (SourceTable); one at a time (SourceCache).
// Invariants: those of Interner; and (4) id 0 means "unknown". A new line in a full table gets id 0
// too, because an op must not fail for its source line.
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

  /// Makes a table. `runtime` identifies it in a SourceCache: no two tables of a process share one.
  explicit SourceTable(RuntimeId runtime, std::uint32_t cap = kDefaultCap);

  /// Returns the id of a location. Equal files (by text) and lines have equal ids. Line 0 is
  /// unknown.
  ///
  /// Cost: about 30 ns for a known place; 2 ns with a SourceCache.
  [[nodiscard]] SourceId intern(SourceLoc location);
  [[nodiscard]] SourceLoc location(SourceId id) const noexcept { return table_[id]; }
  [[nodiscard]] RuntimeId runtime() const noexcept { return runtime_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return table_.size(); }

 private:
  RuntimeId runtime_;
  detail::Interner<detail::SourcePolicy> table_;
};

/// One thread's cache of recent ids, for any number of tables.
struct SourceCache {
  struct Row {
    const char* file = nullptr;
    RuntimeId runtime;
    std::uint32_t line = 0;
    SourceId id;
  };
  std::array<Row, 256> rows{};

  /// Returns table.intern(location), mostly from the cache.
  [[nodiscard]] SourceId intern(SourceTable& table, SourceLoc location) {
    // Lines of one file have different rows if they are close; files start at different rows.
    const auto address = reinterpret_cast<std::uintptr_t>(location.file);  // NOLINT: only a number
    Row& row = rows[(location.line + (address >> 3U) * 31U) % rows.size()];
    if (row.file != location.file || row.line != location.line || row.runtime != table.runtime()) {
      row = {location.file, table.runtime(), location.line, table.intern(location)};
    }
    return row.id;
  }
};

}  // namespace hearth
