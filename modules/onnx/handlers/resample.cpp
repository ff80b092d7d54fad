#include "modules/onnx/handlers/resample.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace hearth::onnx {
namespace resample_parts {
namespace {

constexpr std::array<std::string_view, 7> kCoordinates{"half_pixel",
                                                       "half_pixel_symmetric",
                                                       "pytorch_half_pixel",
                                                       "align_corners",
                                                       "asymmetric",
                                                       "tf_half_pixel_for_nn",
                                                       "tf_crop_and_resize"};

// The place in the input of position i of the result.
double place_of(const SampleRule& rule, std::int64_t i) {
  const auto at = static_cast<double>(i);
  const auto from = static_cast<double>(rule.from);
  const auto to = static_cast<double>(rule.to);
  if (rule.coordinates == "align_corners") {
    const double length = rule.scale * from;
    return length == 1 ? 0 : at * (from - 1) / (length - 1);
  }
  if (rule.coordinates == "asymmetric") {
    return at / rule.scale;
  }
  if (rule.coordinates == "tf_half_pixel_for_nn") {
    return (at + 0.5) / rule.scale;
  }
  if (rule.coordinates == "tf_crop_and_resize") {
    return rule.to > 1
               ? rule.start * (from - 1) + at * (rule.end - rule.start) * (from - 1) / (to - 1)
               : 0.5 * (rule.start + rule.end) * (from - 1);
  }
  if (rule.coordinates == "pytorch_half_pixel" && to <= 1) {
    return 0;
  }
  const double place = (at + 0.5) / rule.scale - 0.5;
  if (rule.coordinates == "half_pixel_symmetric") {
    const double adjusted = to / (rule.scale * from);
    const double centre = from / 2;
    return centre * (1 - adjusted) + place;
  }
  return place;
}

std::int64_t nearest_of(const SampleRule& rule, double place) {
  const double low = std::floor(place);
  const bool is_half = place - low == 0.5;
  double chosen = std::round(place);
  if (rule.nearest == "floor") {
    chosen = low;
  } else if (rule.nearest == "ceil") {
    chosen = std::ceil(place);
  } else if (is_half) {
    chosen = rule.nearest == "round_prefer_ceil" ? low + 1 : low;
  }
  return std::clamp(static_cast<std::int64_t>(chosen), std::int64_t{0}, rule.from - 1);
}

double cubic_weight(double distance, double a) {
  const double d = std::abs(distance);
  if (d <= 1) {
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  }
  return d < 2 ? a * (((d - 5) * d + 8) * d - 4) : 0;
}

// Weights of the input's positions for one position of the result. With antialiasing, a scale below
// 1 widens the kernel.
std::vector<double> weights_at(const SampleRule& rule, std::int64_t i) {
  std::vector<double> weights(static_cast<std::size_t>(rule.from), 0);
  const double place = place_of(rule, i);
  const bool is_cubic = rule.mode == SampleMode::cubic;
  const double squeeze = rule.is_antialiased ? std::min(rule.scale, 1.0) : 1.0;
  const double reach = (is_cubic ? 2.0 : 1.0) / squeeze;
  const auto first = static_cast<std::int64_t>(std::floor(place - reach)) + 1;
  const auto last = static_cast<std::int64_t>(std::ceil(place + reach)) - 1;
  double sum = 0;
  for (std::int64_t at = first; at <= last; ++at) {
    const double distance = (static_cast<double>(at) - place) * squeeze;
    const double weight =
        is_cubic ? cubic_weight(distance, rule.cubic) : std::max(0.0, 1 - std::abs(distance));
    const bool is_outside = at < 0 || at >= rule.from;
    if (is_outside && (rule.excludes_outside || rule.is_antialiased)) {
      continue;
    }
    const std::int64_t inside = std::clamp(at, std::int64_t{0}, rule.from - 1);
    weights[static_cast<std::size_t>(inside)] += weight;
    sum += weight;
  }
  for (double& weight : weights) {
    weight /= sum == 0 ? 1 : sum;
  }
  return weights;
}

}  // namespace
}  // namespace resample_parts

std::string check_coordinates(std::string_view name) {
  return std::ranges::find(resample_parts::kCoordinates, name) != resample_parts::kCoordinates.end()
             ? std::string{}
             : fmt::format("attribute coordinate_transformation_mode is '{}'", name);
}

std::vector<bool> inside_of(const SampleRule& rule) {
  std::vector<bool> inside;
  for (std::int64_t i = 0; i < rule.to; ++i) {
    const double place = resample_parts::place_of(rule, i);
    inside.push_back(place >= 0 && place <= static_cast<double>(rule.from - 1));
  }
  return inside;
}

Tensor resampled(const Call& call, Tensor x, int axis, const SampleRule& rule) {
  if (rule.mode == SampleMode::nearest) {
    Sizes chosen;
    for (std::int64_t i = 0; i < rule.to; ++i) {
      chosen.push_back(resample_parts::nearest_of(rule, resample_parts::place_of(rule, i)));
    }
    return index_select(std::move(x), axis, positions_of(call, chosen));
  }
  std::vector<double> matrix;
  for (std::int64_t i = 0; i < rule.to; ++i) {
    const std::vector<double> row = resample_parts::weights_at(rule, i);
    matrix.insert(matrix.end(), row.begin(), row.end());
  }
  x = as_float(std::move(x));
  Tensor weights = reshape(vector_of(call, matrix, x.dtype()), {rule.to, rule.from});
  // The axis stands last in a product with the transposed weights.
  if (axis == x.rank() - 1) {
    return matmul(std::move(x), transpose(std::move(weights)));
  }
  Tensor turned = matmul(transpose(std::move(x), axis, -1), transpose(std::move(weights)));
  return transpose(std::move(turned), axis, -1);
}

}  // namespace hearth::onnx
