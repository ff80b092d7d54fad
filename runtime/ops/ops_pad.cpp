#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

constexpr OpKind kPadKind = OpKind::concat;

// Repeats one axis `count` times: expands a new axis in front of it and joins the two.
Tensor repeated(Tensor x, int axis, std::int64_t count, SourceLoc loc) {
  const Shape from = x.shape();
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  Shape to;
  for (int i = 0; i < from.rank(); ++i) {
    outer *= i < axis ? from[i] : 1;
    inner *= i > axis ? from[i] : 1;
    to.push_back(i == axis ? from[i] * count : from[i], loc);
  }
  Tensor parts = reshape(Arg(std::move(x), loc), {outer, 1, from[axis], inner});
  Tensor wide = expand(Arg(std::move(parts), loc), {outer, count, from[axis], inner});
  return reshape(Arg(std::move(wide), loc), to.dims());
}

struct Edge {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

// The largest padding at each end that a mode can take from an axis of this size.
std::int64_t most(PadMode mode, std::int64_t size) {
  constexpr std::int64_t kAny = std::int64_t{1} << 60;
  switch (mode) {
    case PadMode::reflect:
      return size - 1;
    case PadMode::circular:
      return size;
    case PadMode::replicate:
      return size > 0 ? kAny : 0;
    case PadMode::constant:
      break;
  }
  return kAny;
}

// The checked padding of each axis. Errors: those of pad().
std::array<Edge, kMaxRank> checked_edges(const Arg& x,
                                         std::span<const PadAxis> axes,
                                         PadMode mode) {
  const Shape shape = detail::operand(kPadKind, x).layout->shape;
  const auto fail = [&](const std::string& what) {
    detail::throw_op_error(ErrorCode::invalid_argument, kPadKind, what, x);
  };
  std::array<Edge, kMaxRank> edges{};
  std::array<bool, kMaxRank> is_named{};
  for (const PadAxis& named : axes) {
    const int axis = detail::checked(normalize_axis("pad", named.axis, shape.rank()), kPadKind, x);
    const auto place = static_cast<std::size_t>(axis);
    if (std::exchange(is_named[place], true)) {
      fail(fmt::format("axis {} of {} is named twice", axis, shape.to_string()));
    }
    if (named.before < 0 || named.after < 0) {
      fail(fmt::format("axis {} cannot grow by {} and {}", axis, named.before, named.after));
    }
    const std::int64_t least = most(mode, shape[axis]);
    if (named.before > least || named.after > least) {
      fail(fmt::format("axis {} of {} has too few elements to grow by {} and {} in this mode",
                       axis,
                       shape.to_string(),
                       named.before,
                       named.after));
    }
    edges[place] = {named.before, named.after};
  }
  return edges;
}

Tensor with_constant(Tensor x, int axis, Edge edge, double value, SourceLoc loc) {
  std::vector<Tensor> parts;
  Shape shape = x.shape();
  const auto add = [&](std::int64_t size) {
    if (size > 0) {
      shape.set(axis, size);
      parts.push_back(full(x.device(), shape, value, x.dtype(), loc));
    }
  };
  add(edge.before);
  parts.push_back(x);
  add(edge.after);
  return concat(parts, axis, loc);
}

// The index whose element a padded position takes.
std::int64_t source_of(std::int64_t place, std::int64_t size, PadMode mode) {
  if (mode == PadMode::circular) {
    return (place + size) % size;
  }
  if (mode == PadMode::replicate) {
    return place < 0 ? 0 : (place < size ? place : size - 1);
  }
  return place < 0 ? -place : (place < size ? place : 2 * (size - 1) - place);
}

Tensor with_own(Tensor x, int axis, Edge edge, PadMode mode, SourceLoc loc) {
  const std::int64_t size = x.shape()[axis];
  std::vector<std::int64_t> index;
  index.reserve(static_cast<std::size_t>(edge.before + size + edge.after));
  for (std::int64_t place = -edge.before; place < size + edge.after; ++place) {
    index.push_back(source_of(place, size, mode));
  }
  const auto count = static_cast<std::int64_t>(index.size());
  const Tensor sources = Tensor::from(x.device(), std::move(index), {count}, loc);
  return index_select(Arg(std::move(x), loc), axis, Arg(sources, loc));
}

}  // namespace

Tensor repeat(Arg x, std::span<const std::int64_t> counts) {
  return detail::named_as("repeat", [&] {
    const Shape from = detail::operand(kPadKind, x).layout->shape;
    const auto rank = static_cast<int>(counts.size());
    bool is_right = rank >= from.rank();
    for (const std::int64_t count : counts) {
      is_right = is_right && count >= 0;
    }
    if (!is_right) {
      detail::throw_op_error(ErrorCode::invalid_argument,
                             kPadKind,
                             fmt::format("the counts [{}] are no count of 0 or more for each axis "
                                         "of {}",
                                         fmt::join(counts, ", "),
                                         from.to_string()),
                             x);
    }
    const SourceLoc loc = x.location();
    Shape shape;
    for (int i = from.rank(); i < rank; ++i) {
      shape.push_back(1, loc);
    }
    for (int i = 0; i < from.rank(); ++i) {
      shape.push_back(from[i], loc);
    }
    Tensor result = reshape(x, shape.dims());
    // From the last axis on, so that the repeated copies are small at first.
    for (int axis = rank - 1; axis >= 0; --axis) {
      const std::int64_t count = counts[static_cast<std::size_t>(axis)];
      if (count != 1) {
        result = repeated(std::move(result), axis, count, loc);
      }
    }
    return result;
  });
}
Tensor repeat(Arg x, std::initializer_list<std::int64_t> counts) {
  return repeat(x, std::span<const std::int64_t>(counts.begin(), counts.size()));
}

Tensor pad(Arg x, std::span<const PadAxis> axes, PadOptions options) {
  return detail::named_as("pad", [&] {
    const std::array<Edge, kMaxRank> edges = checked_edges(x, axes, options.mode);
    const SourceLoc loc = x.location();
    Tensor result = detail::take(x);
    for (int axis = 0; axis < result.shape().rank(); ++axis) {
      const Edge edge = edges[static_cast<std::size_t>(axis)];
      if (edge.before == 0 && edge.after == 0) {
        continue;
      }
      result = options.mode == PadMode::constant
                   ? with_constant(std::move(result), axis, edge, options.value, loc)
                   : with_own(std::move(result), axis, edge, options.mode, loc);
    }
    return result;
  });
}
Tensor pad(Arg x, std::initializer_list<PadAxis> axes, PadOptions options) {
  return pad(x, std::span<const PadAxis>(axes.begin(), axes.size()), options);
}

}  // namespace hearth
