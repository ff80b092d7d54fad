#include "modules/onnx/handlers/resample.hpp"

#include <algorithm>
#include <cmath>

namespace hearth::onnx {
namespace region_parts {
namespace {

// One region's rows or columns of samples, with weights of the picture's positions.
// A sample below -1 or beyond the size counts as 0.
std::vector<double> bin_weights(double place, std::int64_t size) {
  std::vector<double> weights(static_cast<std::size_t>(size), 0);
  if (place < -1 || place > static_cast<double>(size)) {
    return weights;
  }
  const double inside = std::clamp(place, 0.0, static_cast<double>(size - 1));
  const auto low = static_cast<std::size_t>(inside);
  const double rest = inside - static_cast<double>(low);
  weights[low] += 1 - rest;
  if (rest > 0) {
    weights[low + 1] += rest;
  }
  return weights;
}

struct RoiRule {
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t ratio = 0;
  double scale = 1;
  bool is_half_pixel = false;
  bool is_max = false;
};

struct RoiAxis {
  std::int64_t samples = 1;     // a bin
  std::vector<double> weights;  // [bins·samples, size]
};

RoiAxis roi_axis(
    double start, double end, std::int64_t bins, std::int64_t size, const RoiRule& rule) {
  const double offset = rule.is_half_pixel ? 0.5 : 0;
  const double begin = start * rule.scale - offset;
  double length = end * rule.scale - offset - begin;
  length = rule.is_half_pixel ? length : std::max(length, 1.0);
  const double bin = length / static_cast<double>(bins);
  RoiAxis axis{.samples = rule.ratio > 0 ? rule.ratio : static_cast<std::int64_t>(std::ceil(bin)),
               .weights = {}};
  axis.samples = std::max<std::int64_t>(axis.samples, 1);
  for (std::int64_t i = 0; i < bins * axis.samples; ++i) {
    const auto number = static_cast<double>(i / axis.samples);
    const auto sample = static_cast<double>(i % axis.samples);
    const double place =
        begin + number * bin + (sample + 0.5) * bin / static_cast<double>(axis.samples);
    const std::vector<double> row = bin_weights(place, size);
    axis.weights.insert(axis.weights.end(), row.begin(), row.end());
  }
  return axis;
}

}  // namespace
}  // namespace region_parts

// A region's samples are a product with the weights of its rows and of its columns.
void roi_align(Call& call) {
  const OnnxType type = call.type(0);
  const Shape shape = call.shape(0);
  const HostArray regions = call.host(1);
  const Sizes pictures = call.integers(2);
  region_parts::RoiRule rule{.height = call.node().integer("output_height", 1),
                             .width = call.node().integer("output_width", 1),
                             .ratio = call.node().integer("sampling_ratio", 0),
                             .scale = call.node().real("spatial_scale", 1),
                             .is_max = call.node().text("mode", "avg") == "max"};
  rule.is_half_pixel = call.opset() >= 16 && call.node().text("coordinate_transformation_mode",
                                                              "half_pixel") == "half_pixel";
  if (rule.is_max) {
    call.refuse("mode 'max' takes the largest weighted corner, which no composition of ops gives");
  }
  const Tensor x = widened(call.take(0));
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const auto at = [&](std::size_t k) { return real_at(regions, i * 4 + k); };
    const region_parts::RoiAxis rows =
        region_parts::roi_axis(at(1), at(3), rule.height, shape[2], rule);
    const region_parts::RoiAxis columns =
        region_parts::roi_axis(at(0), at(2), rule.width, shape[3], rule);
    const Tensor by_row = reshape(vector_of(call, rows.weights, x.dtype()), {-1, shape[2]});
    const Tensor by_column = reshape(vector_of(call, columns.weights, x.dtype()), {-1, shape[3]});
    const Tensor picture = squeeze(slice(x, 0, {.start = pictures[i], .stop = pictures[i] + 1}), 0);
    Tensor samples = matmul(by_row, matmul(picture, transpose(by_column)));
    samples = reshape(std::move(samples),
                      {shape[1], rule.height, rows.samples, rule.width, columns.samples});
    results.push_back(mean(std::move(samples), {2, 4}));
  }
  if (results.empty()) {
    call.give(zeros(call.device(), {0, shape[1], rule.height, rule.width}), type);
    return;
  }
  call.give(stack(results, 0), type);
}

}  // namespace hearth::onnx
