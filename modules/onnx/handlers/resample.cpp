#include "modules/onnx/handlers/resample.hpp"

#include <hearth/runtime/axis_taps.hpp>

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
  std::vector<double> places;
  for (std::int64_t i = 0; i < rule.to; ++i) {
    places.push_back(resample_parts::place_of(rule, i));
  }
  const SourceLoc loc = call.context().loc;
  if (rule.mode == SampleMode::nearest) {
    Sizes chosen;
    for (const double place : places) {
      chosen.push_back(resample_parts::nearest_of(rule, place));
    }
    return detail::elements_at(std::move(x), axis, chosen, loc);
  }
  const detail::TapKernel kernel{.is_cubic = rule.mode == SampleMode::cubic,
                                 .coefficient = rule.cubic,
                                 .squeeze = rule.is_antialiased ? std::min(rule.scale, 1.0) : 1.0,
                                 .excludes_outside = rule.excludes_outside || rule.is_antialiased};
  return detail::sum_taps(
      as_float(std::move(x)), axis, detail::taps_at(places, rule.from, kernel), loc);
}

}  // namespace hearth::onnx
