// Shape (up to eight dimensions) and Layout (a shape with strides). Values, any thread.
// Invariants: (1) dims beyond rank are 0, so equality is plain; (2) strides count elements and may
// be negative or 0 (broadcast).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

inline constexpr int kMaxRank = 8;

namespace detail {
/// An axis with its source line, because operators cannot have a further parameter.
struct AxisAt {
  int axis;
  SourceLoc location;
  constexpr AxisAt(int of, SourceLoc loc = SourceLoc::current()) noexcept  // NOLINT: a number
      : axis(of), location(loc) {}
};
}  // namespace detail

class Shape {
 public:
  constexpr Shape() = default;                     ///< A scalar: rank 0, one element.
  Shape(std::initializer_list<std::int64_t> dims,  // NOLINT(google-explicit-constructor)
        SourceLoc loc = SourceLoc::current());
  /// Errors: ShapeError for more than 8 dimensions, a negative one, or an overflow of the element
  /// count.
  explicit Shape(std::span<const std::int64_t> dims, SourceLoc loc = SourceLoc::current());
  Shape(const std::vector<std::int64_t>& dims,  // NOLINT(google-explicit-constructor)
        SourceLoc loc = SourceLoc::current());
  Shape(const std::vector<int>& dims,  // NOLINT(google-explicit-constructor)
        SourceLoc loc = SourceLoc::current());

  [[nodiscard]] constexpr int rank() const noexcept { return rank_; }
  /// Returns one dimension. A negative axis counts from the end.
  ///
  /// Errors: ArgumentError if the axis does not exist.
  [[nodiscard]] constexpr std::int64_t operator[](detail::AxisAt at) const {
    const int axis = at.axis < 0 ? at.axis + rank_ : at.axis;
    if (axis < 0 || axis >= rank_) [[unlikely]] {
      throw_no_axis(at);
    }
    return dims_[static_cast<std::size_t>(axis)];
  }
  /// Sets one dimension. Requires 0 ≤ axis < rank() and size ≥ 0.
  constexpr void set(int axis, std::int64_t size) noexcept {
    dims_[static_cast<std::size_t>(axis)] = size;
  }
  /// Appends a dimension.
  ///
  /// Errors: ShapeError beyond 8.
  void push_back(std::int64_t size, SourceLoc loc = SourceLoc::current());
  [[nodiscard]] std::span<const std::int64_t> dims() const noexcept {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  [[nodiscard]] constexpr std::int64_t element_count() const noexcept {
    std::int64_t count = 1;
    for (int axis = 0; axis < rank_; ++axis) {
      count *= dims_[static_cast<std::size_t>(axis)];
    }
    return count;
  }
  /// Returns "[4, 8]".
  [[nodiscard]] std::string to_string() const;
  friend constexpr bool operator==(const Shape&, const Shape&) noexcept = default;
  /// Prints to_string().
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape);

 private:
  [[noreturn]] void throw_no_axis(const detail::AxisAt& at) const;

  std::array<std::int64_t, kMaxRank> dims_{};
  std::int32_t rank_ = 0;
};

/// Makes a shape from dims that may be invalid.
///
/// Errors: shape_mismatch, with the text of Shape's constructor (which throws it instead).
[[nodiscard]] Result<Shape> make_shape(std::span<const std::int64_t> dims);

/// Strides in elements, one per axis; entries beyond the rank are 0.
using Strides = std::array<std::int64_t, kMaxRank>;

/// Returns row-major strides; an axis of size 1 gets the stride it would have.
[[nodiscard]] Strides contiguous_strides(const Shape& shape) noexcept;

namespace detail {
/// Position of a tensor's elements, relative to its first byte.
struct Layout {
  Shape shape;
  Strides strides{};
  bool contiguous = true;  ///< Row-major without gaps (axes of size 1 do not matter).

  Layout() = default;
  explicit Layout(const Shape& of) : shape(of), strides(contiguous_strides(of)) {}
  Layout(const Shape& of, const Strides& with);  ///< Computes `contiguous`.
};
}  // namespace detail

/// Broadcasts two shapes as NumPy does.
///
/// Errors: shape_mismatch with both shapes in the text (without an op's name).
[[nodiscard]] Result<Shape> broadcast(const Shape& a, const Shape& b);
/// Returns the strides of `layout` when read as `target` (0 on broadcast axes). Requires that
/// layout.shape broadcasts to target.
[[nodiscard]] Strides broadcast_strides(const detail::Layout& layout, const Shape& target) noexcept;
/// Maps a possibly negative axis to 0…rank-1.
///
/// Errors: invalid_argument naming op, axis and rank.
[[nodiscard]] Result<int> normalize_axis(std::string_view op, int axis, int rank);
/// Returns "f32[4, 8]".
[[nodiscard]] std::string describe(DType dtype, const Shape& shape);

}  // namespace hearth
