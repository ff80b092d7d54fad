// Axes: which axes a reduction goes over: none named (all of them), one number, or a list. Negative
// axes count from the end. A value. Threads: any. Invariant: it holds at most kMaxRank axes, each
// as the caller wrote it; the reduction checks them.
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
#include <span>
#include <vector>

#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

class Axes {
 public:
  Axes() = default;  ///< All.
  // NOLINTBEGIN(google-explicit-constructor): an argument is written as sum(x, -1) or sum(x, {0,
  // 2})
  template <std::same_as<int> Int>
  Axes(Int axis) noexcept : count_(1) {
    axes_[0] = axis;
  }
  /// Errors: ShapeError for more axes than a tensor can have.
  Axes(std::initializer_list<int> axes, SourceLoc loc = SourceLoc::current())
      : Axes(std::span<const int>(axes.begin(), axes.size()), loc) {}
  Axes(const std::vector<int>& axes, SourceLoc loc = SourceLoc::current())
      : Axes(std::span<const int>(axes), loc) {}
  Axes(std::span<const int> axes, SourceLoc loc = SourceLoc::current());
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] std::span<const int> list() const noexcept {
    return std::span<const int>(axes_).first(count_);
  }

 private:
  std::array<int, kMaxRank> axes_{};
  std::size_t count_ = 0;
};

}  // namespace hearth
