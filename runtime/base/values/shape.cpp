#include <hearth/runtime/base/shape.hpp>

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

namespace hearth {

Shape::Shape(std::initializer_list<std::int64_t> dims, SourceLoc loc)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size()), loc) {}

Shape::Shape(const std::vector<std::int64_t>& dims, SourceLoc loc)
    : Shape(std::span<const std::int64_t>(dims), loc) {}

Shape::Shape(const std::vector<int>& dims, SourceLoc loc) {
  for (const int size : dims) {
    push_back(size, loc);
  }
}

Shape::Shape(std::span<const std::int64_t> dims, SourceLoc loc) {
  for (const std::int64_t size : dims) {
    push_back(size, loc);
  }
}

void Shape::push_back(std::int64_t size, SourceLoc loc) {
  if (rank_ == kMaxRank) {
    throw ShapeError(Error{.code = ErrorCode::shape_mismatch,
                           .text = fmt::format("shape: more than {} dimensions", kMaxRank),
                           .location = loc});
  }
  if (size < 0) {
    throw ShapeError(Error{.code = ErrorCode::shape_mismatch,
                           .text = fmt::format("shape: dimension {} is negative: {}", rank_, size),
                           .location = loc});
  }
  // 2^59 elements of 8 bytes stay below 2^62 bytes, so byte sizes never overflow.
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 59;
  std::int64_t nonzero = 1;
  for (int axis = 0; axis < rank_; ++axis) {
    nonzero *= std::max<std::int64_t>(dims_[static_cast<std::size_t>(axis)], 1);
  }
  if (size > 0 && nonzero > kMaxElements / size) {
    throw ShapeError(Error{
        .code = ErrorCode::shape_mismatch,
        .text = fmt::format("shape: {} times {} is more than 2^59 elements", to_string(), size),
        .location = loc});
  }
  dims_[static_cast<std::size_t>(rank_)] = size;
  ++rank_;
}

void Shape::throw_no_axis(const detail::AxisAt& at) const {
  throw ArgumentError(Error{
      .code = ErrorCode::invalid_argument,
      .text = fmt::format("shape: axis {} is outside {}, {}",
                          at.axis,
                          to_string(),
                          rank_ == 0 ? "which has no axes"
                                     : fmt::format("whose axes are {} to {}", -rank_, rank_ - 1)),
      .location = at.location});
}

Result<Shape> make_shape(std::span<const std::int64_t> dims) {
  try {
    return Shape(dims, SourceLoc{});  // the caller knows the line
  } catch (const ShapeError& error) {
    return error.shared_error();
  }
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(dims(), ", "));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.to_string();
}

Strides contiguous_strides(const Shape& shape) noexcept {
  Strides strides{};
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    step *= std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

detail::Layout::Layout(const Shape& of, const Strides& with) : shape(of), strides(with) {
  const Strides wanted = contiguous_strides(of);
  for (int axis = 0; axis < of.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (of[axis] > 1 && with[i] != wanted[i]) {
      contiguous = of.element_count() == 0;
      return;
    }
  }
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  if (a == b) {
    return a;
  }
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, kMaxRank> dims{};
  for (int axis = 0; axis < rank; ++axis) {
    const int from_a = axis - (rank - a.rank());
    const int from_b = axis - (rank - b.rank());
    const std::int64_t size_a = from_a < 0 ? 1 : a[from_a];
    const std::int64_t size_b = from_b < 0 ? 1 : b[from_b];
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      return Error{.code = ErrorCode::shape_mismatch,
                   .text = fmt::format("shapes do not broadcast: {} and {} differ in axis {}",
                                       a.to_string(),
                                       b.to_string(),
                                       axis - rank)};
    }
    dims[static_cast<std::size_t>(axis)] = size_a == 1 ? size_b : size_a;
  }
  return make_shape({dims.data(), static_cast<std::size_t>(rank)});
}

Strides broadcast_strides(const detail::Layout& layout, const Shape& target) noexcept {
  Strides strides{};
  const int offset = target.rank() - layout.shape.rank();
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    const int to = axis + offset;
    const bool is_stretched = layout.shape[axis] == 1 && target[to] != 1;
    strides[static_cast<std::size_t>(to)] =
        is_stretched ? 0 : layout.strides[static_cast<std::size_t>(axis)];
  }
  return strides;
}

Result<int> normalize_axis(std::string_view op, int axis, int rank) {
  const int normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("{}: axis {} is outside a tensor of rank {}, {}",
                            op,
                            axis,
                            rank,
                            rank == 0 ? "which has no axes"
                                      : fmt::format("whose axes are {} to {}", -rank, rank - 1))};
  }
  return normal;
}

std::string describe(DType dtype, const Shape& shape) {
  return fmt::format("{}{}", name(dtype), shape.to_string());
}

}  // namespace hearth
