// Strong ids: numbers that name things and cannot be mixed up. Values, any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace hearth {

namespace detail {
template <class Tag, class Number = std::uint32_t>
struct Id {
  using number_type = Number;  // NOLINT(readability-identifier-naming): as in the standard library
  Number value = 0;
  friend constexpr auto operator<=>(const Id&, const Id&) noexcept = default;
};
}  // namespace detail

/// A runtime; never reused within a process.
using RuntimeId = detail::Id<struct RuntimeIdTag, std::uint64_t>;
/// A stream on one device; never reused, and too wide to overflow; 0 = none.
using LaneId = detail::Id<struct LaneIdTag, std::uint64_t>;
/// A tensor's entry in its device's handle table.
using SlotId = detail::Id<struct SlotIdTag>;
using ShapeId = detail::Id<struct ShapeIdTag>;    ///< An interned shape of one runtime.
using SourceId = detail::Id<struct SourceIdTag>;  ///< An interned source location; 0 = unknown.
using PathId = detail::Id<struct PathIdTag>;      ///< An interned module path; 0 = none.
using ExprId = detail::Id<struct ExprIdTag>;      ///< An interned expression of one runtime.

}  // namespace hearth

template <class Tag, class Number>
struct std::hash<hearth::detail::Id<Tag, Number>> {
  std::size_t operator()(hearth::detail::Id<Tag, Number> id) const noexcept {
    return std::hash<Number>{}(id.value);
  }
};
