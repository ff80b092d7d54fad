// Resampling of pictures, axis by axis, by weights that the host computes from the sizes.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/handlers/resample.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hearth::onnx {
namespace resize_ops {
namespace {

struct Target {
  std::vector<int> axes = {};
  std::vector<double> scales = {};
  Sizes sizes = {};
  std::vector<double> regions = {};  // starts of the axes, then their ends
};

std::string check_resize(const NodeInfo& node) {
  const std::string mode = node.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic" && mode != "bilinear") {
    return fmt::format("attribute mode is '{}'", mode);
  }
  return check_coordinates(node.text("coordinate_transformation_mode", "half_pixel"));
}

std::int64_t floored(double value) {
  return static_cast<std::int64_t>(std::floor(value));
}

// Keeps the ratio of the axes' sizes: one scale for all.
void keep_ratio(Target& target, const Shape& shape, const std::string& policy) {
  if (policy == "stretch") {
    return;
  }
  const bool is_smaller = policy == "not_larger";
  double scale = target.scales.front();
  for (const double each : target.scales) {
    scale = is_smaller ? std::min(scale, each) : std::max(scale, each);
  }
  for (std::size_t i = 0; i < target.axes.size(); ++i) {
    target.scales[i] = scale;
    target.sizes[i] =
        static_cast<std::int64_t>(std::round(scale * static_cast<double>(shape[target.axes[i]])));
  }
}

std::vector<double> reals_input(Call& call, std::size_t i) {
  return call.has(i) ? reals_of(call.host(i)) : std::vector<double>{};
}

// Scales in input 1 (opset 10) or 2; sizes in input 3, which win; regions in input 1.
Target target_of(Call& call) {
  const Shape shape = call.shape(0);
  Target target;
  if (const Sizes* const axes = call.node().integers("axes"); axes != nullptr) {
    for (const std::int64_t axis : *axes) {
      target.axes.push_back(call.axis(axis, shape.rank()));
    }
  } else {
    target.axes.resize(static_cast<std::size_t>(shape.rank()));
    std::iota(target.axes.begin(), target.axes.end(), 0);
  }
  const bool is_old = call.opset() < 11;
  target.scales = reals_input(call, is_old ? 1 : 2);
  if (is_old && target.scales.empty()) {  // Upsample before opset 9
    if (const auto* given = call.node().attribute<std::vector<double>>("scales")) {
      target.scales = *given;
    }
  }
  target.regions = is_old ? std::vector<double>{} : reals_input(call, 1);
  const bool has_sizes = !is_old && call.has(3) && call.shape(3).element_count() > 0;
  target.sizes = has_sizes ? call.integers(3) : Sizes{};
  if (std::max(target.scales.size(), target.sizes.size()) != target.axes.size()) {
    call.refuse("it has {} scales and {} sizes for {} axes",
                target.scales.size(),
                target.sizes.size(),
                target.axes.size());
  }
  if (has_sizes) {
    target.scales.clear();
    for (std::size_t i = 0; i < target.axes.size(); ++i) {
      target.scales.push_back(static_cast<double>(target.sizes[i]) /
                              static_cast<double>(shape[target.axes[i]]));
    }
    keep_ratio(target, shape, call.node().text("keep_aspect_ratio_policy", "stretch"));
    return target;
  }
  for (std::size_t i = 0; i < target.axes.size(); ++i) {
    target.sizes.push_back(floored(target.scales[i] * static_cast<double>(shape[target.axes[i]])));
  }
  return target;
}

SampleRule rule_of(const Call& call, const Target& target, std::size_t i) {
  const NodeInfo& node = call.node();
  const bool is_old = call.opset() < 11;
  SampleRule rule{.from = call.shape(0)[target.axes[i]],
                  .to = target.sizes[i],
                  .scale = target.scales[i],
                  .coordinates = node.text("coordinate_transformation_mode",
                                           is_old ? "asymmetric" : "half_pixel"),
                  .nearest = node.text("nearest_mode", is_old ? "floor" : "round_prefer_floor"),
                  .cubic = node.real("cubic_coeff_a", -0.75),
                  .excludes_outside = node.integer("exclude_outside", 0) != 0,
                  .is_antialiased = node.integer("antialias", 0) != 0};
  const std::string mode = node.text("mode", "nearest");
  rule.mode = mode == "cubic"     ? SampleMode::cubic
              : mode == "nearest" ? SampleMode::nearest
                                  : SampleMode::linear;
  if (rule.coordinates == "tf_crop_and_resize") {
    if (target.regions.size() != 2 * target.axes.size()) {
      call.refuse(
          "it has {} numbers of regions for {} axes", target.regions.size(), target.axes.size());
    }
    rule.start = target.regions[i];
    rule.end = target.regions[i + target.axes.size()];
  }
  return rule;
}

void resize(Call& call) {
  const OnnxType type = call.type(0);
  const Target target = target_of(call);
  const double outside = call.node().real("extrapolation_value", 0);
  Tensor x = call.tensor(0);
  const bool is_crop =
      call.node().text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  std::vector<std::pair<int, std::vector<bool>>> insides;
  for (std::size_t i = 0; i < target.axes.size(); ++i) {
    const SampleRule rule = rule_of(call, target, i);
    const bool is_same = rule.from == rule.to && rule.scale == 1 && !is_crop;
    if (is_same) {
      continue;
    }
    x = resampled(call, std::move(x), target.axes[i], rule);
    if (is_crop) {
      insides.emplace_back(target.axes[i], inside_of(rule));
    }
  }
  x = cast(std::move(x), *device_type(type));
  for (const auto& [axis, inside] : insides) {
    std::vector<double> flags;
    for (const bool is_inside : inside) {
      flags.push_back(is_inside ? 1 : 0);
    }
    const Tensor mask = along_axis(vector_of(call, flags, DType::f32), x.rank(), axis);
    x = where(greater(mask, 0.5), x, outside);
  }
  call.give(std::move(x), type);
}

constexpr OpRow kRows[] = {
    {.op = "Upsample", .since = 7, .run = resize, .host_inputs = inputs(1), .check = check_resize},
    {.op = "Resize",
     .since = 10,
     .run = resize,
     .host_inputs = inputs(1, 2, 3),
     .check = check_resize},
    {.op = "GridSample", .since = 16, .run = grid_sample, .check = check_grid_sample},
    {.op = "RoiAlign", .since = 10, .run = roi_align, .host_inputs = inputs(1, 2)},
    {.op = "AffineGrid", .since = 20, .run = affine_grid, .host_inputs = inputs(1)},
};

}  // namespace
}  // namespace resize_ops

std::span<const OpRow> resize_rows() {
  return resize_ops::kRows;
}

}  // namespace hearth::onnx
