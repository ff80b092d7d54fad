// The module paths of one runtime ("encoder.layers.3.inner") as ids.
// Threads: any. Invariants: those of Interner; and (4) id 0 means "none". A new path in a full
// table gets id 0 too, because an op must not fail for its module's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/interner.hpp>

namespace hearth {

namespace detail {
struct PathPolicy {
  using Id = PathId;
  using Key = std::string_view;
  using Entry = std::string;
  static std::uint64_t hash(std::string_view path) noexcept;
  static bool equal(const std::string& entry, std::string_view path) noexcept {
    return entry == path;
  }
  static std::string make(std::string_view path) { return std::string(path); }
  static Error full(std::uint32_t cap);
};
}  // namespace detail

class PathTable final {
 public:
  static constexpr std::uint32_t kDefaultCap = 1U << 16U;

  explicit PathTable(std::uint32_t cap = kDefaultCap);

  [[nodiscard]] PathId intern(std::string_view path);
  /// Returns the path; empty for id 0. Valid as long as the table.
  [[nodiscard]] const std::string& path(PathId id) const noexcept { return table_[id]; }
  [[nodiscard]] std::uint32_t size() const noexcept { return table_.size(); }

 private:
  detail::Interner<detail::PathPolicy> table_;
};

}  // namespace hearth
