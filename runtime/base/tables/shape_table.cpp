#include <hearth/runtime/base/shape_table.hpp>

#include <fmt/format.h>

namespace hearth {

std::uint64_t detail::ShapePolicy::hash(const Shape& shape) noexcept {
  auto state = static_cast<std::uint64_t>(shape.rank());
  for (const std::int64_t size : shape.dims()) {
    state = (state ^ static_cast<std::uint64_t>(size)) * 0x9e3779b97f4a7c15U;
    state ^= state >> 32U;
  }
  return state * 0x9e3779b97f4a7c15U;
}

Error detail::ShapePolicy::full(std::uint32_t cap) {
  return Error{.code = ErrorCode::out_of_memory,
               .text = fmt::format("shape table: {} different shapes are in use, and no more fit; "
                                   "pad inputs to fewer sizes",
                                   cap)};
}

ShapeTable::ShapeTable(std::uint32_t cap) : table_(cap) {
  table_.intern(Shape{}).status().value();
}

}  // namespace hearth
