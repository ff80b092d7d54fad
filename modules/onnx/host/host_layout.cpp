#include "host_layout.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "modules/onnx/host/host_elements.hpp"
#include "modules/onnx/host/layout_rules.hpp"

namespace hearth::onnx {
namespace {

using Places = std::vector<std::size_t>;

bool reshaped(Call& call, const Shape& shape) {
  HostArray result = call.host(0);
  if (shape.element_count() != result.shape.element_count()) {
    call.refuse("{} has not the elements of {}", result.shape.to_string(), shape.to_string());
  }
  result.shape = shape;
  call.give(std::move(result));
  return true;
}

// Element numbers of a result, given for each axis the positions in the input.
Places places_along(const Shape& from, const std::vector<std::vector<std::int64_t>>& along) {
  const Strides strides = contiguous_strides(from);
  std::vector<std::int64_t> places{0};
  for (std::size_t axis = 0; axis < along.size(); ++axis) {
    std::vector<std::int64_t> next;
    next.reserve(places.size() * along[axis].size());
    for (const std::int64_t place : places) {
      for (const std::int64_t position : along[axis]) {
        next.push_back(place + position * strides[axis]);
      }
    }
    places = std::move(next);
  }
  return {places.begin(), places.end()};
}

std::vector<std::vector<std::int64_t>> all_positions(const Shape& shape) {
  std::vector<std::vector<std::int64_t>> along(static_cast<std::size_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) {
    along[static_cast<std::size_t>(axis)].resize(static_cast<std::size_t>(shape[axis]));
    std::iota(along[static_cast<std::size_t>(axis)].begin(),
              along[static_cast<std::size_t>(axis)].end(),
              0);
  }
  return along;
}

Shape lengths_of(const std::vector<std::vector<std::int64_t>>& along) {
  Shape shape;
  for (const std::vector<std::int64_t>& positions : along) {
    shape.push_back(static_cast<std::int64_t>(positions.size()));
  }
  return shape;
}

HostArray part(const HostArray& from, const std::vector<std::vector<std::int64_t>>& along) {
  return selected(from, places_along(from.shape, along), lengths_of(along));
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from, std::size_t begin, std::size_t count) {
  const auto first = from.begin() + static_cast<std::ptrdiff_t>(begin);
  to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(count));
}

// Elements of one line of the result: those of input i before input i + 1.
HostArray concatenated(Call& call, int axis) {
  HostArray result = call.host(0);
  std::int64_t size = 0;
  for (std::size_t i = 0; i < call.count(); ++i) {
    size += call.shape(i)[axis];
  }
  std::int64_t outer = 1;
  for (int i = 0; i < axis; ++i) {
    outer *= result.shape[i];
  }
  result.shape.set(axis, size);
  std::visit(
      [&](auto& elements) {
        elements.clear();
        using Elements = std::remove_cvref_t<decltype(elements)>;
        for (std::int64_t line = 0; line < outer; ++line) {
          for (std::size_t i = 0; i < call.count(); ++i) {
            const auto& from = std::get<Elements>(call.host(i).elements);
            const std::size_t length =
                outer == 0 ? 0 : from.size() / static_cast<std::size_t>(outer);
            append(elements, from, static_cast<std::size_t>(line) * length, length);
          }
        }
      },
      result.elements);
  return result;
}

bool reduced(Call& call,
             double start,
             double (*fold)(double, double),
             std::int64_t integer_start,
             std::int64_t (*fold_integer)(std::int64_t, std::int64_t)) {
  const Reduction reduction = reduction_of(call);
  const HostArray& x = call.host(0);
  if (has_strings(x) || x.shape.element_count() == 0) {
    return false;
  }
  Shape kept = x.shape;
  Shape squeezed;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const bool is_reduced = std::ranges::find(reduction.axes, axis) != reduction.axes.end();
    kept.set(axis, is_reduced ? 1 : x.shape[axis]);
    if (!is_reduced) {
      squeezed.push_back(x.shape[axis]);
    }
  }
  const Places to = broadcast_places(kept, x.shape);
  const auto count = static_cast<std::size_t>(kept.element_count());
  const Shape& shape = reduction.keeps_axes ? kept : squeezed;
  if (has_reals(x)) {
    std::vector<double> values(count, start);
    for (std::size_t i = 0; i < to.size(); ++i) {
      values[to[i]] = fold(values[to[i]], x.reals()[i]);
    }
    call.give(cast_host(host_reals(std::move(values), shape, OnnxType::f64), x.type));
    return true;
  }
  std::vector<std::int64_t> values(count, integer_start);
  for (std::size_t i = 0; i < to.size(); ++i) {
    values[to[i]] = fold_integer(values[to[i]], x.integers()[i]);
  }
  call.give(cast_host(host_integers(std::move(values), shape), x.type));
  return true;
}

}  // namespace

bool identity_on_host(Call& call) {
  call.give(OnnxValue(call.value(0)));
  return true;
}
bool reshape_on_host(Call& call) {
  return reshaped(call, reshape_target(call));
}
bool squeeze_on_host(Call& call) {
  return reshaped(call, squeeze_target(call));
}
bool unsqueeze_on_host(Call& call) {
  return reshaped(call, unsqueeze_target(call));
}
bool flatten_on_host(Call& call) {
  return reshaped(call, flatten_target(call));
}

bool concat_on_host(Call& call) {
  const std::int64_t given = call.node().integer("axis", call.opset() < 4 ? 1 : 0);
  const int axis = call.axis(given, call.rank(0));
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < call.count(); ++i) {
    elements += call.shape(i).element_count();
    if (call.rank(i) != call.rank(0) || call.type(i) != call.type(0)) {
      call.refuse("input {} is {}{}, input 0 {}{}",
                  i,
                  name(call.type(i)),
                  call.shape(i).to_string(),
                  name(call.type(0)),
                  call.shape(0).to_string());
    }
  }
  if (elements > kMostHostElements) {
    return false;
  }
  call.give(concatenated(call, axis));
  return true;
}

bool slice_on_host(Call& call) {
  const HostArray& x = call.host(0);
  std::vector<std::vector<std::int64_t>> along = all_positions(x.shape);
  for (const AxisSelection& selection : slice_selections(call)) {
    std::vector<std::int64_t>& positions = along[static_cast<std::size_t>(selection.axis)];
    positions.clear();
    for (std::int64_t i = 0; i < selection.count; ++i) {
      positions.push_back(selection.start + i * selection.step);
    }
  }
  call.give(part(x, along));
  return true;
}

bool split_on_host(Call& call) {
  const HostArray& x = call.host(0);
  const SplitParts parts = split_parts(call);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.sizes.size(); ++i) {
    std::vector<std::vector<std::int64_t>> along = all_positions(x.shape);
    std::vector<std::int64_t>& positions = along[static_cast<std::size_t>(parts.axis)];
    positions.resize(static_cast<std::size_t>(parts.sizes[i]));
    std::iota(positions.begin(), positions.end(), begin);
    begin += parts.sizes[i];
    call.give(i, OnnxValue(part(x, along)));
  }
  return true;
}

bool gather_on_host(Call& call) {
  const HostArray& x = call.host(0);
  const HostArray& index = call.host(1);
  const int axis = call.axis(call.node().integer("axis", 0), x.shape.rank());
  const std::int64_t size = x.shape[axis];
  std::vector<std::vector<std::int64_t>> along = all_positions(x.shape);
  std::vector<std::int64_t>& positions = along[static_cast<std::size_t>(axis)];
  positions.clear();
  for (const std::int64_t at : index.integers()) {
    if (at < -size || at >= size) {
      call.refuse("index {} is outside axis {} of size {}", at, axis, size);
    }
    positions.push_back(at < 0 ? at + size : at);
  }
  HostArray result = part(x, along);
  Shape shape;
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (i != axis) {
      shape.push_back(x.shape[i]);
      continue;
    }
    for (const std::int64_t length : index.shape.dims()) {
      shape.push_back(length);
    }
  }
  result.shape = shape;
  call.give(std::move(result));
  return true;
}

bool expand_on_host(Call& call) {
  const Shape shape = expand_target(call);
  if (shape.element_count() > kMostHostElements) {
    return false;
  }
  const HostArray& x = call.host(0);
  call.give(selected(x, broadcast_places(x.shape, shape), shape));
  return true;
}

bool tile_on_host(Call& call) {
  const HostArray& x = call.host(0);
  const std::vector<std::int64_t> counts = tile_counts(call);
  std::vector<std::vector<std::int64_t>> along = all_positions(x.shape);
  std::int64_t elements = 1;
  for (std::size_t axis = 0; axis < along.size(); ++axis) {
    elements *=
        static_cast<std::int64_t>(along[axis].size()) * std::max<std::int64_t>(counts[axis], 0);
    if (elements > kMostHostElements) {
      return false;
    }
  }
  for (std::size_t axis = 0; axis < along.size(); ++axis) {
    const std::vector<std::int64_t> once = along[axis];
    along[axis].clear();
    for (std::int64_t i = 0; i < counts[axis]; ++i) {
      along[axis].insert(along[axis].end(), once.begin(), once.end());
    }
  }
  call.give(part(x, along));
  return true;
}

bool transpose_on_host(Call& call) {
  const HostArray& x = call.host(0);
  const std::vector<int> order = transpose_order(call);
  detail::Layout from(x.shape);
  detail::Layout to(x.shape);
  for (std::size_t i = 0; i < order.size(); ++i) {
    to.shape.set(static_cast<int>(i), x.shape[order[i]]);
    to.strides[i] = from.strides[static_cast<std::size_t>(order[i])];
  }
  Places places;
  std::vector<std::int64_t> along{0};
  for (std::size_t axis = 0; axis < order.size(); ++axis) {
    std::vector<std::int64_t> next;
    for (const std::int64_t place : along) {
      for (std::int64_t i = 0; i < to.shape[static_cast<int>(axis)]; ++i) {
        next.push_back(place + i * to.strides[axis]);
      }
    }
    along = std::move(next);
  }
  places.assign(along.begin(), along.end());
  call.give(selected(x, places, to.shape));
  return true;
}

bool range_on_host(Call& call) {
  const OnnxType type = call.type(0);
  const double start = call.real(0);
  const double step = call.real(2);
  const double count = std::ceil((call.real(1) - start) / step);
  if (!(count <= static_cast<double>(kMostHostElements))) {
    return false;
  }
  const auto size = static_cast<std::size_t>(std::max(count, 0.0));
  const Shape shape{static_cast<std::int64_t>(size)};
  if (is_float(type)) {
    std::vector<double> values(size);
    for (std::size_t i = 0; i < size; ++i) {
      values[i] = start + static_cast<double>(i) * step;
    }
    call.give(cast_host(host_reals(std::move(values), shape, OnnxType::f64), type));
    return true;
  }
  std::vector<std::int64_t> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = call.integer(0) + static_cast<std::int64_t>(i) * call.integer(2);
  }
  call.give(host_integers(std::move(values), shape, type));
  return true;
}

bool constant_of_shape_on_host(Call& call) {
  const Shape shape(call.integers(0));
  if (shape.element_count() > kMostHostElements) {
    return false;
  }
  const auto* const given = call.node().attribute<std::shared_ptr<const HostArray>>("value");
  const HostArray value =
      given == nullptr ? host_reals({0}, Shape{1}, OnnxType::f32) : HostArray(**given);
  call.give(selected(value, Places(static_cast<std::size_t>(shape.element_count()), 0), shape));
  return true;
}

bool reduce_sum_on_host(Call& call) {
  return reduced(
      call,
      0,
      [](double a, double b) { return a + b; },
      0,
      [](std::int64_t a, std::int64_t b) { return a + b; });
}
bool reduce_prod_on_host(Call& call) {
  return reduced(
      call,
      1,
      [](double a, double b) { return a * b; },
      1,
      [](std::int64_t a, std::int64_t b) { return a * b; });
}
bool reduce_max_on_host(Call& call) {
  return reduced(
      call,
      -INFINITY,
      [](double a, double b) { return std::isnan(b) || b > a ? b : a; },
      std::numeric_limits<std::int64_t>::min(),
      [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}
bool reduce_min_on_host(Call& call) {
  return reduced(
      call,
      INFINITY,
      [](double a, double b) { return std::isnan(b) || b < a ? b : a; },
      std::numeric_limits<std::int64_t>::max(),
      [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
}

bool cum_sum_on_host(Call& call) {
  if (call.rank(0) != 1 || has_reals(call.host(0)) || call.node().integer("exclusive", 0) != 0 ||
      call.node().integer("reverse", 0) != 0) {
    return false;
  }
  HostArray result = call.host(0);
  auto& values = std::get<std::vector<std::int64_t>>(result.elements);
  std::partial_sum(values.begin(), values.end(), values.begin());
  call.give(cast_host(result, result.type));
  return true;
}

bool non_zero_on_host(Call& call) {
  const HostArray& x = call.host(0);
  const auto rank = static_cast<std::size_t>(x.shape.rank());
  const Strides strides = contiguous_strides(x.shape);
  std::vector<std::vector<std::int64_t>> found(std::max<std::size_t>(rank, 0));
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < x.shape.element_count(); ++i) {
    if (real_at(x, static_cast<std::size_t>(i)) == 0) {
      continue;
    }
    ++count;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      found[axis].push_back(i / strides[axis] % x.shape[static_cast<int>(axis)]);
    }
  }
  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& positions : found) {
    all.insert(all.end(), positions.begin(), positions.end());
  }
  call.give(host_integers(std::move(all), Shape{static_cast<std::int64_t>(rank), count}));
  return true;
}

bool compress_on_host(Call& call) {
  const std::vector<std::int64_t> flags = call.integers(1);
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) {
      chosen.push_back(static_cast<std::int64_t>(i));
    }
  }
  HostArray x = call.host(0);
  if (!call.node().has("axis")) {
    x.shape = Shape{x.shape.element_count()};
  }
  std::vector<std::vector<std::int64_t>> along = all_positions(x.shape);
  const int axis = call.axis(call.node().integer("axis", 0), x.shape.rank());
  along[static_cast<std::size_t>(axis)] = std::move(chosen);
  call.give(part(x, along));
  return true;
}

}  // namespace hearth::onnx
