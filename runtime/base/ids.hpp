// Strong ids: numbers that name things and cannot be mixed up. Values, any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace hearth {

template <class Tag, class Number = std::uint32_t>
struct Id {
  using number_type = Number;  // NOLINT(readability-identifier-naming): as in the standard library
  Number value = 0;
  friend constexpr auto operator<=>(const Id&, const Id&) noexcept = default;
};

using RuntimeId = Id<struct RuntimeIdTag, std::uint64_t>;  ///< Never reused within a process.
/// A stream on one device; never reused, and wide enough never to end; 0 = none.
using LaneId = Id<struct LaneIdTag, std::uint64_t>;
using SlotId = Id<struct SlotIdTag>;      ///< A tensor's entry in its device's handle table.
using ShapeId = Id<struct ShapeIdTag>;    ///< An interned shape of one runtime.
using SourceId = Id<struct SourceIdTag>;  ///< An interned source location; 0 = unknown.
using PathId = Id<struct PathIdTag>;      ///< An interned module path; 0 = none.
using ExprId = Id<struct ExprIdTag>;      ///< An interned expression of one runtime.

}  // namespace hearth

template <class Tag, class Number>
struct std::hash<hearth::Id<Tag, Number>> {
  std::size_t operator()(hearth::Id<Tag, Number> id) const noexcept {
    return std::hash<Number>{}(id.value);
  }
};
