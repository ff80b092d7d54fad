#include <hearth/runtime/axes.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace hearth {

namespace {

void require_room(std::size_t count, SourceLoc loc) {
  if (count > static_cast<std::size_t>(kMaxRank)) {
    throw_error(
        Error{.code = ErrorCode::shape_mismatch,
              .text = fmt::format("axes: a tensor has at most {} axes, got {}", kMaxRank, count),
              .location = loc});
  }
}

}  // namespace

Axes::Axes(std::span<const int> axes, SourceLoc loc) : count_(axes.size()) {
  require_room(axes.size(), loc);
  std::ranges::copy(axes, axes_.begin());
}

Axes::Axes(std::span<const std::int64_t> axes, SourceLoc loc) : count_(axes.size()) {
  require_room(axes.size(), loc);
  std::ranges::transform(axes, axes_.begin(), [](std::int64_t axis) { return limited(axis); });
}

}  // namespace hearth
