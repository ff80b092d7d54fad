#include <hearth/runtime/axes.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace hearth {

Axes::Axes(std::span<const int> axes, SourceLoc loc) : count_(axes.size()) {
  if (axes.size() > axes_.size()) {
    throw_error(Error{
        .code = ErrorCode::shape_mismatch,
        .text = fmt::format("axes: a tensor has at most {} axes, got {}", kMaxRank, axes.size()),
        .location = loc});
  }
  std::ranges::copy(axes, axes_.begin());
}

}  // namespace hearth
