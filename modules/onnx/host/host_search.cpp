#include "host_search.hpp"

#include <hearth/runtime/box_suppression.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <map>
#include <numeric>
#include <utility>

#include "modules/onnx/host/host_elements.hpp"

namespace hearth::onnx {
namespace {

using Places = std::vector<std::size_t>;

// The elements of each slice along an axis, by number. One element a slice without an axis.
std::vector<Places> slices_of(const Shape& shape, int axis) {
  const std::int64_t size = shape[axis];
  std::int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) {
    inner *= shape[i];
  }
  std::vector<Places> slices(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    slices[static_cast<std::size_t>(i / inner % size)].push_back(static_cast<std::size_t>(i));
  }
  return slices;
}

template <class Element>
bool is_number(const Element& element) {
  return element == element;  // NaN is not
}

// NaN comes last.
template <class Element>
bool comes_first(const Element& a, const Element& b) {
  return is_number(a) && (!is_number(b) || a < b);
}

template <class Elements>
std::weak_ordering compared(const Elements& elements, const Places& a, const Places& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (comes_first(elements[a[i]], elements[b[i]])) {
      return std::weak_ordering::less;
    }
    if (comes_first(elements[b[i]], elements[a[i]])) {
      return std::weak_ordering::greater;
    }
  }
  return std::weak_ordering::equivalent;
}

struct Groups {
  std::vector<std::int64_t> first = {};    // the first slice of each group
  std::vector<std::int64_t> inverse = {};  // the group of each slice
  std::vector<std::int64_t> counts = {};
};

// Groups of equal slices, in sorted order or in that of their first place.
template <class Elements>
Groups grouped(const Elements& elements, const std::vector<Places>& slices, bool is_sorted) {
  std::vector<std::size_t> order(slices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return compared(elements, slices[a], slices[b]) < 0;
  });
  std::vector<std::vector<std::size_t>> groups;
  for (const std::size_t slice : order) {
    const bool has_nan = std::ranges::any_of(
        slices[slice], [&](std::size_t place) { return !is_number(elements[place]); });
    const bool is_new = groups.empty() || has_nan ||
                        compared(elements, slices[groups.back().front()], slices[slice]) != 0;
    if (is_new) {
      groups.emplace_back();
    }
    groups.back().push_back(slice);
  }
  if (!is_sorted) {
    std::ranges::sort(
        groups, {}, [](const std::vector<std::size_t>& group) { return group.front(); });
  }
  Groups result{.inverse = std::vector<std::int64_t>(slices.size())};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    result.first.push_back(static_cast<std::int64_t>(groups[i].front()));
    result.counts.push_back(static_cast<std::int64_t>(groups[i].size()));
    for (const std::size_t slice : groups[i]) {
      result.inverse[slice] = static_cast<std::int64_t>(i);
    }
  }
  return result;
}

// The elements of some slices along an axis, in row-major order.
Places places_of(const std::vector<std::int64_t>& chosen,
                 const std::vector<Places>& slices,
                 const Shape& shape,
                 int axis) {
  std::size_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) {
    inner *= static_cast<std::size_t>(shape[i]);
  }
  Places places;
  const std::size_t lines = slices.empty() || inner == 0 ? 0 : slices.front().size();
  for (std::size_t outer = 0; outer < lines; outer += inner) {
    for (const std::int64_t slice : chosen) {
      for (std::size_t i = 0; i < inner; ++i) {
        places.push_back(slices[static_cast<std::size_t>(slice)][outer + i]);
      }
    }
  }
  return places;
}

// The numbers of a box as x1, y1, x2, y2. ONNX's corners may be any two, and y comes first.
std::array<double, 4> box_at(const HostArray& boxes, std::size_t i, bool is_centre) {
  const auto at = [&](std::size_t k) { return real_at(boxes, i * 4 + k); };
  if (is_centre) {  // centre x, centre y, width, height
    return {at(0) - at(2) / 2, at(1) - at(3) / 2, at(0) + at(2) / 2, at(1) + at(3) / 2};
  }
  return {std::min(at(1), at(3)),
          std::min(at(0), at(2)),
          std::max(at(1), at(3)),
          std::max(at(0), at(2))};
}

double determinant(std::vector<double> matrix, std::size_t size) {
  double result = 1;
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column; row < size; ++row) {
      if (std::abs(matrix[row * size + column]) > std::abs(matrix[pivot * size + column])) {
        pivot = row;
      }
    }
    const double value = matrix[pivot * size + column];
    if (value == 0) {
      return 0;
    }
    if (pivot != column) {
      result = -result;
      std::swap_ranges(matrix.begin() + static_cast<std::ptrdiff_t>(pivot * size),
                       matrix.begin() + static_cast<std::ptrdiff_t>((pivot + 1) * size),
                       matrix.begin() + static_cast<std::ptrdiff_t>(column * size));
    }
    result *= value;
    for (std::size_t row = column + 1; row < size; ++row) {
      const double factor = matrix[row * size + column] / value;
      for (std::size_t i = column; i < size; ++i) {
        matrix[row * size + i] -= factor * matrix[column * size + i];
      }
    }
  }
  return result;
}

}  // namespace

bool unique_on_host(Call& call) {
  HostArray x = call.host(0);
  const Shape shape = x.shape;
  const bool is_flat = !call.node().has("axis");
  if (is_flat) {
    x.shape = Shape{shape.element_count()};
  }
  const int axis = is_flat ? 0 : call.axis(call.node().integer("axis", 0), shape.rank());
  const std::vector<Places> slices = slices_of(x.shape, axis);
  const bool is_sorted = call.node().integer("sorted", 1) != 0;
  const Groups groups = std::visit(
      [&](const auto& elements) { return grouped(elements, slices, is_sorted); }, x.elements);
  const Places places = places_of(groups.first, slices, x.shape, axis);
  Shape result = x.shape;
  result.set(axis, static_cast<std::int64_t>(groups.first.size()));
  call.give(0, OnnxValue(selected(x, places, result)));
  call.give(1, OnnxValue(host_integers(groups.first)));
  call.give(2, OnnxValue(host_integers(groups.inverse)));
  call.give(3, OnnxValue(host_integers(groups.counts)));
  return true;
}

bool non_max_suppression_on_host(Call& call) {
  const HostArray& boxes = call.host(0);
  const HostArray& scores = call.host(1);
  if (boxes.shape.rank() != 3 || scores.shape.rank() != 3 || boxes.shape[2] != 4 ||
      scores.shape[2] != boxes.shape[1] || scores.shape[0] != boxes.shape[0]) {
    call.refuse(
        "boxes {} and scores {} do not fit", boxes.shape.to_string(), scores.shape.to_string());
  }
  detail::SuppressionRule rule{.iou_threshold = call.has(3) ? call.real(3) : 0,
                               .most = call.has(2) ? call.integer(2) : 0};
  if (call.has(4)) {
    rule.score_threshold = call.real(4);
  }
  const bool is_centre = call.node().integer("center_point_box", 0) != 0;
  const auto count = static_cast<std::size_t>(boxes.shape[1]);
  const auto classes = static_cast<std::size_t>(scores.shape[1]);
  std::vector<std::int64_t> chosen;
  for (std::size_t batch = 0; batch < static_cast<std::size_t>(boxes.shape[0]); ++batch) {
    std::vector<double> all;
    all.reserve(4 * count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::array<double, 4> box = box_at(boxes, batch * count + i, is_centre);
      all.insert(all.end(), box.begin(), box.end());
    }
    for (std::size_t c = 0; c < classes; ++c) {
      std::vector<double> of_class;
      of_class.reserve(count);
      for (std::size_t i = 0; i < count; ++i) {
        of_class.push_back(real_at(scores, (batch * classes + c) * count + i));
      }
      for (const std::int64_t i : detail::kept_boxes<double>(all, of_class, {}, rule)) {
        chosen.insert(chosen.end(),
                      {static_cast<std::int64_t>(batch), static_cast<std::int64_t>(c), i});
      }
    }
  }
  const auto rows = static_cast<std::int64_t>(chosen.size()) / 3;
  call.give(host_integers(std::move(chosen), Shape{rows, 3}));
  return true;
}

bool determinant_on_host(Call& call) {
  const HostArray& x = call.host(0);
  const int rank = x.shape.rank();
  if (rank < 2 || x.shape[-1] != x.shape[-2]) {
    call.refuse("{} has no square matrices", x.shape.to_string());
  }
  const auto size = static_cast<std::size_t>(x.shape[-1]);
  const std::vector<double> all = reals_of(x);
  Shape shape;
  for (int i = 0; i < rank - 2; ++i) {
    shape.push_back(x.shape[i]);
  }
  std::vector<double> results;
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    const auto begin =
        all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * size * size);
    results.push_back(determinant(
        std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(size * size)), size));
  }
  call.give(cast_host(host_reals(std::move(results), shape, OnnxType::f64), x.type));
  return true;
}

}  // namespace hearth::onnx
