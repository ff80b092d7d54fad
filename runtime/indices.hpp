// Indices: the argument of a tensor's a[...]: one entry for each axis from the first on, each a
// number or a Range. A value. Threads: any.
// Invariant: holds at most kMaxRank entries, each as the caller wrote it; the tensor checks them.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

/// The indices start, start + step, … before stop along one axis, as Python's x[start:stop:step].
/// Negative numbers count from the end; a negative step walks backwards. An omitted start or stop
/// means the first or last element in the step's direction.
struct Range {
  /// The first index; negative numbers count from the end.
  std::optional<std::int64_t> start = {};
  std::optional<std::int64_t> stop = {};  ///< The first index left out.
  /// Distance between indices; negative numbers walk backwards, as in a flip.
  std::int64_t step = 1;
};

/// One entry of a[...].
class Index {
 public:
  // NOLINTBEGIN(google-explicit-constructor): an index is written as a[1] or a[{1, Range{}}]
  template <std::integral Integer>
  constexpr Index(Integer place) noexcept : place_(static_cast<std::int64_t>(place)) {}
  constexpr Index(Range range) noexcept : range_(range), is_range_(true) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] constexpr bool is_range() const noexcept { return is_range_; }
  [[nodiscard]] constexpr std::int64_t place() const noexcept { return place_; }
  [[nodiscard]] constexpr const Range& range() const noexcept { return range_; }

 private:
  Range range_ = {};
  std::int64_t place_ = 0;
  bool is_range_ = false;
};

class Indices {
 public:
  // NOLINTBEGIN(google-explicit-constructor): as Index
  template <std::integral Integer>
  Indices(Integer place, SourceLoc loc = SourceLoc::current()) noexcept : count_(1), loc_(loc) {
    list_[0] = place;
  }
  Indices(Range range, SourceLoc loc = SourceLoc::current()) noexcept : count_(1), loc_(loc) {
    list_[0] = range;
  }
  /// Errors: ShapeError for more entries than a tensor can have axes.
  Indices(std::initializer_list<Index> list, SourceLoc loc = SourceLoc::current());
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] std::span<const Index> list() const noexcept {
    return std::span<const Index>(list_).first(count_);
  }
  /// The location of the indexing expression.
  [[nodiscard]] SourceLoc location() const noexcept { return loc_; }

 private:
  std::array<Index, kMaxRank> list_{
      Index(0), Index(0), Index(0), Index(0), Index(0), Index(0), Index(0), Index(0)};
  std::size_t count_ = 0;
  SourceLoc loc_;
};

}  // namespace hearth
