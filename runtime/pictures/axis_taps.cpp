#include <hearth/runtime/axis_taps.hpp>
#include <hearth/runtime/ops.hpp>

#include "runtime/ops/op_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace hearth::detail {
namespace {

double cubic_weight(double distance, double a) {
  const double d = std::abs(distance);
  if (d <= 1) {
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  }
  return d < 2 ? a * (((d - 5) * d + 8) * d - 4) : 0;
}

struct Tap {
  std::int64_t position = 0;
  double weight = 0;
};

// The taps of one place, with weights that sum to 1. Positions outside that the edge replaces are
// added to its tap.
std::vector<Tap> taps_of(double place, std::int64_t size, const TapKernel& kernel) {
  const double reach = (kernel.is_cubic ? 2.0 : 1.0) / kernel.squeeze;
  const auto first = static_cast<std::int64_t>(std::floor(place - reach)) + 1;
  const auto last = static_cast<std::int64_t>(std::ceil(place + reach)) - 1;
  std::vector<Tap> taps;
  double sum = 0;
  for (std::int64_t at = first; at <= last; ++at) {
    const bool is_outside = at < 0 || at >= size;
    if (is_outside && kernel.excludes_outside) {
      continue;
    }
    const double distance = (static_cast<double>(at) - place) * kernel.squeeze;
    const double weight = kernel.is_cubic ? cubic_weight(distance, kernel.coefficient)
                                          : std::max(0.0, 1 - std::abs(distance));
    const std::int64_t inside = std::clamp(at, std::int64_t{0}, size - 1);
    if (taps.empty() || taps.back().position != inside) {
      taps.push_back({inside, 0});
    }
    taps.back().weight += weight;
    sum += weight;
  }
  if (taps.empty()) {  // far outside: nothing has a weight
    taps.push_back({place < 0 ? 0 : size - 1, 0});
  }
  for (Tap& tap : taps) {
    tap.weight /= sum == 0 ? 1 : sum;
  }
  return taps;
}

// A vector under the shape [.., n, 1, ..] that broadcasts along the axis.
Tensor along(const Tensor& vector, int rank, int axis, const At& at) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(rank), 1);
  shape[static_cast<std::size_t>(axis)] = vector.element_count();
  return reshape(at(vector), shape);
}

// Tap number `number` of each element of the result, times its weight.
Tensor weighted_tap(const Tensor& x, int axis, const AxisTaps& taps, std::size_t number, At at) {
  const auto count = static_cast<std::size_t>(taps.count);
  std::vector<std::int64_t> positions;
  std::vector<double> weights;
  for (std::size_t i = number; i < taps.positions.size(); i += count) {
    positions.push_back(taps.positions[i]);
    weights.push_back(taps.weights[i]);
  }
  Tensor elements = elements_at(x, axis, positions, at.location());
  if (std::ranges::all_of(weights, [](double weight) { return weight == 1; })) {
    return elements;
  }
  const Shape shape{static_cast<std::int64_t>(weights.size())};
  const Tensor factors = reals_on(x.device(), weights, shape, x.dtype(), at.location());
  return mul(at(std::move(elements)), at(along(factors, x.rank(), axis, at)));
}

// All taps side by side on an axis of their own, which is then summed.
Tensor summed_together(const Tensor& x, int axis, const AxisTaps& taps, At at) {
  const Shape shape = x.shape();
  const auto result_size = static_cast<std::int64_t>(taps.positions.size()) / taps.count;
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    outer *= i < axis ? shape[i] : 1;
    inner *= i > axis ? shape[i] : 1;
  }
  Tensor rows = reshape(at(x), {outer, shape[axis], inner});
  rows = elements_at(std::move(rows), 1, taps.positions, at.location());
  rows = reshape(at(std::move(rows)), {outer, result_size, taps.count, inner});
  const Tensor factors =
      reals_on(x.device(), taps.weights, {result_size, taps.count, 1}, x.dtype(), at.location());
  Tensor sums = sum(at(mul(at(std::move(rows)), at(factors))), 2);
  Shape result = shape;
  result.set(axis, result_size);
  return reshape(at(std::move(sums)), result.dims());
}

// Whether position i is i / factor, or i * factor.
bool repeats(std::span<const std::int64_t> positions, std::int64_t factor) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] != static_cast<std::int64_t>(i) / factor) {
      return false;
    }
  }
  return true;
}
bool skips(std::span<const std::int64_t> positions, std::int64_t step) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] != static_cast<std::int64_t>(i) * step) {
      return false;
    }
  }
  return true;
}

// Each element of the axis `times` times in a row.
Tensor with_repeats(Tensor x, int axis, std::int64_t times, const At& at) {
  Shape parts;
  Shape wide;
  Shape result;
  const Shape shape = x.shape();
  for (int i = 0; i < shape.rank(); ++i) {
    parts.push_back(shape[i]);
    wide.push_back(shape[i]);
    result.push_back(i == axis ? shape[i] * times : shape[i]);
    if (i == axis) {
      parts.push_back(1);
      wide.push_back(times);
    }
  }
  x = reshape(at(std::move(x)), parts.dims());
  x = expand(at(std::move(x)), wide);
  return reshape(at(std::move(x)), result.dims());
}

}  // namespace

AxisTaps taps_at(std::span<const double> places, std::int64_t size, const TapKernel& kernel) {
  std::vector<std::vector<Tap>> all;
  AxisTaps result;
  for (const double place : places) {
    all.push_back(taps_of(place, size, kernel));
    result.count = std::max(result.count, static_cast<std::int64_t>(all.back().size()));
  }
  for (std::vector<Tap>& taps : all) {
    // Fillers repeat an element that counts anyway, so that no other NaN enters.
    taps.resize(static_cast<std::size_t>(result.count), {taps.back().position, 0});
    for (const Tap& tap : taps) {
      result.positions.push_back(tap.position);
      result.weights.push_back(tap.weight);
    }
  }
  return result;
}

Tensor sum_taps(const Tensor& x, int axis, const AxisTaps& taps, SourceLoc loc) {
  constexpr std::int64_t kMostApart = 4;  // up to a cubic, a chain of products is one kernel
  const At at(loc);
  if (taps.count > kMostApart) {
    return summed_together(x, axis, taps, at);
  }
  Tensor sum = weighted_tap(x, axis, taps, 0, at);
  for (std::size_t i = 1; i < static_cast<std::size_t>(taps.count); ++i) {
    sum = add(at(std::move(sum)), at(weighted_tap(x, axis, taps, i, at)));
  }
  return sum;
}

Tensor elements_at(Tensor x, int axis, std::span<const std::int64_t> positions, SourceLoc loc) {
  const At at(loc);
  const std::int64_t size = x.shape()[axis];
  const auto count = static_cast<std::int64_t>(positions.size());
  if (size == count && skips(positions, 1)) {
    return x;
  }
  if (size > 0 && count > size && count % size == 0 && x.rank() < kMaxRank &&
      repeats(positions, count / size)) {
    return with_repeats(std::move(x), axis, count / size, at);
  }
  const std::int64_t step = count > 1 ? positions[1] : 1;
  if (step >= 1 && skips(positions, step)) {
    return slice(at(std::move(x)), axis, {.stop = (count - 1) * step + 1, .step = step});
  }
  const Tensor index = Tensor::from(
      x.device(), std::vector<std::int64_t>(positions.begin(), positions.end()), {count}, loc);
  return index_select(at(std::move(x)), axis, at(index));
}

}  // namespace hearth::detail
