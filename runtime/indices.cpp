#include <hearth/runtime/indices.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace hearth {

Indices::Indices(std::initializer_list<Index> list, SourceLoc loc)
    : count_(list.size()), loc_(loc) {
  if (list.size() > list_.size()) {
    throw_error(
        Error{.code = ErrorCode::shape_mismatch,
              .text = fmt::format(
                  "index: a tensor has at most {} axes, got {} indices", kMaxRank, list.size()),
              .op = "index",
              .location = loc});
  }
  std::ranges::copy(list, list_.begin());
}

}  // namespace hearth
