// Axes: the axes of a reduction: none given (all of them), one number, or a list. Negative axes
// count from the end. A value. Threads: any.
// Invariant: holds at most kMaxRank axes, each as the caller wrote it; the reduction checks them.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

class Axes {
 public:
  Axes() = default;  ///< All axes.
  // NOLINTBEGIN(google-explicit-constructor): an argument is written as sum(x, -1) or sum(x, {0,
  // 2})
  template <std::integral Int>
  requires(!std::same_as<Int, bool>) Axes(Int axis)
  noexcept : count_(1) { axes_[0] = limited(axis); }
  /// Errors: ShapeError for more axes than a tensor can have.
  Axes(std::initializer_list<std::int64_t> axes, SourceLoc loc = SourceLoc::current())
      : Axes(std::span<const std::int64_t>(axes.begin(), axes.size()), loc) {}
  Axes(const std::vector<int>& axes, SourceLoc loc = SourceLoc::current())
      : Axes(std::span<const int>(axes), loc) {}
  Axes(const std::vector<std::int64_t>& axes, SourceLoc loc = SourceLoc::current())
      : Axes(std::span<const std::int64_t>(axes), loc) {}
  Axes(std::span<const int> axes, SourceLoc loc = SourceLoc::current());
  Axes(std::span<const std::int64_t> axes, SourceLoc loc = SourceLoc::current());
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] std::span<const int> list() const noexcept {
    return std::span<const int>(axes_).first(count_);
  }

 private:
  // A number outside the range of int is no axis; its clamped value is none either.
  template <std::integral Int>
  [[nodiscard]] static constexpr int limited(Int axis) noexcept {
    constexpr int kLeast = std::numeric_limits<int>::min();
    constexpr int kMost = std::numeric_limits<int>::max();
    return std::cmp_less(axis, kLeast)     ? kLeast
           : std::cmp_greater(axis, kMost) ? kMost
                                           : static_cast<int>(axis);
  }

  std::array<int, kMaxRank> axes_{};
  std::size_t count_ = 0;
};

}  // namespace hearth
